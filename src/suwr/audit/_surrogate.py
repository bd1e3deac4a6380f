"""A guess of the selector from all its answers so far, to aim the next questions.

If the selector's mask depends on a hidden value, trees that are fitted to its answers find that
out long before a blind search hits the right row with the right value. The guess never enters
the verdict: it only says where to ask.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

from suwr.audit._table import IntArray
from suwr.selector import BoolArray

_MAX_OUTPUTS = 12
_MAX_INPUTS = 64


class Surrogate:
    """Predicts masks, or random sums of their entries, from whole rows.

    Parameters
    ----------
    n_columns : int
    rng : numpy.random.Generator

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.integers(10, size=(200, 3))
    >>> masks = np.repeat(codes[:, :1] > 4, 3, axis=1)
    >>> surrogate = Surrogate(3, rng).fit(codes, masks)
    >>> told = surrogate.surprise(np.array([[9, 0, 0], [1, 0, 0]]), np.zeros((2, 3), bool))
    >>> bool(told[0] > told[1])
    True
    """

    def __init__(self, n_columns: int, rng: np.random.Generator) -> None:
        self._rng = rng
        if n_columns <= _MAX_OUTPUTS:
            self._projection = np.eye(n_columns)
        else:
            self._projection = rng.normal(size=(n_columns, _MAX_OUTPUTS)) / np.sqrt(n_columns)
        # Wide rows (images): a random share of the columns keeps a fit within a second.
        size = min(n_columns, _MAX_INPUTS)
        self._inputs = np.sort(rng.choice(n_columns, size=size, replace=False))
        self._forest: ExtraTreesRegressor | None = None

    def fit(self, codes: IntArray, masks: BoolArray) -> "Surrogate":
        """Learn from rows (as codes) and the masks that the selector gave them."""
        self._forest = ExtraTreesRegressor(
            n_estimators=8,
            max_features=1.0,
            min_samples_leaf=1,
            random_state=int(self._rng.integers(2**31)),
        )
        target = masks @ self._projection
        self._forest.fit(codes[:, self._inputs], target)
        return self

    def surprise(self, codes: IntArray, masks: BoolArray) -> NDArray[np.float64]:
        """How far the guessed mask of each row is from the given one."""
        assert self._forest is not None
        guess = self._forest.predict(codes[:, self._inputs]).reshape(len(codes), -1)
        return np.linalg.norm(guess - masks @ self._projection, axis=1)
