"""Figures. Nothing outside of this package imports matplotlib.

Every function draws where it is told (``ax``), or into a new figure, and returns what it drew on;
none calls ``show``.
"""

from suwr.plots.audit import plot_audit
from suwr.plots.budget import budget_curve, plot_budget
from suwr.plots.counterfactual import plot_counterfactual
from suwr.plots.flow import plot_flow
from suwr.plots.fronts import plot_fronts
from suwr.plots.images import (
    plot_image_narrative,
    plot_image_step,
    plot_image_usage,
    plot_prediction,
)
from suwr.plots.lengths import plot_lengths
from suwr.plots.model_figures import draw_figures, find_flip
from suwr.plots.narrative import plot_narrative
from suwr.plots.path import plot_path
from suwr.plots.usage import plot_usage

__all__ = [
    "budget_curve",
    "draw_figures",
    "find_flip",
    "plot_audit",
    "plot_budget",
    "plot_counterfactual",
    "plot_flow",
    "plot_fronts",
    "plot_image_narrative",
    "plot_image_step",
    "plot_image_usage",
    "plot_lengths",
    "plot_narrative",
    "plot_path",
    "plot_prediction",
    "plot_usage",
]
