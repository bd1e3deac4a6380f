"""Small problems with known solutions."""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from suwr.exact.problem import FiniteProblem


def cube(n_features: int, n_values: int = 2) -> NDArray[np.int64]:
    """All combinations of values 0, …, n_values - 1.

    Parameters
    ----------
    n_features : int
    n_values : int, default=2

    Examples
    --------
    >>> from suwr.exact import cube
    >>> cube(2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return np.array(list(product(range(n_values), repeat=n_features)), dtype=np.int64)


def toy_problem(n_features: int = 10) -> FiniteProblem:
    """Experiment 1 of the paper: y = (Σ x[2i-1] x[2i])² on uniform bits, squared error.

    Parameters
    ----------
    n_features : int, default=10
        Number of bits; must be even.

    Examples
    --------
    >>> from suwr.exact import solve, toy_problem
    >>> solve(toy_problem(), 0.3).n_selected
    7.025390625
    """
    X = cube(n_features)
    pairs = X[:, 0 : n_features - 1 : 2] * X[:, 1::2]
    return FiniteProblem(X, pairs.sum(axis=1) ** 2)


FIVE_BLOCKS = ("000", "111", "01*", "*01", "1*0")


def five_blocks() -> tuple[FiniteProblem, NDArray[np.bool_]]:
    """Counterexample to the conjecture of the paper: a problem and its leak-free masks.

    {0,1}³ is partitioned into five subcubes. Each row reveals the coordinates that its subcube
    fixes, and its label is the subcube. Every feature is hidden in some subcube, so that any first
    step reveals a feature that some row should hide.

    Examples
    --------
    >>> from suwr.exact import five_blocks
    >>> problem, masks = five_blocks()
    >>> float(masks.sum(axis=1).mean())
    2.25
    """
    X = cube(3)
    block_of = [
        next(b for b in FIVE_BLOCKS if all(c in ("*", str(v)) for c, v in zip(b, x, strict=True)))
        for x in X
    ]
    masks = np.array([[c != "*" for c in block] for block in block_of])
    return FiniteProblem(X, block_of, loss="zero_one"), masks


def one_hot_rows() -> tuple[FiniteProblem, NDArray[np.bool_]]:
    """Example without full support (Appendix D of the paper): each row reveals its only 1.

    Examples
    --------
    >>> from suwr.exact import leakage, one_hot_rows
    >>> leakage(*one_hot_rows()).condition.leaks
    False
    """
    X = np.eye(3, dtype=np.int64)
    return FiniteProblem(X, [2, 1, 0]), X.astype(bool)


def leaky_pair() -> tuple[FiniteProblem, NDArray[np.bool_]]:
    """Table 1 of the paper: y = x[1] + x[2], with masks that determine y and the hidden values.

    Examples
    --------
    >>> from suwr.exact import leakage, leaky_pair
    >>> leakage(*leaky_pair()).feature.bits
    1.25
    """
    X = np.array([[1, 1], [0, 1], [1, 0], [0, 0]])
    masks = np.array([[True, False], [False, True], [False, True], [False, False]])
    return FiniteProblem(X, X.sum(axis=1)), masks
