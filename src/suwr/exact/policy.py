"""Policies over a finite problem: leak-free, sequential or arbitrary ones, and decision trees.

``StatePolicy`` is leak-free by construction, ``SUWRPolicy`` is Algorithm 1 with exact
probabilities, and ``PolicyTable`` is any ζ(h | x), which may leak.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.validation import must_error
from suwr.exact.problem import FiniteProblem
from suwr.exact.states import Floats, Ints, bits_mask, check_memory, mask_bits


class StatePolicy:
    """Leak-free policy ζ(h | x) = θ(x ⊙ h), which depends on the revealed values only.

    Parameters
    ----------
    problem : FiniteProblem
        The problem that defines the masked states.
    ids : ndarray of shape (m,)
        Indices of the states with positive weight.
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
        """θ of the states with indices ``ids``."""
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[place] == ids, self.theta[place], 0.0)

    def mask_probability(self, X: Any, masks: ArrayLike) -> Floats:
        """Compute ζ(h | x) exactly.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows of the support.
        masks : array-like of bool
            One mask per row, of shape (n, d); or m masks per row, of shape (n, m, d) or (1, m, d).

        Returns
        -------
        ndarray of shape (n,) or (n, m)
        """
        rows, bits = pair_rows_with_masks(self.problem, X, masks)
        return self.weight(self.problem.states.index(rows, bits))

    def masks(self) -> NDArray[np.bool_]:
        """The distinct masks of positive probability, of shape (m, d)."""
        bits = np.unique(self.problem.states.masks_of(self.ids))
        return bits_mask(bits, self.problem.n_features)

    def expected_loss(self) -> float:
        """Expected loss of f* under this policy."""
        return float(self.theta @ self.problem.states.risk[self.ids])

    def expected_cost(self) -> float:
        """Expected cost ‖h‖ under this policy."""
        return float(self.theta @ self.problem.states.cost_mass[self.ids])

    def expected_size(self) -> float:
        """Expected number of revealed features."""
        states = self.problem.states
        return float(self.theta @ (states.mass[self.ids] * states.size[self.ids]))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"StatePolicy({len(self)} of {self.problem.n_states} states have positive weight)"


