"""The page of paper_protocol.py: our figures beside the paper's."""

from __future__ import annotations

from pages.comparison import compared, entry, gap_of, mean_of, row_of, statuses
from pages.markdown import Result, in_words, origin, table
from paper_explanations import PAPER, PAPER_SECONDS, Figures

METRICS = ("F+", "F−", "Sparsity", "HΔR:1", "HΔR:3", "HΔR:5")
METHODS = ("power-link", "page-link", "gnn-explainer", "pg-explainer")
CHOICES = {
    "mask": "in the explainer's own order (the paper's)",
    "carried": "by what their facts carry together, among its own candidates",
}
LESS_IS_BETTER = {"F−"}
ABOUT = {
    "wgcn-distmult-plain": """WGCN-DistMult in the paper's shape: no self-loop, sums that grow with the degree, relations whose weights begin at 1. A node is
what its neighbours say, so its facts weigh much.""",
    "wgcn-distmult": """WGCN-DistMult as our preset has it: with a self-loop, degrees divided out, and relations whose weights begin at 0.1. It ranks
better and leans on its neighbours less, so each method moves it less.""",
}


def text(result: Result) -> str:
    models = result["models"]
    return f"""# The paper's protocol

FB15k-237, the settings of the paper's table "The detailed setup of the experiment": 50 steps at a rate of 0.005, order 3, γ = 0.03,
2-core, hub limit 200, 40 paths of at most five hops, of which HΔR:m removes the first m. Explained are the first test facts with a
probability above one half whose computation graph is under the paper's cap on nodes. The peers have their own defaults.
PGExplainer-Link is fitted on training facts; in the paper's release it never is. Models are ours, so figures are beside the paper's, not
the same experiment: F± compares probabilities, which depend on how a model was trained.

Cells are *ours / the paper's*. ▲ above and ▼ below `power-link`: the 95 % interval of the mean difference, queries resampled in pairs,
leaves out zero.

{chr(10).join(_model(name, model) for name, model in models.items())}"""


def _model(name: str, model: Result) -> str:
    rows = list(model["paces"])
    ablations = [explainer for explainer in rows if explainer not in METHODS]
    left_out = ", ".join(f"{count} {why}" for why, count in model["left_out"].items())
    parts = [
        f"""## {name}

{ABOUT[name] + chr(10) + chr(10) if name in ABOUT else ""}{origin(model)}

Test MRR {model["mrr"]:.3f}. {model["queries"]} queries of {model["looked at"]} test facts looked at ({left_out}); {model["setup"]["hops"]} hop{"s" if model["setup"]["hops"] > 1 else ""}, at most {model["setup"]["max_nodes"]:,} nodes:
{model["nodes"]:,.0f} nodes and {model["edges"]:,.0f} edges on average. Statuses: {statuses(model)}.{_fit(model)}

### Four methods

{_beside_the_paper(name, model, [explainer for explainer in rows if explainer in METHODS])}

{_order(name, model)}"""
    ]
    if ablations:
        parts.append(f"""### Ablations

{_beside_the_paper(name, model, ["power-link", *ablations])}

{_ablated(name, model, ablations)}""")
    parts += [_ours(model, select, words) for select, words in CHOICES.items() if select in model["tables"]]
    parts.append(_runtime(model))
    return "\n\n".join(parts) + "\n"


def _fit(model: Result) -> str:
    if "fit" not in model:
        return ""
    fit = model["fit"]
    tried = "; ".join(f"{in_words(t['settings'])} {t['logit drop']:.3f}" for t in fit["tried"])
    return (
        f"\n`pg-explainer` was fitted on {fit['queries']} training facts with the best of {len(fit['tried'])} settings by the logit drop on as many "
        f"validation facts:\n{tried}."
    )


def _beside_the_paper(name: str, model: Result, explainers: list[str]) -> str:
    rows = []
    for explainer in explainers:
        row, paper = row_of(model, "mask", explainer), PAPER.get(name, {}).get(explainer)
        theirs = [f"{value:.3f}" for value in paper] if paper else ["–"] * len(METRICS)
        rows.append([explainer, *(f"{compared(row, m, 'paper')} / {t}" for m, t in zip(METRICS, theirs, strict=True))])
    return table(["explainer", *METRICS], rows)


