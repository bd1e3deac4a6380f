"""Small fitted models of every kind of receipt, with rows."""

import numpy as np
from raw_cells import fit_random_policy, mixed_table
from sklearn.datasets import load_diabetes

from suwr import Patches, SUWRClassifier, SUWRRegressor

SMALL = {"max_epochs": 1, "hidden_size": 32, "random_state": 2}


def fitted_mixed():
    X, y = mixed_table()
    return fit_random_policy(X, y), X


def fitted_regressor():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    model = SUWRRegressor(units_per_step=2, sparsity_weight=30.0, **SMALL)
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
