"""Figures of quality against cost: sparsity paths, step budgets, Pareto fronts, fidelity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.validation import check_choice
from suwr.plots._style import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    LIGHT_GREY,
    MARKERS,
    VERMILLION,
    finish,
    new_axes,
    plain,
)

if TYPE_CHECKING:
    from suwr.exact.solve import ParetoFront
    from suwr.narrative.explanation import Explanation

# Points of a budget curve that are labelled with their accuracy.
_MAX_LABELS = 8

_STYLES = {
    "lp": ("All leak-free policies", BLUE, "o"),
    "dp": ("SUWR policies", VERMILLION, "s"),
    "global": ("Fixed subset", GREEN, "^"),
}


class Path(Protocol):
    """The part of a `suwr.estimators.selection.SparsityPath` that is drawn."""

    cost: NDArray[np.float64]
    score: NDArray[np.float64]


Curve = tuple[ArrayLike, ...]


def plot_path(
    paths: Path | Mapping[str, Path | Curve],
    references: Mapping[str, Curve | float] | None = None,
    ax: Any = None,
    *,
    xlabel: str = "Mean features revealed",
    ylabel: str = "Score",
    title: str = "Score by number of features",
) -> Any:
    """Draw score against mean cost.

    Of a path with standard errors, a ring marks the sparsest model whose score is at most one
    standard error below the highest one, and a dotted line that limit.

    Parameters
    ----------
    paths : SparsityPath or mapping
        The result of `sparsity_path`; or a mapping from label to a `SparsityPath` or to arrays
        (cost, score), with a third one (cost, score, half) for intervals of score ± half.
    references : mapping, default=None
        Exact or published values, drawn in black, by label: a pair (cost, score) of numbers or
        arrays, or a single score, drawn as a horizontal line, for a model that uses all features.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.
    xlabel, ylabel, title : str
        Axis labels and title.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.plots import plot_path
    >>> ax = plot_path({"SUWR": ([1.0, 2.0], [0.8, 0.9])}, {"all features": 0.95})
    >>> ax.get_xlabel()
    'Mean features revealed'
    """
    named = paths if isinstance(paths, Mapping) else {"SUWR": paths}
    if not named:
        raise ValueError("The 'paths' parameter of plot_path must not be empty.")
    ax = new_axes(ax, (6.4, 4.2))
    for number, (label, path) in enumerate(named.items()):
        x, y, *half = _points(path, label)
        order = np.argsort(x, kind="stable")
        style = number % len(COLOURS)
        if half:
            ax.fill_between(
                x[order], (y - half[0])[order], (y + half[0])[order], color=COLOURS[style],
                alpha=0.15, linewidth=0, label=None if number else "95 % interval",
            )  # fmt: skip
        ax.plot(
            x[order], y[order], color=COLOURS[style], marker=MARKERS[style], linewidth=2,
            label=plain(label), clip_on=False, zorder=3,
        )  # fmt: skip
        if getattr(path, "score_error", None) is not None:
            _mark_one_standard_error(ax, path, COLOURS[style])
    lines = ("--", ":", "-.")
    for number, (label, value) in enumerate((references or {}).items()):
        if isinstance(value, tuple):
            x, y = _points(value, label)[:2]
            ax.plot(
                x, y, color=BLACK, marker=("*", "h", "p")[number % 3], markersize=9,
                markerfacecolor="white", linewidth=1, linestyle=lines[number % 3],
                label=plain(label), clip_on=False, zorder=2,
            )  # fmt: skip
        else:
            ax.axhline(
                float(value), color=BLACK, linewidth=1, linestyle=lines[number % 3],
                label=plain(label),
            )  # fmt: skip
    ax.set_xlim(left=0)
    finish(ax, title, xlabel, ylabel, whole=ax.get_xlim()[1] > 1)
    return ax


def limited_predictions(
    explanation: Explanation,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean features and all predictions for every limit on the number of steps, from 0 on.

    Returns
    -------
    used : ndarray of shape (n_limits,)
    predictions : ndarray of shape (n_limits, n_rows, n_outputs)
    """
    longest = max(len(narrative.steps) for narrative in explanation)
    used, predictions = [], []
    for limit in range(longest + 1):
        cuts = [(narrative, min(limit, len(narrative.steps))) for narrative in explanation]
        counts = [sum(len(step.units) for step in n.steps[:cut]) for n, cut in cuts]
        used.append(np.mean(counts))
        predictions.append([narrative.predictions[cut] for narrative, cut in cuts])
    return np.array(used), np.array(predictions)


