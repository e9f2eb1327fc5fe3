"""The page of umls_models.py."""

from __future__ import annotations

from pages.markdown import Result, origin, table


def text(result: Result) -> str:
    rows = [
        [
            name,
            *(f"{m['test'][key]:.3f}" for key in ("mrr", "hits@1", "hits@3", "hits@10")),
            str(m["epochs"]),
            f"{m['seconds']:.0f}",
        ]
        for name, m in result["models"].items()
    ]
    return f"""# The nine models on UMLS

{origin(result)}

Filtered, heads and tails, ties at their mean; width 100, best epoch by validation MRR.

{table(["model", "test MRR", "Hits@1", "Hits@3", "Hits@10", "epochs", "seconds"], rows)}
"""
