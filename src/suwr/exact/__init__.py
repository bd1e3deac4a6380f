"""Exact methods for problems small enough to know p(x, y) completely.

``FiniteProblem`` states a problem. ``solve`` and ``pareto_front`` find the best policies of three
kinds, ``leakage`` measures any policy, ``represent`` decides whether SUWR can run it, and ``gap``
compares a fitted model with the optimum.
"""

from suwr.exact.certificate import LeakCertificate, RayCertificate
from suwr.exact.front import ParetoFront, pareto_front
from suwr.exact.gap import Gap, gap
from suwr.exact.leakage import LeakageAmount, LeakageReport, Witness, leakage
from suwr.exact.library import cube, five_blocks, leaky_pair, one_hot_rows, toy_problem
from suwr.exact.policy import StatePolicy
from suwr.exact.problem import FiniteProblem
from suwr.exact.representation import Representation, represent
from suwr.exact.sequential import Decision, SUWRPolicy
from suwr.exact.solution import Solution
from suwr.exact.solve import solve
from suwr.exact.table import PolicyTable, as_table
from suwr.exact.tree import DecisionTree, Node

__all__ = [
    "Decision",
    "DecisionTree",
    "FiniteProblem",
    "Gap",
    "LeakCertificate",
    "LeakageAmount",
    "LeakageReport",
    "Node",
    "ParetoFront",
    "PolicyTable",
    "RayCertificate",
    "Representation",
    "SUWRPolicy",
    "Solution",
    "StatePolicy",
    "Witness",
    "as_table",
    "cube",
    "five_blocks",
    "gap",
    "leakage",
    "leaky_pair",
    "one_hot_rows",
    "pareto_front",
    "represent",
    "solve",
    "toy_problem",
]
