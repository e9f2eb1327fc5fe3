"""PGExplainer-Link with a fair chance: fitted in a few ways, and the best by what its paths do on validation facts.

No one weight of its size term suits all graphs: too large a one empties the mask, too small a one keeps every edge.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from torch import Tensor

from powerlink import ExplainSettings, Session, explain_many
from powerlink.explainers.learned.pg_explainer import PGFitting
from powerlink.run.fitting import fit_explainer
from powerlink.verify.metrics import evaluate

FITS: tuple[dict[str, Any], ...] = (
    {},
    {"size_weight": 3e-4},
    {"size_weight": 1e-3},
    {"size_weight": 1e-3, "batch": 4},
    {"size_weight": 3e-3, "batch": 4},
    {"size_weight": 1e-4, "entropy_weight": 1.0},
)


def best_fit(session: Session, train: Tensor, valid: Tensor, folder: Path, settings: ExplainSettings) -> dict[str, Any]:
    """Fit on facts (F, 3) in every way of `FITS`; name the file with the largest logit drop on validation facts."""
    tried = []
    for place, own in enumerate(FITS):
        start, file = time.process_time(), folder / f"pg-explainer-{place}.safetensors"
        explainer = fit_explainer(session, train, file, fitting=PGFitting(**own), settings=settings)
        seconds = time.process_time() - start
        found = explain_many(session, valid, explainer=explainer, settings=settings)
        (drop,) = [f.mean for f in evaluate(found).figures if f.metric == "logit drop, all paths"]
        tried.append({"settings": own, "file": file.name, "logit drop": drop, "seconds": seconds})
        print(f"  fit {own}: logit drop {drop:.3f}, {seconds:.0f} s", flush=True)
    best = max(tried, key=lambda entry: entry["logit drop"])
    return {"file": best["file"], "queries": len(train), "chosen": best["settings"], "tried": tried}
