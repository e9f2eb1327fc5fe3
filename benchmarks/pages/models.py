"""The page of train_models.py: the paper's eighteen models."""

from __future__ import annotations

from pages.markdown import Result, table
from paper_accuracy import PAPER, Figures, identical
from powerlink.models.link_model import ModelSettings
from powerlink.models.presets import PRESETS
from powerlink.models.training import TrainingSettings


def text(*results: Result) -> str:
    by_name = {result["preset"]: result for result in results}
    accuracy = [_model_row(name, paper, by_name.get(name)) for name, paper in PAPER.items()]
    effort = [
        [
            name,
            str(r["epochs"]),
            str(r["best_epoch"]),
            f"{r['configuration']['training']['lr']:g}",
            str(r["configuration"]["training"]["batch_size"]),
            f"{r['seconds_per_epoch']:.2f}",
            f"{r['seconds']['to_best']:.0f}",
            f"{r['seconds']['total']:.0f}",
            str(len(r["tried"])),
            f"{r['valid']['mrr']:.3f}",
            r["device"],
            r["date"],
            f"`{r['command']}`",
        ]
        for name, r in ((name, by_name[name]) for name in PAPER if name in by_name)
    ]
    reached = sum(row[3] == "yes" for row in accuracy)
    said = [name for name, figures in PAPER.items() if figures.possible]
    bounds = [
        [name, f"{f.least_mrr:.3f}", f"{f.mrr:.3f}", f"{f.most_mrr:.3f}", "yes" if f.possible else "**no**"]
        for name, f in PAPER.items()
    ]
    return f"""# The paper's eighteen models

Made by `python benchmarks/train_models.py`, which starts from `powerlink presets`; {len(results)} of {len(PAPER)} trained, {reached}
of them with the paper's test MRR or more. Filtered, heads and tails, ties at their mean. Each epoch and each configuration was
chosen by validation MRR alone; the test facts were ranked once, at the end, with the weights as they are saved in half precision.
Each figure is *ours / the paper's*.

{table(["model", "test MRR", "paper", "reached", "Hits@1", "Hits@3", "Hits@10", "MRR, tails only"], accuracy)}

The last column is for comparison with papers that rank tails alone: heads are the harder half, and the paper does not say that it
ranked them.

## What it took

Seconds are wall time of training and validation. `tried` counts the configurations; each is in `benchmarks/results/models/` with
its settings and its validation MRR.

{table(["model", "epochs", "best", "lr", "batch", "s/epoch", "seconds to best", "seconds", "tried", "valid MRR", "device", "date", "command"], effort) if effort else "None is trained yet."}

{_beyond_presets(by_name)}

## Rows not reached, and what was tried

Every configuration trained to its end; the best by validation MRR gave the row above. Short looks at other settings (20 to
120 epochs, validation only) are not counted.

{_not_reached(by_name)}

## Can the paper's rows be right?

An MRR is bound by its own hits. Ranks 2 and 3 count at least 1/3 and at most 1/2, ranks 4 to 10 between 1/10 and 1/4, the rest
between 0 and 1/11:

    H@1 + (H@3 − H@1)/3 + (H@10 − H@3)/10  ≤  MRR  ≤  H@1 + (H@3 − H@1)/2 + (H@10 − H@3)/4 + (1 − H@10)/11

{table(["model", "least MRR", "paper's MRR", "most MRR", "possible"], bounds)}

{_doubts(len(said))}
"""


def _model_row(name: str, paper: Figures, result: Result | None) -> list[str]:
    theirs = {"hits@1": paper.hits_1, "hits@3": paper.hits_3, "hits@10": paper.hits_10}
    if result is None:
        return [name, "not trained yet", f"{paper.mrr:.3f}", "–", *(f"– / {v:.3f}" for v in theirs.values()), "–"]
    ours = result["test"]
    reached = "yes" if round(ours["mrr"], 3) >= paper.mrr else f"no (−{paper.mrr - round(ours['mrr'], 3):.3f})"
    return [
        name,
        f"{ours['mrr']:.3f}",
        f"{paper.mrr:.3f}",
        reached,
        *(f"{ours[key]:.3f} / {value:.3f}" for key, value in theirs.items()),
        f"{result['test_tails']['mrr']:.3f}" if "test_tails" in result else "–",
    ]


