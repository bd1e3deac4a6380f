"""The figure of predicted and observed frequencies."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from suwr._utils.validation import parameter_error
from suwr.plots._style import BLACK, BLUE, new_axes, open_frame

__all__ = ["plot_calibration"]


def plot_calibration(evaluation: Any, ax: Any = None) -> Any:
    """Draw the calibration curve of a classifier.

    Rows are grouped by their predicted probability: that of the second class if there are two,
    otherwise that of the predicted class. Points on the diagonal are calibrated. The bars are
    Wilson intervals of the observed frequencies, at the confidence level of the evaluation.

    Parameters
    ----------
    evaluation : Evaluation
        The result of ``clf.evaluate(X, y)``, or ``clf.report_``.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.plots import plot_calibration
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X[::2], y[::2])
    >>> plot_calibration(clf.evaluate(X[1::2], y[1::2])).get_xlabel()
    'Predicted probability'
    """
    bins = getattr(evaluation, "calibration", None)
    if bins is None:
        expected = "the evaluation of a classifier, such as clf.evaluate(X, y)"
        raise parameter_error("evaluation", "plot_calibration", expected, type(evaluation).__name__)
    ax = new_axes(ax, (4.6, 4.4))
    predicted, observed = np.array(bins.predicted), np.array(bins.observed)
    z, n = NormalDist().inv_cdf(0.5 + evaluation.confidence / 2), np.array(bins.n_rows)
    middle = (observed + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(observed * (1 - observed) / n + z**2 / (4 * n**2))
    ends = np.maximum(0.0, [observed - (middle - half), middle + half - observed])
    ax.plot([0, 1], [0, 1], color=BLACK, linewidth=1, linestyle="--", label="calibrated")
    ax.errorbar(
        predicted, observed, yerr=ends, color=BLUE, marker="o", linewidth=1.5, capsize=3,
        label="this model", clip_on=False, zorder=3,
    )  # fmt: skip
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.set_xlabel("Predicted probability")
    ax.set_ylabel("Observed frequency")
    open_frame(ax)
    ax.legend(frameon=False, loc="upper left")
    return ax
