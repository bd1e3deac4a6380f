"""Models of random weights, brief fits, and fits that fail."""

import os
import pickle
import signal
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path

import numpy as np
import torch
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from helpers.tables import mixed_table
from suwr import Costs, Patches, SUWRClassifier, SUWRRegressor
from suwr._utils.files import write_atomic
from suwr.data.units import resolve_units
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy
from suwr.nn.networks import Architecture, build
from suwr.nn.rollout import Policy
from suwr.nn.step import Starts
from suwr.training import loop
from suwr.training.config import Settings
from suwr.training.rollouts import sample_rollouts
from suwr.training.trainer import Trainer


def fitted_once(function):
    """Call a function that fits models once per run of pytest, whose processes share a folder.

    Every process loads the result, also the one that has fitted, so that all have the same.
    """

    @cache
    @wraps(function)
    def load(*args):
        if "SUWR_TEST_MODELS" not in os.environ:
            return function(*args)
        path = Path(os.environ["SUWR_TEST_MODELS"]) / "-".join([function.__name__, *args])
        if not path.exists():
            write_atomic(path, pickle.dumps(function(*args)))
        return pickle.loads(path.read_bytes())

    return load


def fit_random_policy(X, y):
    """Return a model with random weights that reveals every column in some rows, few in each.

    The number of revealed columns differs between rows.
    """
    model = SUWRClassifier(
        max_epochs=1, max_steps=3, training={"hidden_size": 16, "n_bins": 8}, random_state=0
    ).fit(X, y)

    def accept():
        masks = model.select(X)
        return masks.any(axis=0).all() and len(np.unique(masks.sum(axis=1))) > 1

    return randomize(model, accept)


def randomize(model, accept):
    """Draw the weights of a fitted model until a condition holds; return the model."""
    for seed in range(100):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.policy_.network.parameters():
                parameter.normal_(0, 0.6, generator=generator)
        if accept():
            return model
    raise AssertionError("No seed gives weights that satisfy the condition.")


UNITS = {
    "columns": None,
    "groups": {"g": [1, 2], "k": [4, 5]},
    "patches": Patches((2, 3), size=2),
}

# Architectures by name.
NETWORKS = {
    "separate": {},
    "shared": {"n_members": 1, "shared": True},
    "conditioned": {"conditioned": True},
    "images": {"image_shape": (2, 3)},
    "conditioned images": {"image_shape": (2, 3), "conditioned": True},
    "uncertainty": {"informed": True},
    "conditioned uncertainty": {"informed": True, "conditioned": True},
    "conditioned uncertainty images": {
        "image_shape": (2, 3),
        "informed": True,
        "conditioned": True,
    },
}


