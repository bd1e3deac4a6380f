"""Decision trees: deterministic SUWR policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from suwr.exact.problem import FiniteProblem
from suwr.exact.states import Floats, Ints


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

    def text(self, max_depth: int | None = None, decimals: int = 3) -> str:
        """Format the tree as indented lines.

        Parameters
        ----------
        max_depth : int, default=None
            Number of steps to show; all if None.
        decimals : int, default=3
            Significant digits of predictions and probabilities.
        """
        lines: list[str] = []
        self._describe(self.root, (), 0, max_depth, decimals, lines)
        return "\n".join(lines)

    def _describe(
        self,
        node: Node,
        seen: tuple[int, ...],
        depth: int,
        max_depth: int | None,
        decimals: int,
        lines: list[str],
    ) -> None:
        names = self.problem.names()
        new = [j for j in node.revealed if j not in seen]
        found = ", ".join(f"{names[j]} = {node.revealed[j]}" for j in new)
        if node.is_leaf:
            then = f"predict {_format(node.prediction, decimals)}"
        else:
            then = "reveal " + ", ".join(names[j] for j in node.reveal_next)
        start = f"{found}: " if found else ""
        lines.append("  " * depth + f"{start}{then}  (p = {node.probability:.{decimals}g})")
        children = self.children(node)
        if children and max_depth is not None and depth >= max_depth:
            lines.append("  " * (depth + 1) + "…")
            return
        for child in children:
            self._describe(child, tuple(node.revealed), depth + 1, max_depth, decimals, lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"DecisionTree(n_nodes={self.n_nodes}, n_leaves={self.n_leaves}, depth={self.depth})"


def _readable(raw: Floats, problem: FiniteProblem) -> Any:
    if np.ndim(raw) == 0:
        return float(raw)
    return {label: float(q) for label, q in zip(problem.labels.tolist(), raw, strict=True)}


def _format(prediction: Any, decimals: int) -> str:
    if not isinstance(prediction, dict):
        return f"{prediction:.{decimals}g}"
    likely = [(label, q) for label, q in prediction.items() if round(q, decimals) > 0]
    return ", ".join(f"{label} ({q:.{decimals}g})" for label, q in likely)