@dataclass(frozen=True)
class Decision:
    """Stopping and selection probabilities of a SUWR policy in one masked state.

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
        The problem that defines the masked states.
    decisions : mapping from int to Decision
        Decision in each reachable state, by state index; the policy stops in all other states.

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
        """Stopping and selection probabilities after ``mask`` has been revealed of row ``x``."""
        rows, bits = pair_rows_with_masks(self.problem, [list(x)], np.asarray(mask)[None])
        return self.decisions.get(int(self.problem.states.index(rows, bits)[0]), _STOP)

    @cached_property
    def policy(self) -> StatePolicy:
        """The same policy as weights θ(x ⊙ h), computed by a rollout."""
        reached, ids = self._rollout()
        first = np.unique(ids, return_index=True)[1]
        flat_ids, flat = ids.reshape(-1)[first], reached.reshape(-1)[first]
        stop = np.array([self.decisions.get(int(s), _STOP).stop for s in flat_ids])
        theta = flat * stop
        return StatePolicy(self.problem, flat_ids[theta > 0], theta[theta > 0])

    def mask_probability(self, X: Any, masks: ArrayLike) -> Floats:
        """Compute ζ(h | x) exactly; see :meth:`StatePolicy.mask_probability`."""
        return self.policy.mask_probability(X, masks)

    def _rollout(self) -> tuple[Floats, Ints]:
        """Probability that each row passes through each mask, and the states of those pairs."""
        n_rows, n_masks = self.problem.n_rows, 2**self.problem.n_features
        rows = np.arange(n_rows)
        ids = self.problem.states.index(rows[:, None], np.arange(n_masks))
        reached = np.zeros((n_rows, n_masks))
        reached[:, 0] = 1.0
        for mask in range(n_masks):  # revealing a feature increases the integer of the mask
            for state in np.unique(ids[reached[:, mask] > 0, mask]):
                decision = self.decisions.get(int(state), _STOP)
                here = ids[:, mask] == state
                continuing = reached[here, mask] * (1 - decision.stop)
                for units, probability in decision.select.items():
                    after = mask | sum(1 << j for j in units)
                    reached[here, after] += continuing * probability
        return reached, ids

    def __repr__(self) -> str:
        return f"SUWRPolicy({len(self.decisions)} states with a decision)"


class PolicyTable:
    """Any policy, as the probability of every mask for every support row.

    Parameters
    ----------
    problem : FiniteProblem
        The problem that defines the rows.
    masks : array-like of bool of shape (n_masks, n_features)
        Distinct masks h.
    probabilities : array-like of shape (n_rows, n_masks)
        ζ(h | x), in the order of ``problem.X``. Every row sums to 1.

    Examples
    --------
    >>> from suwr.exact import FiniteProblem, PolicyTable
    >>> problem = FiniteProblem([[0], [1]], [0, 1])
    >>> table = PolicyTable(problem, [[False], [True]], [[0.5, 0.5], [0.5, 0.5]])
    >>> table.probabilities.sum(axis=1).tolist()
    [1.0, 1.0]
    """

    def __init__(self, problem: FiniteProblem, masks: ArrayLike, probabilities: ArrayLike) -> None:
        self.problem = problem
        self.masks: NDArray[np.bool_] = np.asarray(masks, dtype=bool)
        self.probabilities: Floats = np.asarray(probabilities, dtype=float)
        if self.masks.ndim != 2 or self.masks.shape[1] != problem.n_features:
            must, got = f"have shape (m, {problem.n_features})", f"shape {self.masks.shape}"
            raise must_error("masks", "PolicyTable", must, got)
        if self.probabilities.shape != (problem.n_rows, len(self.masks)):
            must = f"have shape ({problem.n_rows}, {len(self.masks)}), (rows, masks)"
            raise must_error(
                "probabilities", "PolicyTable", must, f"shape {self.probabilities.shape}"
            )
        if len(np.unique(mask_bits(self.masks))) < len(self.masks):
            raise ValueError("The 'masks' parameter of PolicyTable must not repeat a mask.")
        invalid = ~np.isfinite(self.probabilities) | (self.probabilities < -1e-9)
        totals = self.probabilities.sum(axis=1)
        off = ~(np.abs(totals - 1) <= 1e-5)
        if invalid.any() or off.any():
            n_invalid, n_off = int(invalid.sum()), int(off.sum())
            got = f"{n_invalid} negative or non-finite and {n_off} row(s) that do not sum to 1"
            raise must_error("probabilities", "PolicyTable", "be distributions over masks", got)

    @classmethod
    def deterministic(cls, problem: FiniteProblem, masks: ArrayLike) -> PolicyTable:
        """Build the policy that selects mask i for row i of ``problem.X``."""
        chosen = np.asarray(masks)
        if chosen.shape != (problem.n_rows, problem.n_features):
            must = f"have shape ({problem.n_rows}, {problem.n_features}), one mask for each row"
            raise must_error("masks", "a deterministic policy", must, f"shape {chosen.shape}")
        bits, place = np.unique(mask_bits(chosen.astype(bool)), return_inverse=True)
        probabilities = np.zeros((problem.n_rows, len(bits)))
        probabilities[np.arange(problem.n_rows), place] = 1
        return cls(problem, bits_mask(bits, problem.n_features), probabilities)

    def __repr__(self) -> str:
        return f"PolicyTable(n_rows={self.problem.n_rows}, n_masks={len(self.masks)})"


def all_masks(n_features: int) -> NDArray[np.bool_]:
    """All 2^d masks, in the order of their bits."""
    return bits_mask(np.arange(2**n_features), n_features)


def pair_rows_with_masks(problem: FiniteProblem, X: Any, masks: ArrayLike) -> tuple[Ints, Ints]:
    """Indices of support rows and mask bits, broadcastable against each other.

    Masks of shape (n, d) are paired with the rows one by one; masks of shape (n, m, d) or
    (1, m, d) are m masks for each row.
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


def as_table(problem: FiniteProblem, policy: Any) -> PolicyTable:
    """Convert a policy in any supported form into a table ζ(h | x).

    Parameters
    ----------
    problem : FiniteProblem
        The problem whose rows the policy selects from.
    policy : object
        One of: a ``PolicyTable``; a pair (masks, probabilities) of its parameters; a boolean array
        with one mask for each row of ``problem.X``; an object with ``mask_probability(X, masks)``,
        such as a solution or a fitted estimator; a callable that maps X to one mask per row.

    Returns
    -------
    PolicyTable

    Examples
    --------
    >>> from suwr.exact import as_table, leaky_pair
    >>> problem, masks = leaky_pair()
    >>> table = as_table(problem, masks)
    >>> table.masks.shape, table.probabilities.shape
    ((3, 2), (4, 3))
    """
    if isinstance(policy, PolicyTable):
        return PolicyTable(problem, policy.masks, policy.probabilities)
    if isinstance(policy, tuple) and len(policy) == 2:
        return PolicyTable(problem, *policy)
    if isinstance(policy, StatePolicy) or isinstance(getattr(policy, "policy", None), StatePolicy):
        masks = (policy if isinstance(policy, StatePolicy) else policy.policy).masks()
        return PolicyTable(problem, masks, policy.mask_probability(problem.frame(), masks[None]))
    if hasattr(policy, "mask_probability"):
        n_pairs = problem.n_rows * 2**problem.n_features
        check_memory(
            n_pairs * (8 + problem.n_features), problem.max_memory, n_pairs, "A policy table"
        )
        masks = all_masks(problem.n_features)
        found = np.asarray(policy.mask_probability(problem.frame(), masks[None]), dtype=float)
        if found.shape != (problem.n_rows, len(masks)):
            raise ValueError(
                "mask_probability(X, masks) must return an array of shape "
                f"({problem.n_rows}, {len(masks)}). Got shape {found.shape} instead."
            )
        used = (found > 0).any(axis=0)
        return PolicyTable(problem, masks[used], found[:, used])
    if callable(policy):
        policy = policy(problem.frame())
    return PolicyTable.deterministic(problem, policy)