def make_policy(
    seed, groups=None, max_steps=None, units_per_step=1, network="separate", n_columns=6
):
    """A policy over a few columns."""
    changes = NETWORKS[network]
    units = resolve_units(groups, None, [f"x{i}" for i in range(n_columns)])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = build(Architecture(n_columns, n_columns, len(units), 2, 8, 2, **changes))
    # Keeps stop probabilities away from 0 and 1.
    network.stop_temperature.fill_(0.5)
    inputs = MaskedInputs.build(units, np.arange(n_columns), "cpu")
    most = -(-len(units) // units_per_step)
    return Policy(
        network.eval(), inputs, CrossEntropy(2), max_steps or most, units_per_step, block=64,
        condition=0.3 if changes.get("conditioned") else None,
    )  # fmt: skip


def random_values(n=40, seed=0):
    """Encoded rows."""
    return torch.from_numpy(np.random.RandomState(seed).randn(n, 6).astype(np.float32))


def explore(policy, values, sparsity_weight, budget=None, **changes):
    """Sample a rollout of every row at the start of training."""
    settings = Settings(sparsity_weight=sparsity_weight, max_steps=policy.max_steps, **changes)
    weight = torch.full((len(values),), sparsity_weight)
    generator = torch.Generator().manual_seed(0)
    n_units = policy.inputs.n_units
    interaction = torch.rand(n_units, n_units, generator=generator)
    return sample_rollouts(
        policy.network, policy.inputs, values, weight, None, settings, 1.0, generator, interaction,
        Starts(budget=budget),
    )  # fmt: skip


SMALL = {"max_epochs": 1, "training": {"hidden_size": 32}, "random_state": 2}


def fitted_mixed():
    X, y = mixed_table()
    return fit_random_policy(X, y), X


def fitted_regressor():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    model = SUWRRegressor(costs=Costs(of=2), sparsity_weight=30.0, **SMALL)
    return model.fit(X[:200], y[:200]), X[:60]


def fitted_range():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = SUWRClassifier(sparsity_weight=(0.001, 0.1), max_steps=4, **SMALL)
    return model.fit(X[:200], y[:200] > 140), X[:60]


def fitted_patches():
    X = np.random.RandomState(0).randint(0, 17, (80, 16))
    model = SUWRClassifier(
        groups=Patches((4, 4), size=2),
        sparsity_weight=0.0,
        max_steps=4,
        **SMALL | {"max_epochs": 5},
    )
    return model.fit(X, X[:, 5] > 8), X


MODELS = {
    "mixed": fitted_mixed,
    "regressor": fitted_regressor,
    "range": fitted_range,
    "patches": fitted_patches,
}


def fitted_models():
    """A function from the name of a model to it, its rows and their receipts, made on first use."""
    made = {}

    def get(name):
        if name not in made:
            model, X = MODELS[name]()
            made[name] = model, X, [n.receipt() for n in model.explain(X)]
        return made[name]

    return get


def fit(name, X, y, **params):
    """Fit a baseline briefly."""
    from suwr import baselines

    quick = {"max_epochs": 15, "hidden_size": 32, "n_layers": 2, "random_state": 0}
    # GDFS and DIME do not have this parameter.
    if not name.startswith(("GDFS", "DIME")):
        quick["learning_rate"] = 1e-2
    return getattr(baselines, name)(**{**quick, **params}).fit(X, y)


# Checks that require a minimum score or predictions of every class.
SCORED = {
    "check_classifiers_train",
    "check_classifiers_classes",
    "check_regressors_train",
}


def with_brief_training(estimator, check):
    """Return ``estimator`` if ``check`` tests its score, otherwise a copy that trains one epoch."""
    if check.func.__name__ in SCORED or "max_epochs" not in estimator.get_params():
        return estimator
    return clone(estimator).set_params(max_epochs=1)


@contextmanager
def unchanged(model, X):
    """Everything that the model knows and predicts is bit for bit the same after the block."""
    names = sorted(vars(model))
    before = [pickle.dumps(_plain(getattr(model, name))) for name in names]
    predicted, selected = model.predict(X), model.select(X)
    yield
    assert sorted(vars(model)) == names
    for name, stored in zip(names, before, strict=True):
        assert pickle.dumps(_plain(getattr(model, name))) == stored, name
    assert (model.predict(X) == predicted).all()
    assert (model.select(X) == selected).all()


def _plain(value):
    """Network weights as bytes; pickles of other fitted attributes are stable."""
    network = getattr(value, "network", value)
    if isinstance(network, torch.nn.Module):
        return {k: v.numpy().tobytes() for k, v in network.state_dict().items()}
    return value


def interrupt_training(monkeypatch, after=1):
    """Press Ctrl-C when the given number of epochs has been recorded."""
    record = loop._record

    def interrupted(epoch, phase, metrics):
        if epoch > after:
            raise KeyboardInterrupt
        return record(epoch, phase, metrics)

    monkeypatch.setattr(loop, "_record", interrupted)


FATAL_WEIGHT = 0.07


class FragileClassifier(SUWRClassifier):
    """Kills the process in the first fit with `FATAL_WEIGHT`; a file in $FRAGILE records it."""

    def fit(self, X, y, sample_weight=None):
        if self.sparsity_weight == FATAL_WEIGHT:
            marker = Path(os.environ["FRAGILE"]) / str(len(X))
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y, sample_weight)


def fit_and_predict(X, y, seed):
    """Probabilities of a small model."""
    model = SUWRClassifier(
        max_epochs=1, training={"hidden_size": 4}, random_state=seed, device="cpu"
    )
    return model.fit(X, y).predict_proba(X)


def train_one_epoch(monkeypatch):
    """Reduce the ``max_epochs`` of every fit to 1."""
    configure = Trainer.configure

    def configure_one_epoch(self, config, taught=False, **fit):
        return configure(self, config, taught, **fit | {"max_epochs": 1})

    monkeypatch.setattr(Trainer, "configure", configure_one_epoch)
