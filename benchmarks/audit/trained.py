"""Trained models as further selectors with known ground truth.

Three models of each kind are trained once, on small data; every seed audits one of them on new
rows. The label depends on x1 if x0 is positive and on x2 otherwise, so that the selections differ
between rows.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from suwr import SUWRClassifier
from suwr.baselines import GDFSClassifier
from suwr.selector import as_selector
from suwr_experiments.zoo import SPECIMENS, register

__all__ = ["SPECIMENS", "TRAINED"]

N_MODELS = 3
SMALL = {"hidden_size": 32, "n_layers": 2}


def switch(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ten columns; the label depends on x0 and one of x1 and x2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 10))
    signal = np.where(X[:, 0] > 0, X[:, 1], X[:, 2])
    return X, (signal + 0.2 * rng.normal(size=n_rows) > 0).astype(int)


@cache
def suwr_model(number: int) -> SUWRClassifier:
    """A small SUWR model; the low sparsity weight keeps a short fit from selecting nothing."""
    model = SUWRClassifier(
        max_steps=5, max_epochs=15, sparsity_weight=0.001, random_state=number, training=SMALL
    )
    return model.fit(*switch(10_000 + number, 3000))


@cache
def gdfs_model(number: int) -> GDFSClassifier:
    """A small GDFS model."""
    model = GDFSClassifier(max_steps=3, max_epochs=8, random_state=number, **SMALL)
    return model.fit(*switch(10_000 + number, 3000))


@register("trained SUWR, greedy", leaks=False, note="SUWRClassifier, greedy policy")
def greedy(seed):
    return suwr_model(seed % N_MODELS), *switch(seed, 1000)


@register("trained SUWR, sampled", leaks=False, stochastic=True, note="states its probabilities")
def sampled(seed):
    return as_selector(suwr_model(seed % N_MODELS), "sampled"), *switch(seed, 1000)


@register(
    "trained SUWR, draws only", leaks=False, stochastic=True, note="without stated probabilities"
)
def draws_only(seed):
    model = suwr_model(seed % N_MODELS)

    def select(X, random_state=None):
        return model.select(X, policy="sampled", random_state=random_state)

    return select, *switch(seed, 1000)


@register("trained GDFS", leaks=False, note="greedy dynamic selection, GDFSClassifier")
def gdfs(seed):
    return gdfs_model(seed % N_MODELS), *switch(seed, 1000)


TRAINED = [name for name in SPECIMENS if name.startswith("trained")]
