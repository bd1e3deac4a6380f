"""Figures of a fit: the training history, and predicted beside observed frequencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import parameter_error, require
from suwr.plots._style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    finish,
    new_axes,
    new_grid,
    open_frame,
    plain,
)

_KEYS = ("epoch", "phase", "training_loss", "validation_objective", "mean_cost")
_SHADES = ("#F3F5F8", "#FFFFFF")


def plot_history(model_or_history: Any, ax: Any = None) -> Any:
    """Draw the training history of a model.

    The upper panel shows the training loss and the validation objective by epoch, the lower one
    the mean cost of the revealed units. The phases of training are shaded and labelled. Each phase
    minimises an objective of its own, so curves are not connected from one phase to the next.

    Parameters
    ----------
    model_or_history : estimator or sequence of dict
        A fitted model with a ``history_``, or the history itself: one dict per epoch with the keys
        'epoch', 'phase', 'training_loss', 'validation_objective' and 'mean_cost'. Values that a
        phase does not measure are None or NaN.
    ax : array of two matplotlib Axes, or a single one, default=None
        Axes of the two panels; a single one shows the losses only. If None, a new figure is
        created, without the lower panel if no phase measures the mean cost.

    Returns
    -------
    matplotlib Axes
        The axes of the losses; ``.figure.axes`` holds both panels.

    Examples
    --------
    >>> from suwr.plots import plot_history
    >>> loss = [0.7, 0.6, 0.9, 0.7, 0.6]
    >>> phases = ["predictor", "predictor", "policy", "policy", "policy"]
    >>> history = [
    ...     {"epoch": i + 1, "phase": phases[i], "training_loss": loss[i],
    ...      "validation_objective": loss[i] + 0.05, "mean_cost": 3.0 - i / 2 if i > 1 else None}
    ...     for i in range(5)
    ... ]
    >>> ax = plot_history(history)
    >>> ax.get_legend_handles_labels()[1]
    ['training loss', 'validation objective']
    >>> ax.figure.axes[1].get_ylabel()
    'Mean cost'
    """
    history = _check_history(model_or_history)
    panels = _panels(history, ax)
    losses = panels[0]
    phases = _phases(history)
    n_epochs = len(history)
    styles = {
        "training_loss": ("training loss", GREY, "--"),
        "validation_objective": ("validation objective", BLUE, "-"),
    }
    for key, (label, colour, linestyle) in styles.items():
        _draw(losses, history, phases, key, color=colour, linestyle=linestyle, label=label)
    # Room for the names of the phases between the curves and the upper edge.
    bottom, top = losses.get_ylim()
    losses.set_ylim(bottom, top + 0.12 * (top - bottom))
    finish(losses, "Training", "", "Loss")
    if len(panels) > 1:
        _draw(panels[1], history, phases, "mean_cost", color=GREEN, linestyle="-")
        panels[1].set_ylabel("Mean cost")
        panels[1].set_ylim(bottom=0)
        losses.tick_params(labelbottom=False)
    for number, (name, first, end) in enumerate(phases):
        for panel in panels:
            panel.axvspan(first + 0.5, end + 0.5, color=_SHADES[number % 2], linewidth=0, zorder=0)
        # A narrow phase has no room for its name in a row with the others.
        width = (end - first) / n_epochs
        losses.annotate(
            plain(name, 24),
            ((first + end + 1) / 2, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, -4),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize="small",
            color="#444444",
            rotation=0 if width > 0.015 * len(name) else 90,
        )
    ticker = require("matplotlib.ticker", "plots", "Plotting")
    for panel in panels:
        panel.set_xlim(0.5, n_epochs + 0.5)
        panel.xaxis.set_major_locator(ticker.MaxNLocator(8, integer=True))
        open_frame(panel)
    panels[-1].set_xlabel("Epoch")
    return losses


def _check_history(model_or_history: Any) -> list[Mapping[str, Any]]:
    expected = f"a fitted model with a 'history_', or a sequence of dicts with the keys {_KEYS}"
    history = getattr(model_or_history, "history_", model_or_history)
    is_sequence = isinstance(history, Sequence) and not isinstance(history, str)
    if not is_sequence or any(not isinstance(e, Mapping) or set(_KEYS) - set(e) for e in history):
        raise parameter_error("model_or_history", "plot_history", expected, history)
    if len(history) == 0:
        raise ValueError("The history of plot_history must have at least one epoch.")
    return list(history)


def _panels(history: list[Mapping[str, Any]], ax: Any) -> list[Any]:
    if ax is not None:
        panels = np.ravel(np.asarray(ax, dtype=object)).tolist()
        if len(panels) > 2:
            raise parameter_error("ax", "plot_history", "one or two matplotlib Axes", ax)
        return panels
    if np.isnan(_values(history, "mean_cost")).all():
        return [new_grid(1, 1, (7.2, 3.6))[0, 0]]
    return new_grid(2, 1, (7.2, 4.8), sharex=True, height_ratios=[2.2, 1])[:, 0].tolist()


def _phases(history: list[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Return name, first and end position of every run of epochs of one phase."""
    phases, position = [], 0
    for name, epochs in groupby(history, key=lambda entry: str(entry["phase"])):
        end = position + len(list(epochs))
        phases.append((name, position, end))
        position = end
    return phases


def _values(history: list[Mapping[str, Any]], key: str) -> NDArray[np.float64]:
    return np.array([np.nan if e[key] is None else float(e[key]) for e in history])


def _draw(
    ax: Any, history: list[Mapping[str, Any]], phases: list[tuple[str, int, int]], key: str,
    *, label: str | None = None, **style: Any,
) -> None:  # fmt: skip
    """Draw one quantity as one line per phase, over the position in the history."""
    values = _values(history, key)
    for _, first, end in phases:
        if np.isnan(values[first:end]).all():
            continue
        marker = "o" if end - first <= 40 else None
        ax.plot(
            np.arange(first, end) + 1, values[first:end], linewidth=2, marker=marker, markersize=4,
            label=label, zorder=3, **style,
        )  # fmt: skip
        label = None


def plot_calibration(evaluation: Any, ax: Any = None) -> Any:
    """Draw the calibration curve of a classifier.

    Rows are grouped by quantiles of their predicted probability: that of the second class if there
    are two, otherwise that of the predicted class. Points on the diagonal are calibrated. The bars
    are Wilson intervals of the observed frequencies, at the confidence level of the evaluation.

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
    'Predicted probability of the predicted class'
    """
    bins = getattr(evaluation, "calibration", None)
    if bins is None:
        expected = "the evaluation of a classifier, such as clf.evaluate(X, y)"
        raise parameter_error("evaluation", "plot_calibration", expected, type(evaluation).__name__)
    ax = new_axes(ax, (5.2, 5.2))
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
    of = "" if bins.label is None else f" of {plain(bins.label, 24)}"
    title = f"Calibration, in {len(predicted)} bins of about equal size"
    finish(ax, title, f"Predicted probability{of}", f"Observed frequency{of}")
    return ax