def budget_curve(
    explanation: Explanation, y: ArrayLike
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Compute mean features and accuracy for every limit on the number of steps.

    Decisions do not depend on the limit, so truncating the narratives gives exactly the
    predictions of the same model with a smaller ``max_steps``.

    Parameters
    ----------
    explanation : Explanation
        Explanation of a classifier.
    y : array-like of shape (n_rows,)
        True classes.

    Returns
    -------
    budgets : ndarray of int
        Limits from 0 to the longest narrative.
    used : ndarray of float
        Mean number of units revealed within each limit.
    accuracy : ndarray of float
        Accuracy of the predictions within each limit.

    Examples
    --------
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import budget_curve
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> budgets, used, accuracy = budget_curve(Explanation([narrative]), ["ill"])
    >>> int(budgets[0]), float(used[0])
    (0, 0.0)
    """
    truth = np.asarray(y).tolist()
    if len(explanation) == 0 or len(truth) != len(explanation):
        raise ValueError(
            f"The 'y' parameter must have one class for each of the {len(explanation)} rows, and "
            f"there must be at least one row. Got {len(truth)} classes instead."
        )
    used, predictions = limited_predictions(explanation)
    labels = list(explanation[0].classes or ())
    hits = [[labels[k] for k in best] for best in predictions.argmax(axis=2)]
    accuracy = [np.mean([a == b for a, b in zip(row, truth, strict=True)]) for row in hits]
    return np.arange(len(used)), used, np.array(accuracy)


def plot_budget(explanation: Explanation, y: ArrayLike, ax: Any = None) -> Any:
    """Draw the mean number of revealed features for every limit on the number of steps.

    Points are labelled with the accuracy at that limit.

    Parameters
    ----------
    explanation : Explanation
        Explanation of a classifier.
    y : array-like of shape (n_rows,)
        True classes.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_budget
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> plot_budget(Explanation([narrative]), ["ill"]).get_xlabel()
    'Maximum number of steps, $T$ (labels: accuracy)'
    """
    budgets, used, accuracy = budget_curve(explanation, y)
    ax = new_axes(ax, (6.0, 4.0))
    per_step = max((len(s.units) for narrative in explanation for s in narrative.steps), default=1)
    ax.plot(budgets, per_step * budgets, color=GREY, linestyle="--", label="without early stopping")
    ax.plot(budgets, used, color=BLUE, marker="o", linewidth=2, label="revealed on average")
    # The last point is always labelled.
    every = -(-len(budgets) // _MAX_LABELS)
    labelled = list(zip(budgets, used, accuracy, strict=True))[::-every]
    for x, height, value in reversed(labelled):
        ax.annotate(
            f"{100 * value:.1f} %", (x, height), xytext=(4, -6), textcoords="offset points",
            va="top", fontsize="small",
        )  # fmt: skip
    ax.set_xlim(-0.3, budgets[-1] + 0.9)
    ax.set_ylim(bottom=-0.12 * per_step * budgets[-1] or -1.0)
    ax.locator_params(axis="y", integer=True)
    xlabel = "Maximum number of steps, $T$ (labels: accuracy)"
    finish(ax, "Features by limit of steps", xlabel, "Features revealed", whole=True)
    return ax


def plot_fronts(
    fronts: Sequence[ParetoFront],
    *,
    labels: Sequence[str] | None = None,
    ax: Any = None,
    xlabel: str | None = None,
    ylabel: str = "Expected loss",
) -> Any:
    """Draw exact Pareto fronts of expected loss against expected cost.

    The grey region below the fronts is infeasible for every kind of policy that is drawn.

    Parameters
    ----------
    fronts : sequence of ParetoFront
    labels : sequence of str, default=None
        Legend labels; by default the kind of policy.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.
    xlabel, ylabel : str
        Axis labels.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.exact import five_blocks, pareto_front
    >>> from suwr.plots import plot_fronts
    >>> problem, _ = five_blocks()
    >>> ax = plot_fronts([pareto_front(problem, method) for method in ("lp", "dp")])
    >>> ax.get_ylabel()
    'Expected loss'
    """
    if not fronts:
        raise ValueError("The 'fronts' parameter of plot_fronts must not be empty.")
    if labels is not None and len(labels) != len(fronts):
        raise ValueError(
            f"The 'labels' parameter of plot_fronts must have {len(fronts)} entries, one per "
            f"front. Got {len(labels)} instead."
        )
    ax = new_axes(ax, (6.4, 4.2))
    right = max(float(front.cost[-1]) for front in fronts) * 1.06 or 1.0
    top = max(float(front.loss[0]) for front in fronts) * 1.06 or 1.0
    _shade(ax, fronts, right, top)
    for i, front in enumerate(fronts):
        name, colour, marker = _STYLES.get(front.method, (front.method, "#000000", "o"))
        ax.plot(
            np.append(front.cost, right),
            np.append(front.loss, front.loss[-1]),
            color=colour,
            linewidth=2,
            marker=marker,
            markersize=5 if len(front) < 40 else 3,
            markevery=slice(0, len(front)),
            label=labels[i] if labels is not None else name,
            clip_on=False,
            zorder=3 + i,
        )
    has_costs = any(not np.allclose(front.cost, front.n_selected) for front in fronts)
    ax.set_xlim(0, right)
    ax.set_ylim(0, top)
    xlabel = xlabel or ("Expected cost" if has_costs else "Expected features revealed")
    finish(ax, "The best possible trade-offs", xlabel, ylabel, whole=right > 1)
    return ax


def _mark_one_standard_error(ax: Any, path: Any, colour: str) -> None:
    """Mark the model that `SparsityPath.best` returns, and the lowest score that it may have."""
    best, chosen = path.best_index("score"), path.best_index("1se")
    error = path.score_error[best]
    if not np.isfinite(error):
        return
    name = "sparsest within one standard error"
    label = None if name in ax.get_legend_handles_labels()[1] else name
    ax.plot(
        path.cost[chosen], path.score[chosen], color=colour, marker="o", markersize=15,
        markerfacecolor="none", linestyle="none", label=label, clip_on=False, zorder=4,
    )  # fmt: skip
    ax.hlines(
        path.score[best] - error, path.cost[chosen], path.cost[best], color=colour, linewidth=1,
        linestyle=":", zorder=2, label=label and "one standard error below the best",
    )  # fmt: skip


def _points(path: Any, label: str) -> tuple[NDArray[np.float64], ...]:
    cost = getattr(path, "cost", None)
    # The cost of an estimator is a method.
    if not isinstance(path, tuple) and (cost is None or callable(cost)):
        expected = "a SparsityPath, such as sparsity_path(clf, X, y), or a pair (cost, score)"
        raise ValueError(f"{label!r} must be {expected}. Got {type(path).__name__} instead.")
    pair = path if isinstance(path, tuple) else (path.cost, path.score)
    if len(pair) not in (2, 3):
        raise ValueError(f"{label!r} must be a pair (cost, score). Got {path!r} instead.")
    found = tuple(np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in pair)
    x, y = found[:2]
    if x.ndim != 1 or len({part.shape for part in found}) > 1:
        raise ValueError(
            f"The costs and scores of {label!r} must be one-dimensional and of equal length. "
            f"Got the shapes {x.shape} and {y.shape} instead."
        )
    return found


def _shade(ax: Any, fronts: Sequence[ParetoFront], right: float, top: float) -> None:
    cost = np.unique(np.concatenate([[0.0, right], *(front.cost for front in fronts)]))
    reached = np.array([front.loss_at(cost) for front in fronts])
    floor = np.where(np.isnan(reached), top, reached).min(axis=0)
    methods = {front.method for front in fronts}
    name = "Infeasible with a fixed subset"
    if methods & {"lp", "dp"}:
        name = "Infeasible without leakage" if "lp" in methods else "Infeasible for SUWR"
    ax.fill_between(cost, 0, floor, color=LIGHT_GREY, linewidth=0, zorder=0, label=name)


class DrawnCurve(Protocol):
    """The part of a `suwr.explainer.fidelity.FidelityCurve` that is drawn."""

    @property
    def cost(self) -> Sequence[float]:
        """Mean cost."""

    @property
    def divergence(self) -> Sequence[float]:
        """KL divergence, or 1 - R²."""

    @property
    def agreement(self) -> Sequence[float]:
        """Agreement, or R²."""


class DrawnFidelity(Protocol):
    """The part of a `suwr.explainer.fidelity.Fidelity` that is drawn."""

    @property
    def curves(self) -> Mapping[str, DrawnCurve]:
        """Curves by name."""

    @property
    def regression(self) -> bool:
        """Whether outputs are values."""


def plot_fidelity(fidelity: DrawnFidelity, ax: Any = None, *, measure: str = "divergence") -> Any:
    """Draw the fidelity of an explainer, and of attributions, against mean cost.

    Parameters
    ----------
    fidelity : Fidelity
        Result of `SUWRExplainer.fidelity`.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.
    measure : {'divergence', 'agreement'}, default='divergence'
        'divergence' is the KL divergence, or 1 - R² for values; 'agreement' is the fraction of
        rows with the model's class, or R².

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.explainer.fidelity import Fidelity, FidelityCurve
    >>> from suwr.plots import plot_fidelity
    >>> curve = FidelityCurve((0.0, 2.0), (0.5, 0.01), (0.6, 0.97))
    >>> plot_fidelity(Fidelity({"SUWR": curve}, 100, 10, False)).get_ylabel()
    'KL divergence (nats)'
    """
    check_choice(measure, "measure", "plot_fidelity", ("divergence", "agreement"))
    ax = new_axes(ax, (6.4, 4.2))
    for number, (name, curve) in enumerate(fidelity.curves.items()):
        style = number % len(COLOURS)
        ax.plot(
            curve.cost, getattr(curve, measure), color=COLOURS[style], marker=MARKERS[style],
            linewidth=2, linestyle="-" if name.startswith("SUWR") else "--", label=plain(name),
            zorder=3,
        )  # fmt: skip
    names = {
        ("divergence", False): "KL divergence (nats)",
        ("divergence", True): "1 − R²",
        ("agreement", False): "Agreement with the model",
        ("agreement", True): "R²",
    }
    ax.set_xlim(left=0)
    if measure == "divergence":
        ax.set_ylim(bottom=0)
    xlabel, ylabel = "Mean cost per row", names[measure, fidelity.regression]
    finish(ax, "Fidelity to the model by cost", xlabel, ylabel, whole=ax.get_xlim()[1] > 1)
    return ax
