"""Exact methods for finite problems, whose distribution p(x, y) is known.

``FiniteProblem`` defines a problem. ``solve`` and ``pareto_front`` compute optimal policies,
``leakage`` measures the leakage of any policy, ``represent`` decides whether a policy is a SUWR
policy, and ``gap`` compares a fitted model with the optimum.
"""

from suwr.exact.leakage import LeakageAmount, LeakageReport, LeakageWitness, leakage
from suwr.exact.policy import (
    Decision,
    DecisionTree,
    Node,
    PolicyTable,
    StatePolicy,
    SUWRPolicy,
    as_table,
)
from suwr.exact.problem import (
    FiniteProblem,
    cube,
    five_blocks,
    leaky_pair,
    one_hot_rows,
    toy_problem,
)
from suwr.exact.representation import LeakCertificate, RayCertificate, Representation, represent
from suwr.exact.solve import OptimalityGap, ParetoFront, Solution, gap, pareto_front, solve

__all__ = [
    "Decision",
    "DecisionTree",
    "FiniteProblem",
    "LeakCertificate",
    "LeakageAmount",
    "LeakageReport",
    "LeakageWitness",
    "Node",
    "OptimalityGap",
    "ParetoFront",
    "PolicyTable",
    "RayCertificate",
    "Representation",
    "SUWRPolicy",
    "Solution",
    "StatePolicy",
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
