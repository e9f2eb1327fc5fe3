"""The page of faithfulness.py."""

from __future__ import annotations

from pages.markdown import Result, origin, table


def text(result: Result) -> str:
    models = result["models"]
    runs = list(next(iter(models.values()))["mean drop"])
    drops = [
        [name, f"{m['mrr']:.3f}", str(m["queries"]), *(f"{m['mean drop'][run]:.3f}" for run in runs)]
        for name, m in models.items()
    ]
    shares = [
        [
            name,
            str(m["exhaustive"]["queries"]),
            f"{m['exhaustive']['mean drop']:.3f}",
            f"{m['exhaustive']['default on the same']:.3f}",
            f"{m['exhaustive']['share']:.3f}",
            f"{m['above random by proof']:.2f}",
            f"{m['not below random by proof']:.2f}",
            f"{m['paper order above random order']:.2f}",
        ]
        for name, m in models.items()
    ]
    return f"""# Do the shown paths carry the prediction?

{origin(result)}

Trained models, test queries whose answer they rank first (tails, then heads), five paths of at most three hops. The paths'
facts are removed and the figure is the mean fall of the model's logit. A query is taken if it has more than 40 routes between
head and tail; with fewer, `random` is handed every path there is and nothing can be above it. `proof` chooses greedily by that fall, among the explainer's own 40
candidates (the default adds the gradient's 40); `mask` takes the explainer's own order, as the paper does.

{table(["model", "test MRR", "queries", *runs], drops)}

Exhaustive search chooses greedily among *all* paths of at most three hops of the unpruned graph, on the first queries that
have at most 10,000 of them. `share` is the default's fall over that.

{table(["model", "queries", "exhaustive", "default", "share", "above random", "not below random", "paper's order above random order"], shares)}

What to take from it. Proof matters more than who proposes: every explainer gains by it. Plain gradients propose better than
the learned mask on these models, and in its own order the mask is often little better than chance; the two together, judged
by proof, are best. That is why the default is what it is.
"""
