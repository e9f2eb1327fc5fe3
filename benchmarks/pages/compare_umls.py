"""The page of compare_umls.py."""

from __future__ import annotations

from pages.comparison import compared, gap_of, mean_of, statuses
from pages.markdown import Result, origin, table


def text(result: Result) -> str:
    models = result["models"]
    parts = []
    for name, m in models.items():
        rows = {select: {row["explainer"]: row for row in table} for select, table in m["tables"].items()}
        of_mask = [
            [
                explainer,
                *(compared(row, metric, "paper") for metric in ("F+", "F−", "Sparsity", "Sparsity (kept edges)")),
                f"{m['paces'][explainer]['scoring_cpu']:.3f}",
                *(f"{m['paces'][explainer]['whole_cpu'][select]:.3f}" for select in rows),
            ]
            for explainer, row in rows["mask"].items()
        ]
        of_paths = {
            select: [
                [
                    explainer,
                    *(compared(row, f"HΔR:{top}", "paper") for top in (1, 3, 5)),
                    *(compared(row, f"HΔR:{top}", "powerlink") for top in (1, 3, 5)),
                    compared(row, "logit drop, all paths", "powerlink", interval=True),
                ]
                for explainer, row in table.items()
            ]
            for select, table in rows.items()
        }
        hits = [f"HΔR:{top}, paper" for top in (1, 3, 5)] + [f"HΔR:{top}" for top in (1, 3, 5)]
        left_out = ", ".join(f"{count} {why}" for why, count in m["left_out"].items())
        parts.append(f"""## {name}

Test MRR {m["mrr"]:.3f}. {m["queries"]} queries, of {m["looked at"]} test facts looked at ({left_out}). Statuses: {statuses(m)}.
{m["cpu seconds"]:.0f} s of processor time in all.

The mask, and processor seconds a query (edge scores alone; with everything, by each choice):

{table(["explainer", "F+", "F−", "Sparsity", "Sparsity of kept", "scores", "own order", "carried"], of_mask)}

Paths in the explainer's own order (the paper's protocol):

{table(["explainer", *hits, "logit drop"], of_paths["mask"])}

Paths chosen among the explainer's own candidates by what their facts carry together:

{table(["explainer", *hits, "logit drop"], of_paths["carried"])}
""")
    pairs = list(dict.fromkeys((o["one"], o["other"]) for m in models.values() for o in m["overlaps"]["mask"]))
    overlaps = {name: {(o["one"], o["other"]): o for o in m["overlaps"]["mask"]} for name, m in models.items()}
    agreement = [
        [f"{one}, {other}"]
        + [f"{100 * of[one, other]['facts']:.0f} / {100 * of[one, other]['first']:.0f}" for of in overlaps.values()]
        for one, other in pairs
    ]
    drop = ("logit drop, all paths", "powerlink")
    better = {
        select: [name for name, m in models.items() if gap_of(m, select, "slopes", *drop) == "▲"]
        for select in ("mask", "carried")
    }
    floor = [
        name
        for name, m in models.items()
        if mean_of(m, "low-degree", "F+") > mean_of(m, "power-link", "F+")
        and mean_of(m, "low-degree", "F−") < mean_of(m, "power-link", "F−")
    ]

    def more(one: tuple[str, str], other: tuple[str, str]) -> str:
        """Say on which models one explainer, by one choice, lowers the logit more than another."""
        (a, how), (b, by) = one, other
        return _of_models(
            [n for n, m in models.items() if mean_of(m, a, *drop, how) > mean_of(m, b, *drop, by)], models
        )

    lowest: dict[str, list[str]] = {}
    for name, m in models.items():
        lowest.setdefault(min(m["paces"], key=lambda explainer: mean_of(m, explainer, "F−")), []).append(name)
    least = "; ".join(f"`{explainer}` on {_of_models(names, models)}" for explainer, names in lowest.items())
    moved = {
        protocol: ", ".join(
            f"{max(mean_of(m, explainer, 'HΔR:5', protocol) for explainer in m['paces']):.2f} ({name})"
            for name, m in models.items()
        )
        for protocol in ("powerlink", "paper")
    }
    dearest = max(
        m["paces"]["slopes"]["scoring_cpu"] / m["paces"]["power-link"]["scoring_cpu"] for m in models.values()
    )
    peers = ", ".join(
        f"{100 * of['page-link', 'gnn-explainer']['first']:.0f} % ({name})" for name, of in overlaps.items()
    )
    fits = [m.get("fit", {"tried": []})["tried"] for m in models.values()]
    to_fit, ways = sum(entry["seconds"] for tried in fits for entry in tried), max(map(len, fits))
    fitted = (
        f"`pg-explainer` was fitted on {result['fit']} training facts of the same model, in the best of {ways} ways by the logit drop on "
        "validation facts."
    )
    if not all("pg-explainer" in m["paces"] for m in models.values()):
        fitted = "`pg-explainer` took no part in this run."
    return f"""# Explainers side by side on UMLS

{origin(result)}

One model of each encoder with DistMult, width 100. The first {result["queries"]} test facts that a model gives more than one half, the same for
every explainer of the model; five paths of at most three hops. All look at the same pruned graph and have their own 40 candidates alone: the
default of `explain`, `slopes` beside `low-degree` on the whole graph, is not in these tables. {fitted}
▲ above and ▼ below `power-link`: the 95 % interval of the mean difference, queries resampled in pairs, leaves out zero. Where nothing
differs, one comparison in twenty is marked all the same. `powerlink compare` makes the same tables with an interval for every
figure.

The run took {sum(m["cpu seconds"] for m in models.values()):.0f} s of processor time{f", and {to_fit:.0f} s to fit `pg-explainer` in {ways} ways each" if to_fit else ""}, without training.

What it shows.

* **Slopes order paths better than the learned masks of the paper.** `slopes`, the default, learns nothing: its scores take at most {100 * dearest:.1f} % of
  `power-link`'s time. In its own order it lowers the logit more than `power-link` on {_of_models(better["mask"], models)}, and chosen by
  what facts carry together on {_of_models(better["carried"], models)}. {_drops(models)}
  `power-link-plus` searches its paths by the slopes, so it shows theirs ({_same_paths(overlaps)} of the facts are the same); what it learned is its mask.
* **`carried` is not made for these figures.** It asks which facts carry something together, not how far the score falls, and shows paths of the fewest
  facts first. `slopes` in its own order lowers the logit more than by it on {more(("slopes", "mask"), ("slopes", "carried"))}. `power-link` by it lowers the
  logit more than in its own order on {more(("power-link", "carried"), ("power-link", "mask"))}, and even `random` by it is above that own order on
  {more(("random", "carried"), ("power-link", "mask"))}.
* **On a one-layer model the mask's figures can be had without asking it.** `low-degree` gives every edge into head or tail a 1, and has a
  higher F+ and a lower F− than `power-link` on {_of_models(floor, models)}. The lowest F− has {least}. These figures judge
  masks, not paths: the best mask does not have the best paths.
* **Do PaGE-Link and GNNExplainer agree?** On the first path, in {peers} of the queries; on the facts of the first
  five paths far less (below). The five paths of `page-link` are nearer to those of `low-degree`, which never asks the model.
* HΔR:5 among all entities, filtered, is at most {moved["powerlink"]} in any explainer's own order. In the paper's protocol, which removes all parallel edges in one direction and ranks inside the computation graph, it is at most
  {moved["paper"]}.

{chr(10).join(parts)}
## Do they show the same paths?

In their own order: shared facts of the first five paths (Jaccard index) / same first path, both in per cent.

{table(["explainers", *models], agreement)}
"""


def _drops(models: Result) -> str:
    """Tell the fall of the logit of both in their own order and by what facts carry together."""
    told = []
    for name, m in models.items():
        values = [
            f"{mean_of(m, explainer, 'logit drop, all paths', 'powerlink', select):.3f}"
            for select in ("mask", "carried")
            for explainer in ("power-link", "slopes")
        ]
        told.append(f"{name} {values[0]} against {values[1]}, by `carried` {values[2]} against {values[3]}")
    return "; ".join(told) + "."


def _same_paths(overlaps: dict[str, dict[tuple[str, str], Result]]) -> str:
    """Say how many facts `power-link-plus` and `slopes` show alike in their own order, on the model where it is least."""
    pair = "power-link-plus", "slopes"
    return f"{100 * min(of[pair]['facts'] for of in overlaps.values()):.0f} %"


def _of_models(some: list[str], models: Result) -> str:
    if len(some) == len(models):
        return "all three models" if len(models) == 3 else "every model"
    return f"{len(some)} of {len(models)} models" + (f" ({', '.join(some)})" if some else "")
