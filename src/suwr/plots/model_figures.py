"""All figures of one fitted model in one call, and the selection of the rows that they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.optional import require
from suwr.data.units import Patches
from suwr.explanation import Explanation, Narrative
from suwr.plots._style import new_grid, plain
from suwr.plots.budget import budget_curve, plot_budget
from suwr.plots.counterfactual import plot_counterfactual
from suwr.plots.files import write_figure
from suwr.plots.flow import plot_flow
from suwr.plots.images import (
    new_story_grid,
    plot_image_narrative,
    plot_image_step,
    plot_image_usage,
)
from suwr.plots.lengths import plot_lengths
from suwr.plots.narrative import plot_narrative
from suwr.plots.path import plot_path
from suwr.plots.usage import plot_usage

__all__ = ["Flip", "draw_figures", "find_flip", "most_confused", "typical_row"]

# Number of steps of an image that are drawn side by side, as in the paper.
STEPS_IN_A_ROW = 4
# Number of steps drawn after the policy has stopped.
STEPS_BEYOND = 2
# Number of images of a class in which `find_flip` searches.
MAX_SEARCHED = 200
# Mid-grey, maximum and minimum: fill values of a patch, relative to the range of pixel values.
FILLS = (0.5, 1.0, 0.0)


@dataclass(frozen=True)
class Flip:
    """An image whose predicted class changes with one patch.

    Attributes
    ----------
    row : int
        Index of the image.
    step : int
        Step that reveals the changed patch, from 1.
    unit : str
        Name of the patch.
    image, changed : ndarray of shape (n_columns,)
        The original image, and the image with the patch filled.
    before, after : Narrative
        Narratives of the two images.
    """

    row: int
    step: int
    unit: str
    image: NDArray[np.float64]
    changed: NDArray[np.float64]
    before: Narrative
    after: Narrative


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
    dpi: int = 150,
) -> list[Path]:
    """Draw every figure that applies to a model, and write each as a PNG file.

    All models: ``narrative`` (one row), ``flow``, ``lengths``, and ``usage`` or, for images,
    ``pixels``. Classifiers: ``accuracy`` against the number of features (the paper's Figure 4).
    Image classifiers: ``masks`` (Figure 2), ``steps`` (Figure 3), ``early-stop`` (Figure 7) and
    ``counterfactual`` (Figure 8).

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        A fitted estimator.
    X : array or data frame of shape (n, d)
        Rows that the model was not trained on.
    y : array-like of shape (n,)
    out : Path
        Output folder; created if it does not exist.
    pair : (class, class), default=None
        Classes whose narratives ``steps`` compares; None is the most confused pair.
    flip : (class, class), default=None
        Classes between which ``counterfactual`` changes the prediction; None is the most confused
        pair.
    others : mapping of str to estimator, default=None
        Models fitted with other sparsity weights: additional points of ``accuracy``.
    references : mapping, default=None
        Reference points of ``accuracy``, as in `suwr.plots.plot_path`.
    dpi : int, default=150

    Returns
    -------
    list of Path
        Files written. A figure for which no example row is found is omitted.
    """
    plt = require("matplotlib.pyplot", "plots", "Drawing figures")
    y = np.asarray(y)
    explanation = model.explain(X)
    draw: dict[str, Callable[[], Any]] = {
        "narrative": lambda: plot_narrative(_median_narrative(explanation)),
        "flow": lambda: plot_flow(explanation),
        "lengths": lambda: plot_lengths(explanation),
    }
    if explanation[0].classes is not None:
        pair = pair or most_confused(explanation, y)
        flip = flip or most_confused(explanation, y)
        draw["accuracy"] = lambda: _accuracy(explanation, X, y, others or {}, references)
    if not isinstance(model.groups, Patches):
        draw["usage"] = lambda: plot_usage(
            explanation, None if explanation[0].classes is None else y
        )
    else:
        patches = model.groups
        draw["pixels"] = lambda: plot_image_usage(explanation, patches)
        if pair is not None and flip is not None:
            pixels = np.asarray(X, dtype=np.float64)
            draw["masks"] = lambda: _masks(explanation, pixels, y, patches)
            draw["steps"] = lambda: _steps(explanation, pixels, y, patches, pair)
            draw["early-stop"] = lambda: _early_stop(model, explanation, pixels, y, patches)
            draw["counterfactual"] = lambda: _counterfactual(model, X, y, patches, flip)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for title, make in draw.items():
        axes = make()
        if axes is None:
            continue
        figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
        written.append(write_figure(figure, out / f"{title}.png", dpi=dpi, bbox_inches="tight"))
        plt.close(figure)
    return written


def _median_narrative(explanation: Explanation) -> Narrative:
    """The first narrative of median length."""
    lengths = np.array([len(narrative.steps) for narrative in explanation])
    return explanation[int(np.flatnonzero(lengths == np.sort(lengths)[len(lengths) // 2])[0])]


def _accuracy(
    explanation: Explanation, X: Any, y: Any, others: Mapping[str, Any], references: Any
) -> Any:
    """Accuracy against features: one model truncated at every budget, and the other models."""
    _, used, accuracy = budget_curve(explanation, y)
    curves: dict[str, Any] = {"this model, at most T steps": (used, 100 * accuracy)}
    if others:
        points = [(m.cost(X).mean(), 100 * m.score(X, y)) for m in others.values()]
        points.append((used[-1], 100 * accuracy[-1]))
        cost, score = np.array(sorted(points)).T
        curves["models of several sparsity weights"] = (cost, score)
    return plot_path(curves, references, ylabel="Accuracy (%)")


def _masks(explanation: Explanation, pixels: Any, y: Any, patches: Patches) -> Any:
    """Final masks of a typical image of each class."""
    typical = [(label, typical_row(explanation, y, label)) for label in explanation[0].classes]
    found = [(label, row) for label, row in typical if row is not None]
    if not found:
        return None
    n_columns = min(len(found), 5)
    n_rows = -(-len(found) // n_columns)
    axes = new_grid(n_rows, n_columns, (2.2 * n_columns, 2.5 * n_rows))
    for ax in axes.flat[len(found) :]:
        ax.set_axis_off()
    for ax, (label, row) in zip(axes.flat, found, strict=False):
        plot_image_step(explanation[row], pixels[row], patches, ax=ax)
        ax.set_title(plain(label, 18))
    return axes


def _steps(explanation: Explanation, pixels: Any, y: Any, patches: Patches, pair: Any) -> Any:
    """The last steps of a typical image of each class of a pair."""
    rows = [typical_row(explanation, y, label) for label in pair]
    found = [row for row in rows if row is not None]
    if not found:
        return None
    longest = max(len(explanation[row].steps) for row in found)
    steps = range(max(1, longest - STEPS_IN_A_ROW + 1), longest + 1)
    axes = new_story_grid(len(found), len(steps))
    for line, row in zip(axes, found, strict=True):
        narrative = explanation[row]
        own_steps = [step for step in steps if step <= len(narrative.steps)]
        plot_image_narrative(narrative, pixels[row], patches, own_steps, line[: 2 * len(own_steps)])
        for ax in line[2 * len(own_steps) :]:
            ax.set_axis_off()
    return axes


def _early_stop(model: Any, explanation: Explanation, pixels: Any, y: Any, patches: Patches) -> Any:
    """Use of the budget, and a narrative that is continued after the policy has stopped."""
    typical = [
        (len(explanation[row].steps), row)
        for label in explanation[0].classes or ()
        if (row := typical_row(explanation, y, label)) is not None
    ]
    earliest = min(((n, row) for n, row in typical if n > 0), default=None)
    if earliest is None:
        return None
    n_steps, row = earliest
    narrative = _continued(model, pixels[row], n_steps + STEPS_BEYOND)
    steps = list(range(max(1, n_steps - 1), len(narrative.steps) + 1))
    widths = [4.4, *[1.5, 1.0] * len(steps)]
    (left, *right) = new_grid(1, len(widths), (1.2 * sum(widths), 3.6), width_ratios=widths)[0]
    plot_budget(explanation, y, left)
    axes = np.array(right)
    plot_image_narrative(narrative, pixels[row], patches, steps, axes)
    for place, step in enumerate(steps):
        if step == n_steps:
            axes[2 * place].set_title(f"step {step}: stops", fontweight="bold")
        elif step > n_steps:
            axes[2 * place].set_title(f"step {step}, if continued", color="#5F5F5F")
    return left


def _continued(model: Any, image: Any, n_steps: int) -> Narrative:
    """The narrative of an image with up to ``n_steps`` steps, ignoring the stopping policy."""
    value = dict(zip(model.encoder_.names, image.tolist(), strict=True))
    session = model.acquire()
    while len(session.narrative().steps) < min(n_steps, model.max_steps_):
        if session.done:
            session.go_on()
        session.observe({column: value[column] for column in session.next_columns})
    return session.narrative()


def _counterfactual(model: Any, X: Any, y: Any, patches: Patches, pair: Any) -> Any:
    """An image whose predicted class changes once a single patch is filled."""
    flip = find_flip(model, X, y, *pair) or find_flip(model, X, y, *reversed(pair))
    if flip is None:
        return None
    longest = max(len(flip.before.steps), len(flip.after.steps))
    first = max(1, min(flip.step - 1, longest - STEPS_IN_A_ROW + 1))
    steps = range(first, min(longest, first + STEPS_IN_A_ROW - 1) + 1)
    return plot_counterfactual(
        (flip.before, flip.after), (flip.image, flip.changed), patches, flip.unit, steps
    )


def typical_row(explanation: Explanation, y: ArrayLike, label: Any) -> int | None:
    """Index of the first correctly classified row of a class with the median number of steps.

    Parameters
    ----------
    explanation : Explanation
    y : array-like of shape (n,)
        True classes.
    label : class label

    Returns
    -------
    int or None
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
    lengths = np.array([len(explanation[i].steps) for i in correct])
    median = np.sort(lengths)[len(lengths) // 2]
    return correct[int(np.flatnonzero(lengths == median)[0])]


def most_confused(explanation: Explanation, y: ArrayLike) -> tuple[Any, Any]:
    """The most frequent confusion: a true class, and the class predicted instead.

    Parameters
    ----------
    explanation : Explanation
    y : array-like of shape (n,)
        True classes.

    Returns
    -------
    tuple of class labels
        The first two classes if every row is classified correctly.
    """
    classes = explanation[0].classes
    if classes is None or len(classes) < 2:
        raise ValueError("most_confused needs a classifier with at least two classes.")
    wrong = Counter(
        (truth, narrative.label)
        for narrative, truth in zip(explanation, np.asarray(y).tolist(), strict=True)
        if truth != narrative.label and truth in classes
    )
    return wrong.most_common(1)[0][0] if wrong else (classes[0], classes[1])


def find_flip(
    model: Any, X: Any, y: ArrayLike, source: Any, target: Any, *, fills: Sequence[float] = FILLS
) -> Flip | None:
    """Find an image of class ``source`` that is predicted as ``target`` once a patch is filled.

    Only pixels that no earlier step has revealed are filled, so both narratives agree up to that
    step. Among the images whose prediction changes at that step, the one with the highest
    predicted probabilities before and after is returned.

    Parameters
    ----------
    model : estimator
        A fitted classifier of images.
    X : array or data frame of shape (n, n_columns)
    y : array-like of shape (n,)
    source, target : class labels
    fills : sequence of float, default=(0.5, 1, 0)
        Fill values, from the smallest pixel value (0) to the largest (1); a value is tried only if
        the previous ones change no prediction.

    Returns
    -------
    Flip or None
        None if no single patch changes the prediction.
    """
    pixels = np.asarray(X, dtype=np.float64)
    rows = np.flatnonzero(np.asarray(y) == source)[:MAX_SEARCHED]
    if len(rows) == 0:
        return None
    low, high = float(np.nanmin(pixels)), float(np.nanmax(pixels))
    narratives = list(model.explain(_like(X, pixels[rows])))
    patches = _new_columns(narratives, [str(name) for name in model.encoder_.names], source)
    for fill in fills if patches else ():
        changed = pixels[rows[[number for number, _, _ in patches]]]
        for image, (_, _, columns) in zip(changed, patches, strict=True):
            image[columns] = low + fill * (high - low)
        best, highest = None, 0.0
        for after, image, (number, step, _) in zip(
            model.explain(_like(X, changed)), changed, patches, strict=True
        ):
            before, row = narratives[number], int(rows[number])
            confidence = min(_confidence(before, source, step), _confidence(after, target, step))
            if confidence > highest:
                unit = before.steps[step - 1].unit
                best = Flip(row, step, unit, pixels[row], image, before, after)
                highest = confidence
        if best is not None:
            return best
    return None


def _new_columns(
    narratives: list[Narrative], names: list[str], source: Any
) -> list[tuple[int, int, list[int]]]:
    """Narrative, step and newly revealed columns, for all narratives that predict ``source``."""
    position = {name: i for i, name in enumerate(names)}
    found = []
    for number, narrative in enumerate(narratives):
        seen: set[str] = set()
        steps = narrative.steps if narrative.label == source else ()
        for index, step in enumerate(steps, start=1):
            found.append((number, index, [position[c] for c in step.columns if c not in seen]))
            seen.update(step.columns)
    return found


def _confidence(narrative: Narrative, label: Any, step: int) -> float:
    """Lowest probability of a class after a step and at the end; 0 unless predicted at both."""
    assert narrative.classes is not None
    states = (narrative.predictions[step], narrative.prediction)
    if any(narrative._label(prediction) != label for prediction in states):
        return 0.0
    return min(prediction[narrative.classes.index(label)] for prediction in states)


def _like(X: Any, values: NDArray[np.float64]) -> Any:
    """Rows in a container of the same type as ``X``."""
    return type(X)(values, columns=X.columns) if hasattr(X, "iloc") else values
