"""Small problems with a known solution, for the baselines."""

import numpy as np


def one_column(n=400, d=5, seed=0):
    """Column 2 determines the class and the value; the other columns are noise."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, d)
    return X, (X[:, 2] > 0).astype(int), 3.0 * X[:, 2] + 10.0


def switch(n=1200, seed=0):
    """Four classes: column 0 determines the pair, column 1 or 2 the class; column 3 is noise.

    Column 0 has ln 2 nats of information and columns 1 and 2 half as much, so that a greedy policy
    reveals column 0 first.
    """
    rng = np.random.RandomState(seed)
    X = rng.choice([-1.0, 1.0], size=(n, 4))
    y = np.where(X[:, 0] > 0, X[:, 1] > 0, 2 + (X[:, 2] > 0))
    return X, y.astype(int)


def fit(name, X, y, **params):
    """Fit a baseline briefly."""
    from suwr import baselines

    quick = {"max_epochs": 15, "hidden_size": 32, "n_layers": 2, "random_state": 0}
    # GDFS and DIME do not have this parameter.
    if not name.startswith(("GDFS", "DIME")):
        quick["learning_rate"] = 1e-2
    return getattr(baselines, name)(**{**quick, **params}).fit(X, y)