def _order(name: str, model: Result) -> str:
    """Say in which figures Power-Link leads its peers, here and in the paper."""
    peers = [explainer for explainer in METHODS[1:] if explainer in model["paces"]]
    lines = []
    for place, metric in enumerate(METRICS):
        ours = {explainer: mean_of(model, explainer, metric) for explainer in (METHODS[0], *peers)}
        theirs = {explainer: PAPER[name][explainer][place] for explainer in (METHODS[0], *peers)}
        lines.append(f"{metric} {_best(metric, ours)} (paper: {_best(metric, theirs)})")
    return f"The best of these: {'; '.join(lines)}."


def _best(metric: str, of: dict[str, float]) -> str:
    """Name the best at three decimals; several where they are alike."""
    best = round((min if metric in LESS_IS_BETTER else max)(of.values()), 3)
    return " and ".join(name for name, value in of.items() if round(value, 3) == best)


def _ablated(name: str, model: Result, ablations: list[str]) -> str:
    """Say for each ablation what moved HΔR:5, and whether the paper's moved the same way."""
    told = []
    for ablation in ablations:
        mark = gap_of(model, "mask", ablation, "HΔR:5", "paper")
        moved = {"▲": "raises", "▼": "lowers", "": "does not clearly move"}[mark]
        paper: Figures | None = PAPER.get(name, {}).get(ablation)
        theirs = ""
        if paper is not None:
            theirs = f" (paper: {paper.hit_5 - PAPER[name]['power-link'].hit_5:+.3f})"
        gap = entry(row_of(model, "mask", ablation)["differences"], "HΔR:5", "paper")
        told.append(f"`{ablation}` {moved} HΔR:5, by {gap['mean']:+.3f}{theirs}" if gap else f"`{ablation}`: no figure")
    return "; ".join(told) + "."


def _ours(model: Result, select: str, words: str) -> str:
    hits = [f"HΔR:{top}" for top in (1, 3, 5)]
    rows = [
        [
            row["explainer"],
            *(compared(row, metric, "powerlink") for metric in hits),
            compared(row, "logit drop, all paths", "powerlink", interval=True),
            *([] if select == "mask" else [compared(row, metric, "paper") for metric in hits]),
        ]
        for row in model["tables"][select]
    ]
    more = [] if select == "mask" else [f"{hit}, paper's protocol" for hit in hits]
    return f"""### Our protocol, paths {words}

Facts are removed in both directions, and ranks are among all entities, filtered.

{table(["explainer", *hits, "logit drop", *more], rows)}"""


def _runtime(model: Result) -> str:
    alone = model["one at a time"]
    select = next(iter(model["tables"]))
    rows = [
        [
            explainer,
            f"{pace['scoring']:.3f}",
            f"{pace['whole'][select]:.3f}",
            f"{alone['seconds'][explainer]:.3f}" if explainer in alone["seconds"] else "–",
        ]
        for explainer, pace in model["paces"].items()
    ]
    rows += [
        [name, "–", "–", f"{seconds:.3f}"] for name, seconds in alone["seconds"].items() if name not in model["paces"]
    ]
    said = "; ".join(f"{name} {seconds:g} s" for name, seconds in PAPER_SECONDS.items())
    return f"""### Seconds a query

By the clock, on the same queries in the same run. `edge scores`: the mask alone, queries in batches; `everything`: with extraction, search and
both protocols' figures. `one at a time`: edge scores of {alone["queries"]} of the queries, each alone, explainers in turns. The paper (WGCN-ConvE, one V100, one
at a time): {said}. {_faster(model)}

{table(["explainer", "edge scores", "everything", "one at a time"], rows)}"""


def _faster(model: Result) -> str:
    """Say how Power-Link stands to PaGE-Link, as it came out."""
    batched = {name: pace["scoring"] for name, pace in model["paces"].items()}
    told = []
    for how, seconds in (("in batches", batched), ("one at a time", model["one at a time"]["seconds"])):
        if {"power-link", "page-link"} <= seconds.keys():
            ratio = seconds["power-link"] / seconds["page-link"]
            word = f"{max(ratio, 1 / ratio):.1f} times as {'slow' if ratio > 1 else 'fast'} as"
            told.append(f"{how} Power-Link is {word} PaGE-Link")
    return f"Here {', and '.join(told)}." if told else ""