@dataclass(frozen=True)
class Node:
    """One masked state that the policy visits.

    Attributes
    ----------
    revealed : dict
        Revealed values by column index, in column order.
    reveal_next : tuple of int
        Columns that the next step reveals; empty if the policy stops.
    prediction : float or dict
        f*(s): the mean label, or the probability of each label.
    probability : float
        Probability that a row reaches this node.
    state : int
        Index of the masked state.

    Examples
    --------
    >>> from suwr.exact import solve, toy_problem
    >>> root = solve(toy_problem(2), 0.1).tree.root
    >>> root.reveal_next, root.is_leaf, root.prediction
    ((0,), False, 0.25)
    """

    revealed: dict[int, Any]
    reveal_next: tuple[int, ...]
    prediction: Any
    probability: float
    state: int

    @property
    def is_leaf(self) -> bool:
        """Whether the policy stops here."""
        return not self.reveal_next


class DecisionTree:
    """The next feature to reveal, as a function of the values revealed so far.

    Parameters
    ----------
    problem : FiniteProblem
        The problem that defines the rows.
    paths : ndarray of shape (n_rows, n_steps + 1)
        State of every support row after each step; constant once the row has stopped.

    Examples
    --------
    >>> from suwr.exact import solve, toy_problem
    >>> tree = solve(toy_problem(4), 0.3).tree
    >>> tree.n_leaves, tree.depth
    (5, 4)
    """

    def __init__(self, problem: FiniteProblem, paths: Ints) -> None:
        self.problem = problem
        self.paths = paths
        self.states, first = np.unique(paths, return_index=True)
        self._row, self._step = np.divmod(first, paths.shape[1])

    @property
    def n_nodes(self) -> int:
        """Number of masked states that the policy visits."""
        return len(self.states)

    @property
    def n_leaves(self) -> int:
        """Number of masked states in which the policy stops."""
        return len(np.unique(self.paths[:, -1]))

    @property
    def depth(self) -> int:
        """Largest number of steps of any row."""
        moved = self.paths[:, 1:] != self.paths[:, :-1]
        return int(moved.sum(axis=1).max(initial=0))

    @property
    def root(self) -> Node:
        """The node in which nothing is revealed."""
        return self.node(int(self.paths[0, 0]))

    def node(self, state: int) -> Node:
        """The node of a masked state that the policy visits."""
        place = int(np.searchsorted(self.states, state))
        if place == len(self.states) or self.states[place] != state:
            raise KeyError(f"The policy never visits state {state}.")
        problem, states = self.problem, self.problem.states
        row, step = int(self._row[place]), int(self._step[place])
        path = self.paths[row]
        # All rows in a state share one decision, so any row that passes through it will do.
        later = int(path[min(step + 1, len(path) - 1)])
        here, after = states.masks_of(np.array([state, later]))
        columns = range(problem.n_features)
        raw = states.prediction(np.array([state]))[0]
        return Node(
            revealed={j: problem.X[row, j] for j in columns if here >> j & 1},
            reveal_next=tuple(j for j in columns if (after & ~here) >> j & 1),
            prediction=_readable(raw, problem),
            probability=float(states.mass[state]),
            state=state,
        )

    def children(self, node: Node) -> list[Node]:
        """Nodes after one more step, one for each combination of values it may reveal."""
        if node.is_leaf:
            return []
        here, step = np.nonzero(self.paths[:, :-1] == node.state)
        return [self.node(int(s)) for s in np.unique(self.paths[here, step + 1])]

    def walk(self, x: Any) -> list[Node]:
        """Path of one row, from the root to its leaf."""
        row = int(self.problem.locate([list(x)])[0])
        path = self.paths[row]
        keep = np.concatenate([[True], path[1:] != path[:-1]])
        return [self.node(int(state)) for state in path[keep]]

    def text(self) -> str:
        """Format the tree as indented lines."""
        return "\n".join(self._lines(self.root, ()))

    def _lines(self, node: Node, seen: tuple[int, ...]) -> Iterator[str]:
        names = self.problem.names()
        found = ", ".join(f"{names[j]} = {x}" for j, x in node.revealed.items() if j not in seen)
        then = "reveal " + ", ".join(names[j] for j in node.reveal_next)
        if node.is_leaf:
            then = f"predict {_format(node.prediction)}"
        yield f"{found}{': ' if found else ''}{then}  (p = {node.probability:.3g})"
        for child in self.children(node):
            yield from (f"  {line}" for line in self._lines(child, tuple(node.revealed)))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"DecisionTree(n_nodes={self.n_nodes}, n_leaves={self.n_leaves}, depth={self.depth})"


def _readable(raw: Floats, problem: FiniteProblem) -> Any:
    if np.ndim(raw) == 0:
        return float(raw)
    return {label: float(q) for label, q in zip(problem.labels.tolist(), raw, strict=True)}


def _format(prediction: Any) -> str:
    if not isinstance(prediction, dict):
        return f"{prediction:.3g}"
    likely = [(label, q) for label, q in prediction.items() if round(q, 3) > 0]
    return ", ".join(f"{label} ({q:.3g})" for label, q in likely)
