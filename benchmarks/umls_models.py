"""Every model on UMLS: filtered test accuracy and training time.

python benchmarks/umls_models.py --data-dir DIR --models DIR
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch

from powerlink import ModelSettings, TrainingSettings, load_graph
from powerlink.models.catalog import DECODERS, ENCODERS
from powerlink.models.checkpoint import versions
from powerlink.run.train_folder import FolderTraining

RESULTS = Path(__file__).parent / "results" / "umls_models.json"
TRAINING = TrainingSettings(epochs=200, batch_size=128)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--models", type=Path, default=Path("models/umls"), help="where models are kept")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    graph = load_graph("umls", data_dir=args.data_dir)
    rows: dict[str, Any] = {}
    for encoder, kind in ENCODERS.items():
        for decoder in DECODERS:
            model = ModelSettings(encoder=encoder, decoder=decoder, widths=(100,) * (kind.default_layers + 1))
            start = time.perf_counter()
            job = FolderTraining(args.models / model.name, graph, model, TRAINING)
            epochs = sum(1 for _ in job.run())
            seconds = time.perf_counter() - start
            rows[model.name] = {"epochs": epochs, "seconds": round(seconds, 1), **job.accuracy}
            print(
                f"{model.name:18} test MRR {job.accuracy['test']['mrr']:.3f}  {epochs} epochs  {seconds:.0f} s",
                flush=True,
            )
            report = {
                "command": "python benchmarks/umls_models.py",
                "machine": f"{torch.get_num_threads()} core of a 2-core CPU",
                "date": date.today().isoformat(),
                "versions": versions(),
                "models": rows,
            }
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
