"""Models of the kinds that a page must handle, trained briefly: they need only decide."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from helpers.models import fitted_once
from suwr import Costs, Patches, SUWRClassifier, SUWRRegressor

HOSTILE = "<script>alert(1)</script>"
BREAKING = "</script><img src=x onerror=alert(2)>"


def mixed_table(n=400, seed=0):
    """Numbers with gaps, text, booleans, a group; some names would break a careless page."""
    rng = np.random.RandomState(seed)
    age = rng.randint(18, 90, n).astype(float)
    town = rng.choice(["north", "south & west", BREAKING, '"quoted"'], n, p=[0.4, 0.3, 0.2, 0.1])
    smoker = rng.rand(n) < 0.3
    pressure = 90 + 0.6 * age + 10 * smoker + 8 * rng.randn(n)
    pulse = 70 + 5 * rng.randn(n)
    risk = 0.05 * (age - 50) + 1.5 * smoker + 0.03 * (pressure - 120) + (town == "north")
    y = np.where(risk + 0.3 * rng.randn(n) > 0.5, "at risk", HOSTILE)
    age[rng.rand(n) < 0.15] = np.nan
    town = np.where(rng.rand(n) < 0.1, None, town)
    frame = pd.DataFrame(
        {"age": age, HOSTILE: town, "smoker": smoker, "pressure": pressure, "pulse": pulse}
    )
    return frame, y


@fitted_once
def mixed():
    X, y = mixed_table()
    groups = {"heart </script>": ["pressure", "pulse"]}
    model = SUWRClassifier(
        sparsity_weight=0.045, max_epochs=30, groups=groups, random_state=0,
        training={"hidden_size": 24, "n_bins": 8},
    )  # fmt: skip
    return model.fit(X, y), X[:250], y[:250]


@fitted_once
def cancer():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = np.array(["malignant", "benign"])[y]
    model = SUWRClassifier(
        sparsity_weight=0.005,
        max_steps=8,
        max_epochs=16,
        training={"n_predictors": 2, "hidden_size": 32},
        random_state=0,
    )
    return model.fit(X, y), X[:250], y[:250]


@fitted_once
def ranged(trainer):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = SUWRClassifier(
        sparsity_weight=(0.002, 0.05),
        trainer=trainer,
        max_steps=8,
        max_epochs=8,
        training={"n_predictors": 2, "hidden_size": 32},
        random_state=0,
    )
    return model.fit(X, y), X[:60], y[:60]


@fitted_once
def digits():
    X, y = load_digits(return_X_y=True)
    model = SUWRClassifier(
        groups=Patches((8, 8), size=3), sparsity_weight=0.02, max_steps=8, max_epochs=4,
        training={"n_predictors": 2, "hidden_size": 48}, random_state=0,
    )  # fmt: skip
    return model.fit(X[:500], y[:500]), X[1200:1450], y[1200:1450]


@fitted_once
def informed():
    """Stops by how sure its predictors are."""
    X, y = load_digits(return_X_y=True)
    model = SUWRClassifier(
        trainer="lookahead",
        sparsity_weight=0.0,
        max_steps=6,
        max_epochs=2,
        training={"n_predictors": 2, "hidden_size": 32},
        random_state=0,
    )
    return model.fit(X[:300], y[:300]), X[1200:1260], y[1200:1260]


@fitted_once
def diabetes():
    """A value instead of classes, two units a step."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = SUWRRegressor(
        sparsity_weight=30.0,
        costs=Costs(of=2),
        max_epochs=3,
        training={"n_predictors": 2, "hidden_size": 16},
        random_state=0,
    )
    return model.fit(X, y), X[:60], y[:60].tolist()


@fitted_once
def logarithmic():
    """A positive value through a log link."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = SUWRRegressor(
        loss="gamma",
        sparsity_weight=0.001,
        max_epochs=12,
        training={"hidden_size": 16},
        random_state=0,
    )
    return model.fit(X, y), X[:30], y[:30].tolist()


@fitted_once
def transformed():
    """A value that is learned as its logarithm."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = SUWRRegressor(
        target_transform="log",
        sparsity_weight=0.001,
        max_epochs=2,
        training={"hidden_size": 32},
        random_state=0,
    )
    return model.fit(X, y**3), X[:30], (y[:30] ** 3).tolist()


@fitted_once
def shared():
    """The paper's network: one encoder under all heads."""
    X, y = load_breast_cancer(return_X_y=True)
    model = SUWRClassifier(
        trainer="reinforce",
        sparsity_weight=0.02,
        max_epochs=3,
        training={"hidden_size": 16},
        random_state=0,
    )
    return model.fit(X[:, :6], y), X[:60, :6], y[:60]


@fitted_once
def described():
    """Labels, units of measurement, unknown categories and values far outside the training data."""
    X, y = mixed_table()
    columns = {
        "age": {"label": f"Age {BREAKING}", "unit": "years <b>", "categories": {40: HOSTILE}},
        HOSTILE: {"label": "Town\u202e", "categories": {"north": "the north & <i>"}},
        "smoker": {"categories": {True: "yes", False: "no"}},
    }
    model = SUWRClassifier(
        sparsity_weight=0.01, max_epochs=4, training={"hidden_size": 16}, random_state=1,
        groups={"heart </script>": ["pressure", "pulse"]}, columns=columns,
    ).fit(X, y)  # fmt: skip
    rows = X[:60].copy()
    rows.loc[rows.index[::5], "age"] = 500.0
    rows.loc[rows.index[1::5], "pressure"] = -1e4
    rows.loc[rows.index[2::5], HOSTILE] = "<u>nowhere</u>"
    rows.loc[rows.index[3], "age"] = 40.0
    return model, rows, y[:60]
