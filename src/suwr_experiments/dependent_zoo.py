"""Selectors with known ground truth on data in which columns determine each other.

Not all combinations of values are possible here, so that a selector may read a hidden value that
follows from the revealed ones without a leak (`suwr.exact.one_hot_rows` is the paper's example).
``DEPENDENT`` holds the specimens by name. ``UNDETECTED`` are leak-free too, but their columns
depend on each other in ways that the auditor does not recognise.

Examples
--------
>>> selector, X, y = DEPENDENT["copy"].make(0)
>>> bool((X[:, 0] == X[:, 5]).all()), DEPENDENT["copy"].leaks
(True, False)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.selector import BoolArray
from suwr_experiments.specimen import N_ROWS, FloatArray, Made, Zoo, empty_masks

__all__ = ["DEPENDENT", "UNDETECTED"]

DEPENDENT = Zoo()
UNDETECTED = Zoo()

_N_NOISE = 5
_N_LEVELS = 4


def _rows(seed: int, *columns: NDArray[Any]) -> Made:
    """Gaussian columns x0 to x4 followed by the given ones, and a label; without a selector."""
    noise = _noise(seed)
    return None, np.column_stack([noise, *columns]), (noise[:, 0] > 0).astype(np.intp)


def _noise(seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(N_ROWS, _N_NOISE))


def _kind(seed: int, n_levels: int = _N_LEVELS) -> NDArray[np.intp]:
    return np.random.default_rng(seed + 1).integers(n_levels, size=N_ROWS).astype(np.intp)


def _masks(
    X: FloatArray, *always: int, also: BoolArray | None = None, column: int = 1
) -> BoolArray:
    """Reveal some columns in every row, and ``column`` in the rows ``also``."""
    masks = empty_masks(X)
    masks[:, list(always)] = True
    if also is not None:
        masks[:, column] |= also
    return masks


def _from(select: Any, made: Made) -> Made:
    return select, *made[1:]


@DEPENDENT.register("one-hot", leaks=False, note="the paper's policy: reveals the column that is 1")
def one_hot(seed: int) -> Made:
    X = np.eye(_N_LEVELS)[_kind(seed)]
    return (lambda X: X > 0), X, _kind(seed)


@DEPENDENT.register(
    "one-hot among others", leaks=False, note="the same beside five columns, of which it shows x0"
)
def one_hot_among_others(seed: int) -> Made:
    def select(X: FloatArray) -> BoolArray:
        masks = _masks(X, 0)
        masks[:, _N_NOISE:] = X[:, _N_NOISE:] > 0
        return masks

    return _from(select, _rows(seed, np.eye(_N_LEVELS)[_kind(seed)]))


@DEPENDENT.register(
    "one-hot without a reference level",
    leaks=False,
    note="reveals the column that is 1 or, if there is none, all of them",
)
def one_hot_reference(seed: int) -> Made:
    def select(X: FloatArray) -> BoolArray:
        masks = _masks(X, 0)
        code = X[:, _N_NOISE:]
        masks[:, _N_NOISE:] = (code > 0) | (code == 0).all(axis=1, keepdims=True)
        return masks

    return _from(select, _rows(seed, np.eye(_N_LEVELS)[_kind(seed)][:, 1:]))


@DEPENDENT.register("copy", leaks=False, note="reads an exact copy of the revealed x0")
def copy(seed: int) -> Made:
    return _from(lambda X: _masks(X, 0, also=X[:, 5] > 0), _rows(seed, _noise(seed)[:, 0]))


@DEPENDENT.register("logarithm", leaks=False, note="reads the logarithm of a revealed column")
def logarithm(seed: int) -> Made:
    size = np.exp(_noise(seed)[:, 2])
    return _from(lambda X: _masks(X, 5, also=X[:, 6] > 0), _rows(seed, size, np.log(size)))


@DEPENDENT.register("band", leaks=False, note="reads the decade of the revealed age")
def band(seed: int) -> Made:
    age = np.random.default_rng(seed + 1).integers(18, 90, N_ROWS)
    return _from(lambda X: _masks(X, 5, also=X[:, 6] > 4), _rows(seed, age, age // 10))


@DEPENDENT.register("sum", leaks=False, note="reads x1 + x2, both of which are revealed")
def total(seed: int) -> Made:
    noise = _noise(seed)

    def select(X: FloatArray) -> BoolArray:
        return _masks(X, 1, 2, also=X[:, 5] > 0, column=3)

    return _from(select, _rows(seed, noise[:, 1] + noise[:, 2]))


@DEPENDENT.register("part", leaks=False, note="reads x2; the sum of x1 and x2 is revealed with x1")
def part(seed: int) -> Made:
    noise = _noise(seed)

    def select(X: FloatArray) -> BoolArray:
        return _masks(X, 1, 5, also=X[:, 2] > 0, column=3)

    return _from(select, _rows(seed, noise[:, 1] + noise[:, 2]))


@DEPENDENT.register("exclusive or", leaks=False, note="reads the parity of two revealed bits")
def exclusive_or(seed: int) -> Made:
    bits = np.random.default_rng(seed + 1).integers(2, size=(N_ROWS, 2))
    made = _rows(seed, bits, bits[:, 0] ^ bits[:, 1])
    return _from(lambda X: _masks(X, 5, 6, also=X[:, 7] > 0), made)


@DEPENDENT.register("hierarchy", leaks=False, note="reads the country of the revealed city")
def hierarchy(seed: int) -> Made:
    import pandas as pd

    city = _kind(seed, 20)
    cities = np.array([f"city {k}" for k in range(20)])
    countries = np.array([f"country {k}" for k in np.arange(20) // 4])
    X = pd.DataFrame(
        {"city": cities[city], "country": countries[city], "age": _noise(seed)[:, 0].round(1)}
    )

    def select(X: Any) -> BoolArray:
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 0] = True
        masks[:, 2] = (X["country"] == "country 1").to_numpy()
        return masks

    return select, X, (city > 9).astype(np.intp)


def _shift(X: FloatArray, column: int, rng: np.random.Generator) -> BoolArray:
    """Reveal x0, and x1 with a probability that depends on a column."""
    return _masks(X, 0, also=rng.random(len(X)) < 0.4 + 0.2 * (X[:, column] > 0))


@DEPENDENT.register(
    "copy, sampled",
    leaks=False,
    stochastic=True,
    note="a probability depends on an exact copy of the revealed x0",
)
def copy_sampled(seed: int) -> Made:
    return _from(lambda X, rng: _shift(X, 5, rng), _rows(seed, _noise(seed)[:, 0]))


@DEPENDENT.register(
    "one-hot, sampled",
    leaks=False,
    stochastic=True,
    note="reveals the column that is 1, and x0 with a probability that depends on it",
)
def one_hot_sampled(seed: int) -> Made:
    def select(X: FloatArray, rng: np.random.Generator) -> BoolArray:
        masks = empty_masks(X)
        code = X[:, _N_NOISE:]
        masks[:, _N_NOISE:] = code > 0
        masks[:, 0] = rng.random(len(X)) < 0.2 + 0.2 * code.argmax(axis=1)
        return masks

    return _from(select, _rows(seed, np.eye(_N_LEVELS)[_kind(seed)]))


@DEPENDENT.register("hidden copies", leaks=True, note="reads one of two hidden copies")
def hidden_copies(seed: int) -> Made:
    return _from(lambda X: _masks(X, 0, also=X[:, 5] > 0), _rows(seed, _noise(seed)[:, 4]))


@DEPENDENT.register("hidden one-hot", leaks=True, note="reads a hidden one-hot code")
def hidden_one_hot(seed: int) -> Made:
    return _from(
        lambda X: _masks(X, 0, also=X[:, 6] > 0), _rows(seed, np.eye(_N_LEVELS)[_kind(seed)])
    )


@DEPENDENT.register("hidden sum", leaks=True, note="reads x1 + x2, of which x1 is revealed")
def hidden_sum(seed: int) -> Made:
    noise = _noise(seed)

    def select(X: FloatArray) -> BoolArray:
        return _masks(X, 1, also=X[:, 5] > 0, column=3)

    return _from(select, _rows(seed, noise[:, 1] + noise[:, 2]))


@DEPENDENT.register(
    "hidden city", leaks=True, note="reads the hidden city, of which the country is revealed"
)
def hidden_city(seed: int) -> Made:
    city = _kind(seed, 20)

    def select(X: FloatArray) -> BoolArray:
        return _masks(X, 6, also=X[:, 5] % 4 > 1)

    return _from(select, _rows(seed, city, city // 4))


@DEPENDENT.register(
    "hidden copies, sampled",
    leaks=True,
    stochastic=True,
    note="a probability depends on one of two hidden copies",
)
def hidden_copies_sampled(seed: int) -> Made:
    return _from(lambda X, rng: _shift(X, 5, rng), _rows(seed, _noise(seed)[:, 4]))


@UNDETECTED.register("square", leaks=False, note="reads the square of the revealed x0")
def square(seed: int) -> Made:
    return _from(lambda X: _masks(X, 0, also=X[:, 5] > 1), _rows(seed, _noise(seed)[:, 0] ** 2))


@UNDETECTED.register("product", leaks=False, note="reads x0 · x2, both of which are revealed")
def product(seed: int) -> Made:
    noise = _noise(seed)

    def select(X: FloatArray) -> BoolArray:
        return _masks(X, 0, 2, also=X[:, 5] > 0)

    return _from(select, _rows(seed, noise[:, 0] * noise[:, 2]))
