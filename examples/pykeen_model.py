"""Explain a PyKEEN model: a CompGCN that PyKEEN trains on its Nations data, saved and read back.

python examples/pykeen_model.py FOLDER
"""

import sys
from pathlib import Path

from pykeen.datasets import Nations
from pykeen.pipeline import pipeline

import powerlink
from powerlink.adapters import from_pykeen, load_pykeen

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "result"
data = Nations(create_inverse_triples=True)  # CompGCN wants them; R-GCN does not
result = pipeline(
    dataset=data,
    model="CompGCN",
    model_kwargs={"embedding_dim": 32, "encoder_kwargs": {"num_layers": 2}},
    training_kwargs={"num_epochs": 15, "batch_size": 256, "use_tqdm": False},
    evaluation_kwargs={"use_tqdm": False},
    random_seed=0,
    device="cpu",
)

session = from_pykeen(result, data)  # with the whole data set, ranks leave out all that is known
print(session.name, "MRR", round(powerlink.rank(session).mrr, 2))
powerlink.show(powerlink.explain(session, "uk", "treaties", "usa"))

result.save_to_directory(folder)
again = load_pykeen(folder)  # what `powerlink explain --pykeen` reads; a pickle: open only what you trust
assert again.hash == session.hash
