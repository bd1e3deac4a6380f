"""The registry of figures that ``suwr figures`` draws for a fitted model.

To add a figure, write its function in a module of this package and add one line to `FIGURES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from suwr._utils.validation import require
from suwr.data.units import Patches
from suwr.plots._style import new_grid, plain, write_figure
from suwr.plots.fit import plot_calibration, plot_history
from suwr.plots.images import (
    find_flip,
    new_step_grid,
    pixel_values,
    plot_counterfactual,
    plot_image_narrative,
    plot_image_step,
    plot_image_usage,
)
from suwr.plots.narratives import (
    plot_flow,
    plot_lengths,
    plot_narrative,
    plot_transitions,
    plot_usage,
)
from suwr.plots.tradeoff import limited_predictions, plot_budget, plot_fidelity, plot_path

if TYPE_CHECKING:
    from suwr.narrative.explanation import Explanation, Narrative

# Steps of an image that are drawn side by side, as in the paper.
_MAX_STEPS = 4
# Share of the most frequent class from which accuracy says little.
MAX_SHARE = 0.8
# Least probability in a log loss, and the normal quantile of 95 % intervals.
_SMALLEST, _Z = 1e-12, 1.96
_OWN = "this model, at most T steps"
# Steps drawn after the policy has stopped.
_EXTRA_STEPS = 2


@dataclass(frozen=True)
class Subject:
    """What the figures are drawn from: a model, held-out rows and options.

    Attributes
    ----------
    model : SUWRClassifier or SUWRRegressor
    X : array or data frame of shape (n_rows, n_columns)
    y : ndarray of shape (n_rows,)
        True classes or values.
    explanation : Explanation
        ``model.explain(X)``.
    pair, flip : (class, class) or None
        Classes compared by 'steps' and 'counterfactual'; None for a regressor.
    others : mapping of str to estimator
        Models with other sparsity weights.
    references : mapping or None
        See `suwr.plots.plot_path`.
    """

    model: Any
    X: Any
    y: Any
    explanation: Explanation
    pair: tuple[Any, Any] | None = None
    flip: tuple[Any, Any] | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    references: Mapping[str, Any] | None = None

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """Class labels; None for regression."""
        return self.explanation[0].classes

    @property
    def patches(self) -> Patches:
        """The patches of a model of images."""
        return self.model.groups

    @property
    def pixels(self) -> Any:
        """The images as an array of shape (n_rows, n_columns)."""
        return pixel_values(self.model, self.X)


@dataclass(frozen=True)
class Figure:
    """An entry of the registry.

    Attributes
    ----------
    name : str
        Name of the file, without its suffix.
    draw : callable
        Takes a `Subject`; returns the axes, or None if the subject has nothing to show.
    classes : bool, default=False
        The figure needs a classifier.
    images : bool or None, default=None
        True for models of image patches, False for tables, None for both.
    """

    name: str
    draw: Callable[[Subject], Any]
    classes: bool = False
    images: bool | None = None

    def applies_to(self, subject: Subject) -> bool:
        """Return whether the figure suits the kind of model."""
        if self.classes and subject.classes is None:
            return False
        return self.images in (None, isinstance(subject.model.groups, Patches))


def draw_figures(
    model: Any,
    X: Any,
    y: ArrayLike,
    out: Path,
    *,
    pair: tuple[Any, Any] | None = None,
    flip: tuple[Any, Any] | None = None,
    others: Mapping[str, Any] | None = None,
    references: Mapping[str, Any] | None = None,
    dpi: int | None = None,
) -> list[Path]:
    """Draw every figure of `FIGURES` that applies to a model.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
    X : array or data frame of shape (n_rows, n_columns)
        Rows that the model was not fitted on.
    y : array-like of shape (n_rows,)
        True classes or values.
    out : Path
        Output folder; created if it does not exist.
    pair : (class, class), default=None
        Classes whose narratives ``steps`` compares; by default the most confused pair.
    flip : (class, class), default=None
        Source and target class of ``counterfactual``; by default the most confused pair.
    others : mapping of str to estimator, default=None
        Models with other sparsity weights, as further points of ``accuracy``.
    references : mapping, default=None
        References for ``accuracy``, as in `suwr.plots.plot_path`.
    dpi : int, optional
        Resolution; by default that of 1,600 pixels in width, and at least 150.

    Returns
    -------
    list of Path
        The files. A figure for which the rows contain no example is omitted.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from suwr import SUWRRegressor
    >>> from suwr.plots import draw_figures
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> reg = SUWRRegressor(max_epochs=1, random_state=0).fit(X, X[:, 0])
    >>> with TemporaryDirectory() as folder:
    ...     written = draw_figures(reg, X, X[:, 0], Path(folder), dpi=30)
    >>> "flow.png" in [path.name for path in written]
    True
    """
    plt = require("matplotlib.pyplot", "plots", "Drawing figures")
    y = np.asarray(y)
    explanation = model.explain(X)
    if explanation[0].classes is not None:
        pair = pair or most_confused(explanation, y)
        flip = flip or most_confused(explanation, y)
    subject = Subject(model, X, y, explanation, pair, flip, others or {}, references)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for entry in FIGURES:
        axes = entry.draw(subject) if entry.applies_to(subject) else None
        if axes is None:
            continue
        figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
        path = out / f"{entry.name}.png"
        written.append(write_figure(figure, path, dpi))
        plt.close(figure)
    return written


def typical_row(explanation: Explanation, y: ArrayLike, label: Any) -> int | None:
    """Return the first correctly classified row of a class whose narrative has median length.

    None if no row of the class is classified correctly.
    """
    correct = [
        i
        for i, (narrative, truth) in enumerate(
            zip(explanation, np.asarray(y).tolist(), strict=True)
        )
        if truth == label and narrative.label == label
    ]
    if not correct:
        return None
    return correct[_first_of_median_length([explanation[i] for i in correct])]


def most_confused(explanation: Explanation, y: ArrayLike) -> tuple[Any, Any]:
    """Return the (true, predicted) pair of classes with the most errors."""
    classes = explanation[0].classes
    if classes is None or len(classes) < 2:
        raise ValueError("most_confused requires a classifier with at least two classes.")
    errors = Counter(
        (truth, narrative.label)
        for narrative, truth in zip(explanation, np.asarray(y).tolist(), strict=True)
        if truth != narrative.label and truth in classes
    )
    return errors.most_common(1)[0][0] if errors else (classes[0], classes[1])


def _first_of_median_length(narratives: list[Narrative]) -> int:
    lengths = np.array([len(narrative.steps) for narrative in narratives])
    median = np.sort(lengths)[len(lengths) // 2]
    return int(np.flatnonzero(lengths == median)[0])


def _narrative(subject: Subject) -> Any:
    narratives = list(subject.explanation)
    return plot_narrative(narratives[_first_of_median_length(narratives)])


def _usage(subject: Subject) -> Any:
    return plot_usage(subject.explanation, None if subject.classes is None else subject.y)


def _history(subject: Subject) -> Any:
    history = getattr(subject.model, "history_", None)
    return plot_history(history) if history else None


def _accuracy(subject: Subject) -> Any:
    """Draw one model truncated at every number of steps, and other models as points.

    The accuracy, or the log loss if one class is so frequent that any model has a high accuracy.
    """
    labels = list(subject.classes or ())
    truth = np.array([labels.index(label) for label in subject.y.tolist()])
    share = np.bincount(truth, minlength=len(labels)) / len(truth)
    used, predictions = limited_predictions(subject.explanation)
    if share.max() > MAX_SHARE:
        chosen = predictions[:, np.arange(len(truth)), truth]
        rows, constant = -np.log(np.maximum(chosen, _SMALLEST)), -np.log(share[truth]).mean()
        metric, factor, ylabel = "loss", 1.0, "Log loss"
    else:
        rows, constant = predictions.argmax(axis=2) == truth, share.max()
        metric, factor, ylabel = "accuracy", 100.0, "Accuracy (%)"
    score, half = rows.mean(axis=1), _Z * rows.std(axis=1) / len(truth) ** 0.5
    curves: dict[str, Any] = {_OWN: (used, factor * score, factor * half)}
    if subject.others:
        points = [
            (model.cost(subject.X).mean(), model.evaluate(subject.X, subject.y)[metric])
            for model in subject.others.values()
        ]
        points.append((used[-1], score[-1]))
        cost, scores = np.array(sorted(points)).T
        curves["models with other sparsity weights"] = (cost, factor * scores)
    references = {"constant prediction": factor * float(constant)}
    if metric == "accuracy":
        references |= subject.references or {}
    title = f"{ylabel.removesuffix(' (%)')} by number of features"
    ax = plot_path(curves, references, ylabel=ylabel, title=title)
    if metric == "accuracy":
        ax.set_ylim(top=min(ax.get_ylim()[1], 101))
    return ax


def _fidelity(subject: Subject) -> Any:
    """Draw the fidelity of a `suwr.SUWRExplainer`."""
    measure = getattr(subject.model, "fidelity", None)
    return None if measure is None else plot_fidelity(measure(subject.X))


def _calibration(subject: Subject) -> Any:
    """Draw the calibration of an estimator; a `suwr.SUWRExplainer` has no labels."""
    evaluate = getattr(subject.model, "evaluate", None)
    if evaluate is None or not set(subject.y.tolist()) <= set(subject.classes or ()):
        return None
    return plot_calibration(evaluate(subject.X, subject.y))


def _masks(subject: Subject) -> Any:
    """Draw the selected patches of a typical image of each class."""
    explanation, patches = subject.explanation, subject.patches
    chosen = [
        (label, typical_row(explanation, subject.y, label)) for label in subject.classes or ()
    ]
    shown = [(label, row) for label, row in chosen if row is not None]
    if not shown:
        return None
    n_columns = min(len(shown), 5)
    n_rows = -(-len(shown) // n_columns)
    axes = new_grid(n_rows, n_columns, (2.2 * n_columns, 2.5 * n_rows))
    for ax in axes.flat[len(shown) :]:
        ax.set_axis_off()
    for ax, (label, row) in zip(axes.flat, shown, strict=False):
        plot_image_step(explanation[row], subject.pixels[row], patches, ax=ax)
        ax.set_title(plain(explanation.description.class_text(label), 18))
    _title(axes, "Revealed patches of an image of each class, in their order")
    return axes


def _steps(subject: Subject) -> Any:
    """Draw the last steps of a typical image of each class of the pair."""
    explanation = subject.explanation
    rows = [typical_row(explanation, subject.y, label) for label in subject.pair or ()]
    found = [row for row in rows if row is not None]
    if not found:
        return None
    longest = max(len(explanation[row].steps) for row in found)
    axes = new_step_grid(len(found), min(_MAX_STEPS, max(1, longest)))
    for line, row in zip(axes, found, strict=True):
        narrative = explanation[row]
        n = len(narrative.steps)
        present = list(range(max(1, n - _MAX_STEPS + 1), n + 1))
        images = line[: 2 * len(present)]
        plot_image_narrative(narrative, subject.pixels[row], subject.patches, present, images)
        for ax in line[2 * len(present) :]:
            ax.set_axis_off()
    _title(axes, "The last steps of an image of each class")
    return axes


def _title(axes: Any, text: str) -> None:
    """Set the title of a figure of several axes."""
    axes.flat[0].figure.suptitle(text, x=0.01, ha="left", fontweight="bold")


def _early_stop(subject: Subject) -> Any:
    """Draw features used per step limit, and an image continued beyond the stop of the policy."""
    chosen = [
        (len(subject.explanation[row].steps), row)
        for label in subject.classes or ()
        if (row := typical_row(subject.explanation, subject.y, label)) is not None
    ]
    earliest = min(((n, row) for n, row in chosen if n > 0), default=None)
    if earliest is None:
        return None
    n_steps, row = earliest
    narrative = _continue(subject.model, subject.pixels[row], n_steps + _EXTRA_STEPS)
    steps = list(range(max(1, n_steps - 1), len(narrative.steps) + 1))
    widths = [4.4, *[1.5, 1.0] * len(steps)]
    (left, *right) = new_grid(1, len(widths), (1.2 * sum(widths), 3.6), width_ratios=widths)[0]
    plot_budget(subject.explanation, subject.y, left)
    axes = np.array(right)
    plot_image_narrative(narrative, subject.pixels[row], subject.patches, steps, axes)
    for place, step in enumerate(steps):
        if step == n_steps:
            axes[2 * place].set_title(f"step {step}: stops", fontweight="bold")
        elif step > n_steps:
            axes[2 * place].set_title(f"step {step}, if continued", color="#5F5F5F")
    return left


def _continue(model: Any, image: Any, n_steps: int) -> Narrative:
    """Return a narrative that is continued after the policy has stopped."""
    value = dict(zip(model.encoder_.names, image.tolist(), strict=True))
    session = model.acquire()
    while len(session.narrative().steps) < min(n_steps, model.max_steps_):
        if session.done:
            session.go_on()
        session.observe({column: value[column] for column in session.next_columns})
    return session.narrative()


def _counterfactual(subject: Subject) -> Any:
    """Draw an image whose prediction flips when one patch is changed."""
    if subject.flip is None:
        return None
    rows = subject.model, subject.X, subject.y
    flip = find_flip(*rows, *subject.flip) or find_flip(*rows, *reversed(subject.flip))
    if flip is None:
        return None
    longest = max(len(flip.before.steps), len(flip.after.steps))
    first = max(1, min(flip.step - 1, longest - _MAX_STEPS + 1))
    steps = range(first, min(longest, first + _MAX_STEPS - 1) + 1)
    narratives, images = (flip.before, flip.after), (flip.image, flip.changed)
    axes = plot_counterfactual(narratives, images, subject.patches, flip.unit, steps)
    _title(axes, "A changed patch that changes the prediction")
    return axes


FIGURES = (
    Figure("narrative", _narrative),
    Figure("flow", lambda subject: plot_flow(subject.explanation)),
    Figure("transitions", lambda subject: plot_transitions(subject.explanation), images=False),
    Figure("lengths", lambda subject: plot_lengths(subject.explanation)),
    Figure("history", _history),
    Figure("accuracy", _accuracy, classes=True),
    Figure("fidelity", _fidelity),
    Figure("calibration", _calibration, classes=True),
    Figure("usage", _usage, images=False),
    Figure("pixels", lambda s: plot_image_usage(s.explanation, s.patches), images=True),
    Figure("masks", _masks, classes=True, images=True),
    Figure("steps", _steps, classes=True, images=True),
    Figure("early-stop", _early_stop, classes=True, images=True),
    Figure("counterfactual", _counterfactual, classes=True, images=True),
)
