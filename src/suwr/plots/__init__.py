"""Figures of narratives, explanations, training, trade-offs and audits.

Every function draws on the ``ax`` that it is given, or on a new figure, and returns the axes. None
of them calls ``show``. matplotlib is imported by this package only, when a figure is drawn.
"""

from suwr.plots.audit import plot_audit
from suwr.plots.fit import plot_calibration, plot_history
from suwr.plots.gallery import draw_figures
from suwr.plots.images import (
    Flip,
    find_flip,
    plot_counterfactual,
    plot_image_narrative,
    plot_image_step,
    plot_image_usage,
    plot_prediction,
)
from suwr.plots.narratives import (
    plot_flow,
    plot_lengths,
    plot_minimisation,
    plot_narrative,
    plot_transitions,
    plot_usage,
)
from suwr.plots.tradeoff import budget_curve, plot_budget, plot_fidelity, plot_fronts, plot_path

__all__ = [
    "Flip",
    "budget_curve",
    "draw_figures",
    "find_flip",
    "plot_audit",
    "plot_budget",
    "plot_calibration",
    "plot_counterfactual",
    "plot_fidelity",
    "plot_flow",
    "plot_fronts",
    "plot_history",
    "plot_image_narrative",
    "plot_image_step",
    "plot_image_usage",
    "plot_lengths",
    "plot_minimisation",
    "plot_narrative",
    "plot_path",
    "plot_prediction",
    "plot_transitions",
    "plot_usage",
]
