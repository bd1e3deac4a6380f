"""Exact methods for problems small enough to know p(x, y) completely.

``FiniteProblem`` states a problem; ``solve`` finds the best policy of three kinds.
"""

from suwr.exact.front import ParetoFront, pareto_front
from suwr.exact.library import cube, five_blocks, leaky_pair, one_hot_rows, toy_problem
from suwr.exact.policy import StatePolicy
from suwr.exact.problem import FiniteProblem
from suwr.exact.solution import Solution
from suwr.exact.solve import solve
from suwr.exact.tree import DecisionTree, Node

__all__ = [
    "DecisionTree",
    "FiniteProblem",
    "Node",
    "ParetoFront",
    "Solution",
    "StatePolicy",
    "cube",
    "five_blocks",
    "leaky_pair",
    "one_hot_rows",
    "pareto_front",
    "solve",
    "toy_problem",
]
