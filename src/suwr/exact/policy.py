"""A leak-free policy: one weight θ(x ⊙ h) for each masked state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr.exact._arrays import Floats, Ints
from suwr.exact.states import bits_mask, mask_bits

if TYPE_CHECKING:
    from suwr.exact.problem import FiniteProblem


def pair_rows_with_masks(problem: FiniteProblem, X: Any, masks: ArrayLike) -> tuple[Ints, Ints]:
    """Support rows and mask bits that broadcast against each other.

    Masks of shape (n, d) belong to the rows one by one; of shape (1 or n, m, d) they are m
    questions for each row.
    """
    rows = problem.locate(X)
    array = np.asarray(masks)
    if array.dtype != bool:
        if not np.isin(array, (0, 1)).all():
            raise ValueError("The 'masks' parameter must be boolean. Got other values instead.")
        array = array.astype(bool)
    d = problem.n_features
    if array.ndim == 2 and array.shape == (len(rows), d):
        return rows, mask_bits(array)
    if array.ndim == 3 and array.shape[0] in (1, len(rows)) and array.shape[2] == d:
        return rows[:, None], mask_bits(array)
    raise ValueError(
        f"The 'masks' parameter must have shape ({len(rows)}, {d}), (1, m, {d}) or "
        f"({len(rows)}, m, {d}). Got shape {array.shape} instead."
    )


@dataclass(frozen=True)
class Entry:
    """One line of a policy table.

    Attributes
    ----------
    revealed : dict
        Values of the masked state, by column name.
    theta : float
        ζ(h | x) of every row that shows these values.
    probability : float
        p(s): how likely a row is to show them.
    prediction : float or ndarray
        f*(s).
    """

    revealed: dict[str, Any]
    theta: float
    probability: float
    prediction: Any


class StatePolicy:
    """ζ(h | x) = θ(x ⊙ h): the probability of a mask depends on the revealed values alone.

    Parameters
    ----------
    problem : FiniteProblem
        The problem whose states are weighted.
    ids : ndarray of shape (m,)
        The states with positive weight.
    theta : ndarray of shape (m,)
        Their weights θ.

    Examples
    --------
    >>> from suwr.exact import solve, toy_problem
    >>> policy = solve(toy_problem(2), 0.1).policy
    >>> policy.mask_probability([[0, 1], [1, 1]], [[True, False], [True, True]]).tolist()
    [1.0, 1.0]
    """

    def __init__(self, problem: FiniteProblem, ids: Ints, theta: Floats) -> None:
        order = np.argsort(ids)
        self.problem = problem
        self.ids = ids[order]
        self.theta = theta[order]

    def weight(self, ids: Ints) -> Floats:
        """θ of any states."""
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[place] == ids, self.theta[place], 0.0)

    def mask_probability(self, X: Any, masks: ArrayLike) -> Floats:
        """ζ(h | x), exactly.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows of the support.
        masks : array-like of bool
            Of shape (n, d), one mask a row; or (1 or n, m, d), m masks for every row.

        Returns
        -------
        ndarray of shape (n,) or (n, m)
        """
        rows, bits = pair_rows_with_masks(self.problem, X, masks)
        return self.weight(self.problem.states.index(rows, bits))

    def masks(self) -> NDArray[np.bool_]:
        """The distinct masks that the policy can choose, of shape (m, d)."""
        bits = np.unique(self.problem.states.masks_of(self.ids))
        return bits_mask(bits, self.problem.n_features)

    def entries(self) -> list[Entry]:
        """The policy table: every masked state with positive weight."""
        problem, states = self.problem, self.problem.states
        names = problem.names()
        masks = states.masks_of(self.ids)
        found = []
        for bits in np.unique(masks):
            row_states = states.index(np.arange(problem.n_rows), bits)
            shown = [j for j in range(problem.n_features) if bits >> j & 1]
            for place in np.flatnonzero(masks == bits):
                state = self.ids[place]
                row = int(np.argmax(row_states == state))
                found.append(
                    Entry(
                        revealed={names[j]: problem.X[row, j] for j in shown},
                        theta=float(self.theta[place]),
                        probability=float(states.mass[state]),
                        prediction=states.prediction(self.ids[[place]])[0],
                    )
                )
        return found

    def expected_loss(self) -> float:
        """Expected loss of f* under this policy."""
        return float(self.theta @ self.problem.states.risk[self.ids])

    def expected_cost(self) -> float:
        """Expected ‖h‖ under this policy."""
        return float(self.theta @ self.problem.states.cost_mass[self.ids])

    def expected_size(self) -> float:
        """Expected number of revealed features."""
        states = self.problem.states
        return float(self.theta @ (states.mass[self.ids] * states.size[self.ids]))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"StatePolicy({len(self)} of {self.problem.n_states} states have positive weight)"
