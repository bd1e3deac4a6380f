"""Small problems with a known answer, for the baselines."""

import numpy as np


def one_column(n=400, d=5, seed=0):
    """Column 2 decides the class and the value; the others are noise."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, d)
    return X, (X[:, 2] > 0).astype(int), 3.0 * X[:, 2] + 10.0


def switch(n=1200, seed=0):
    """Four classes: column 0 says which pair, column 1 or 2 which of the two; column 3 is noise.

    Column 0 alone tells ln 2 nats, columns 1 and 2 half as much: it is the greedy first choice.
    """
    rng = np.random.RandomState(seed)
    X = rng.choice([-1.0, 1.0], size=(n, 4))
    y = np.where(X[:, 0] > 0, X[:, 1] > 0, 2 + (X[:, 2] > 0))
    return X, y.astype(int)
