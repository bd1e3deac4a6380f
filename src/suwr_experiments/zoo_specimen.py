"""Registry of selectors with known ground truth."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.selector import BoolArray

FloatArray = NDArray[np.float64]
Made = tuple[Any, Any, NDArray[Any]]
Make = Callable[[int], Made]

N_ROWS = 1000
N_COLUMNS = 10


@dataclass(frozen=True)
class Specimen:
    """A selector with known truth.

    Attributes
    ----------
    name : str
    leaks : bool
        The truth.
    stochastic : bool
        Whether it draws its masks.
    make : callable
        ``seed -> (selector, X, y)``.
    note : str
        Why it leaks, or why it does not.
    """

    name: str
    leaks: bool
    stochastic: bool
    make: Make
    note: str = ""


class Zoo(dict[str, Specimen]):
    """Specimens by name, with decorators that add to them."""

    def register(
        self, name: str, *, leaks: bool, stochastic: bool = False, note: str = ""
    ) -> Callable[[Make], Make]:
        """Decorator that adds a maker ``seed -> (selector, X, y)``.

        Parameters
        ----------
        name : str
        leaks : bool
            The truth.
        stochastic : bool
        note : str
        """

        def add(make: Make) -> Make:
            self[name] = Specimen(name, leaks, stochastic, make, note)
            return make

        return add

    def on_gaussian_rows(
        self, name: str, *, leaks: bool, stochastic: bool = False, note: str = ""
    ) -> Callable[[Callable[..., BoolArray]], Callable[..., BoolArray]]:
        """Decorator that adds a function ``X -> masks``, with :func:`gaussian_rows` as its data."""

        def add(select: Callable[..., BoolArray]) -> Callable[..., BoolArray]:
            def make(seed: int) -> Made:
                return select, *gaussian_rows(seed)

            self.register(name, leaks=leaks, stochastic=stochastic, note=note)(make)
            return select

        return add


def gaussian_rows(seed: int, n_columns: int = N_COLUMNS) -> tuple[FloatArray, NDArray[np.intp]]:
    """Correlated Gaussian rows, and a label that depends on columns 3 and 4."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, n_columns)) + 0.5 * rng.normal(size=(N_ROWS, 1))
    y = (X[:, 3] + X[:, 4] + 0.3 * rng.normal(size=N_ROWS) > 0).astype(np.intp)
    return X, y


def nothing(X: Any) -> BoolArray:
    """Masks that reveal nothing."""
    return np.zeros(X.shape, dtype=bool)


def first(X: Any) -> BoolArray:
    """Masks that reveal the first column."""
    masks = nothing(X)
    masks[:, 0] = True
    return masks
