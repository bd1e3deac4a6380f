"""A SUWR policy as a table: stop and select probabilities for each masked state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from suwr.exact._arrays import Floats, Ints
from suwr.exact.policy import StatePolicy, pair_rows_with_masks
from suwr.exact.problem import FiniteProblem


@dataclass(frozen=True)
class Decision:
    """What a SUWR policy does in one masked state.

    Attributes
    ----------
    stop : float
        ζ_stop(x ⊙ h).
    select : dict
        ζ_select(u | x ⊙ h) for the sets u of columns that the next step may reveal.

    Examples
    --------
    >>> from suwr.exact import five_blocks, represent, solve
    >>> problem, _ = five_blocks()
    >>> policy = represent(problem, solve(problem, 0.01)).policy
    >>> policy.decision([0, 0, 0], [False, False, False])
    Decision(stop=0.0, select={(0,): 1.0})
    """

    stop: float
    select: Mapping[tuple[int, ...], float]


_STOP = Decision(1.0, {})


class SUWRPolicy:
    """Algorithm 1 with exact probabilities.

    Parameters
    ----------
    problem : FiniteProblem
        The problem whose states are meant.
    decisions : mapping from int to Decision
        What to do in each state that can be reached; the policy stops in all others.

    Examples
    --------
    >>> from suwr.exact import five_blocks, represent, solve
    >>> problem, _ = five_blocks()
    >>> policy = represent(problem, solve(problem, 0.01)).policy
    >>> float(policy.mask_probability([[0, 1, 0]], [[True, True, False]])[0])
    1.0
    """

    def __init__(self, problem: FiniteProblem, decisions: Mapping[int, Decision]) -> None:
        self.problem = problem
        self.decisions = dict(decisions)

    def decision(self, x: Any, mask: ArrayLike) -> Decision:
        """Stop and select probabilities after ``mask`` has been revealed of row ``x``."""
        rows, bits = pair_rows_with_masks(self.problem, [list(x)], np.asarray(mask)[None])
        return self.decisions.get(int(self.problem.states.index(rows, bits)[0]), _STOP)

    @cached_property
    def policy(self) -> StatePolicy:
        """The same policy as weights θ(x ⊙ h), found by running it."""
        reached, ids = self._rollout()
        first = np.unique(ids, return_index=True)[1]
        flat_ids, flat = ids.reshape(-1)[first], reached.reshape(-1)[first]
        stop = np.array([self.decisions.get(int(s), _STOP).stop for s in flat_ids])
        theta = flat * stop
        return StatePolicy(self.problem, flat_ids[theta > 0], theta[theta > 0])

    def mask_probability(self, X: Any, masks: ArrayLike) -> Floats:
        """ζ(h | x), exactly: see :meth:`StatePolicy.mask_probability`."""
        return self.policy.mask_probability(X, masks)

    def _rollout(self) -> tuple[Floats, Ints]:
        """q(h | x): how likely each row is to pass each mask, and the states of those pairs."""
        n_rows, n_masks = self.problem.n_rows, 2**self.problem.n_features
        rows = np.arange(n_rows)
        ids = self.problem.states.index(rows[:, None], np.arange(n_masks))
        reached = np.zeros((n_rows, n_masks))
        reached[:, 0] = 1.0
        for mask in range(n_masks):  # a larger mask has larger bits, so it comes later
            for state in np.unique(ids[reached[:, mask] > 0, mask]):
                decision = self.decisions.get(int(state), _STOP)
                here = ids[:, mask] == state
                going_on = reached[here, mask] * (1 - decision.stop)
                for units, probability in decision.select.items():
                    after = mask | sum(1 << j for j in units)
                    reached[here, after] += going_on * probability
        return reached, ids

    def __repr__(self) -> str:
        return f"SUWRPolicy({len(self.decisions)} states with a decision)"
