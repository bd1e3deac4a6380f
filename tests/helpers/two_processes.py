"""Script of the two processes of `tests/nn/test_distributed.py`."""

import datetime
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import distributed as dist

import suwr.estimators.container as checkpoint
from suwr import Costs, SUWRClassifier, SUWRRegressor
from suwr.exceptions import UninformativeModelWarning
from suwr.nn.distributed import ProcessGroup

SMALL = {
    "max_epochs": 2,
    "training": {"hidden_size": 32, "n_layers": 2},
    "random_state": 0,
    "device": "cpu",
}
MODELS = {
    "actor": SUWRClassifier(**SMALL | {"training": {**SMALL["training"], "n_predictors": 4}}),
    "two units per step": SUWRRegressor(costs=Costs(of=2), **SMALL),
    "range": SUWRClassifier(sparsity_weight=(0.001, 0.1), **SMALL),
    "lookahead": SUWRRegressor(trainer="lookahead", **SMALL),
    "uncertainty": SUWRClassifier(trainer="lookahead", **SMALL),
    "reinforce": SUWRClassifier(trainer="reinforce", **SMALL),
}


def table(model):
    """Data with an odd number of rows, so that the shards of two processes differ in size."""
    rng = np.random.RandomState(0)
    X = rng.randn(117, 6)
    value = np.where(X[:, 0] > 0, X[:, 1], X[:, 2])
    return X, value if isinstance(model, SUWRRegressor) else value > 0


def outcome(model):
    """Masks, predictions and weights of a fitted model."""
    X, _ = table(model)
    state = {k: v.numpy() for k, v in model.policy_.network.state_dict().items()}
    return {
        "masks": model.select(X),
        "predictions": model.predict_masked(X, model.select(X)),
        **state,
    }


def main(folder: Path) -> None:
    """Fit all models, try invalid fits, and let the second process fail at the end."""
    torch.set_num_threads(1)
    # The fits are too short to be better than a constant prediction.
    warnings.simplefilter("ignore", UninformativeModelWarning)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, facts = dist.get_rank(), {}
    for name, model in MODELS.items():
        np.savez(folder / f"{name}-{rank}.npz", **outcome(model.fit(*table(model))))

    writes, write = [], checkpoint.write_atomic
    checkpoint.write_atomic = lambda *args: (writes.append(1), write(*args))
    X, y = table(MODELS["actor"])
    resumed = SUWRClassifier(**SMALL).fit(X, y, checkpoint=folder / "stopped")
    np.savez(folder / f"resumed-{rank}.npz", **outcome(resumed))
    facts["checkpoints written"] = len(writes)

    for name, params, target in [
        ("other data", {}, y if rank else ~y),
        ("other parameters", {"training": {"hidden_size": 8 + rank}}, y),
        ("no seed", {"random_state": None}, y),
    ]:
        try:
            SUWRClassifier(**(SMALL | params)).fit(X, target)
        except ValueError as error:
            facts[name] = str(error)

    if rank:
        ProcessGroup.sum_gradients = lambda *args: terminate(folder, rank, facts, 3)
    try:
        SUWRClassifier(**SMALL).fit(X, y)
    except RuntimeError as error:
        facts["failure of the other process"] = str(error)
    terminate(folder, rank, facts, 0)


def terminate(folder: Path, rank: int, facts: dict, status: int) -> None:
    """Exit without leaving the process group, as a killed process would."""
    (folder / f"facts-{rank}.json").write_text(json.dumps(facts))
    os._exit(status)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