def _beyond_presets(by_name: dict[str, Result]) -> str:
    """Say which rows are not what the preset of today gives, and how far that is from them."""
    lines = []
    for name, result in by_name.items():
        if _is_preset(name, result["configuration"]):
            continue
        preset = next((tried for tried in result["tried"] if _is_preset(name, tried["configuration"])), None)
        if preset is None:
            lines.append(f"* `{name}`: its preset as it is now was not trained to the end.")
        else:
            lines.append(
                f"* `{name}`: the preset has a validation MRR of {preset['valid_mrr']:.4f} at "
                f"{preset['seconds_per_epoch']:.2f} s an epoch, the row above {result['valid']['mrr']:.4f} at "
                f"{result['seconds_per_epoch']:.2f} s."
            )
    if not lines:
        return "Every row is what its preset gives."
    return "\n".join(["Every row is what its preset gives, but for these. Presets are to be quick, too.", "", *lines])


def _is_preset(name: str, configuration: Result) -> bool:
    shape, training = ModelSettings.described(configuration["model"]), TrainingSettings(**configuration["training"])
    return (shape, training) == (PRESETS[name].model, PRESETS[name].training)


TRIED = (  # settings that are told of those that have them
    *("widths", "output_dropout", "layer_dropout", "blocks", "self_loop", "degree_norm", "first_relation_weight"),
    *("filters", "interleave", "input_dropout", "feature_dropout", "hidden_dropout"),
)


def _not_reached(by_name: dict[str, Result]) -> str:
    """List the rows below the paper's with the settings of every try."""
    lines = []
    for name, paper in PAPER.items():
        result = by_name.get(name)
        if result is None or round(result["test"]["mrr"], 3) >= paper.mrr:
            continue
        tails = f", tails alone {result['test_tails']['mrr']:.3f}" if "test_tails" in result else ""
        lines.append(f"* `{name}` ({result['test']['mrr']:.3f}{tails}; the paper {paper.mrr:.3f}):")
        lines += [f"  * {_one_try(tried)}" for tried in result["tried"]]
    return "\n".join(lines) or "None."


def _one_try(tried: Result) -> str:
    model, training = (
        ModelSettings.described(tried["configuration"]["model"]).flat(),
        tried["configuration"]["training"],
    )
    shape = [
        f"{key.replace('_', ' ')} {'/'.join(map(str, model[key])) if key == 'widths' else model[key]}"
        for key in TRIED
        if key in model
    ]
    how = f"lr {training['lr']:g}, batch {training['batch_size']}, {tried['epochs']} epochs"
    if training["weight_decay"]:
        how += f", weight decay {training['weight_decay']:g}"
    return f"{', '.join(shape)}; {how}: validation MRR {tried['valid_mrr']:.3f}"


def _doubts(possible: int) -> str:
    """Say which rows of the paper's table contradict themselves, and which only look odd."""
    lines = [f"{possible} of {len(PAPER)} rows are within their bounds."]
    for name, figures in PAPER.items():
        if not figures.possible:
            lines.append(
                f"* `{name}`: its MRR of {figures.mrr:.3f} is below {'its own Hits@1 of ' + format(figures.hits_1, '.3f') if figures.mrr < figures.hits_1 else 'what its hits allow'}. "
                f"No ranks give these figures: with such hits the MRR is at least {figures.least_mrr:.3f}. To reach this MRR says little; look at the hits."
            )
    for one, other in identical():
        lines.append(
            f"* `{one}` and `{other}` agree in all four figures. Two decoders that rank thousands of facts alike to three decimals are not "
            "impossible, but one row copied from the other is likelier."
        )
    lines.append(
        "* `fb15k-237/rgcn-conve` and `fb15k-237/rgcn-distmult`: the arithmetic allows 0.430 and 0.380, so it does not refute them. But they "
        f"stand above `compgcn-conve` ({PAPER['fb15k-237/compgcn-conve'].mrr:.3f}) in MRR with no more Hits@10 ({PAPER['fb15k-237/rgcn-conve'].hits_10:.3f} and "
        f"{PAPER['fb15k-237/rgcn-distmult'].hits_10:.3f} against {PAPER['fb15k-237/compgcn-conve'].hits_10:.3f}), so an unusual share of the hits in the first ten would be first ranks "
        f"({PAPER['fb15k-237/rgcn-conve'].hits_1 / PAPER['fb15k-237/rgcn-conve'].hits_10:.0%} and {PAPER['fb15k-237/rgcn-distmult'].hits_1 / PAPER['fb15k-237/rgcn-distmult'].hits_10:.0%}; "
        f"of the other seven rows of this dataset at most {max(f.hits_1 / f.hits_10 for n, f in PAPER.items() if n.startswith('fb') and n not in ('fb15k-237/rgcn-conve', 'fb15k-237/rgcn-distmult')):.0%}). CompGCN's own paper reports 0.355 at its best on this dataset."
    )
    return "\n".join([lines[0], "", *lines[1:]])
