"""The figures of one model, among them the paper's figures of images, from one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from suwr._utils.optional import require
from suwr.data.units import Patches
from suwr.explanation import Explanation
from suwr.plots import (
    budget_curve,
    plot_budget,
    plot_counterfactual,
    plot_flow,
    plot_image_narrative,
    plot_image_step,
    plot_image_usage,
    plot_lengths,
    plot_narrative,
    plot_path,
    plot_usage,
)
from suwr.plots._style import new_grid, plain
from suwr.plots.files import write_figure
from suwr.plots.images import new_story_grid
from suwr_experiments.examples import find_flip, most_confused, typical_row

__all__ = ["draw_figures"]

# Steps of an image that are drawn in a row, as in the paper.
STEPS_IN_A_ROW = 4
# Steps beyond the stop, to show that they change nothing.
STEPS_BEYOND = 2


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
    """Draw every figure that suits a model, on rows that it was not trained on.

    For models of images: ``masks`` (the paper's Figure 2), ``steps`` (Figure 3), ``early-stop``
    (Figure 7) and ``counterfactual`` (Figure 8, '3 or 8'), and where pixels are looked at. For all
    classifiers: ``accuracy`` (Figure 4). For all: flow, usage, lengths and the narrative of a row.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
    X : array or data frame of shape (n, d)
    y : array-like of shape (n,)
    out : Path
        A folder; made if it does not exist.
    pair : (class, class), default=None
        Whose narratives ``steps`` compares; None takes the two that are confused most.
    flip : (class, class), default=None
        The classes that ``counterfactual`` turns into each other; None takes the two that are
        confused most.
    others : mapping of str to estimator, default=None
        Models of other sparsity weights: further points of ``accuracy``.
    references : mapping, default=None
        As in `suwr.plots.plot_path`, for ``accuracy``.
    dpi : int, default=150

    Returns
    -------
    list of Path
        What was written. A figure for which there is no example is left out.
    """
    plt = require("matplotlib.pyplot", "plots", "Drawing figures")
    y = np.asarray(y)
    explanation = model.explain(X)
    draw: dict[str, Callable[[], Any]] = {
        "narrative": lambda: plot_narrative(_middle(explanation)),
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


def _middle(explanation: Explanation) -> Any:
    """The first narrative of median length."""
    lengths = np.array([len(story.steps) for story in explanation])
    return explanation[int(np.flatnonzero(lengths == np.sort(lengths)[len(lengths) // 2])[0])]


def _accuracy(
    explanation: Explanation, X: Any, y: Any, others: Mapping[str, Any], references: Any
) -> Any:
    """Accuracy against features: one model cut at every budget, and a point for each other one."""
    _, used, accuracy = budget_curve(explanation, y)
    curves: dict[str, Any] = {"this model, at most T steps": (used, 100 * accuracy)}
    if others:
        points = [(m.cost(X).mean(), 100 * m.score(X, y)) for m in others.values()]
        points.append((used[-1], 100 * accuracy[-1]))
        cost, score = np.array(sorted(points)).T
        curves["models of several sparsity weights"] = (cost, score)
    return plot_path(curves, references, ylabel="Accuracy (%)")


def _masks(explanation: Explanation, pixels: Any, y: Any, patches: Patches) -> Any:
    """Whole selections: a typical image of each class."""
    chosen = [(label, typical_row(explanation, y, label)) for label in explanation[0].classes]
    shown = [(label, row) for label, row in chosen if row is not None]
    if not shown:
        return None
    per_line = min(len(shown), 5)
    lines = -(-len(shown) // per_line)
    axes = new_grid(lines, per_line, (2.2 * per_line, 2.5 * lines))
    for ax in axes.flat[len(shown) :]:
        ax.set_axis_off()
    for ax, (label, row) in zip(axes.flat, shown, strict=False):
        plot_image_step(explanation[row], pixels[row], patches, ax=ax)
        ax.set_title(plain(label, 18))
    return axes


def _steps(explanation: Explanation, pixels: Any, y: Any, patches: Patches, pair: Any) -> Any:
    """The last steps of two typical images, below each other."""
    rows = [typical_row(explanation, y, label) for label in pair]
    found = [row for row in rows if row is not None]
    if not found:
        return None
    longest = max(len(explanation[row].steps) for row in found)
    steps = range(max(1, longest - STEPS_IN_A_ROW + 1), longest + 1)
    axes = new_story_grid(len(found), len(steps))
    for line, row in zip(axes, found, strict=True):
        story = explanation[row]
        here = [step for step in steps if step <= len(story.steps)]
        plot_image_narrative(story, pixels[row], patches, here, line[: 2 * len(here)])
        for ax in line[2 * len(here) :]:
            ax.set_axis_off()
    return axes


def _early_stop(model: Any, explanation: Explanation, pixels: Any, y: Any, patches: Patches) -> Any:
    """What budgets buy, and an image whose narrative goes on beyond its stop."""
    chosen = [
        (len(explanation[row].steps), row)
        for label in explanation[0].classes or ()
        if (row := typical_row(explanation, y, label)) is not None
    ]
    earliest = min(((n, row) for n, row in chosen if n > 0), default=None)
    if earliest is None:
        return None
    n_steps, row = earliest
    story = _beyond(model, pixels[row], n_steps + STEPS_BEYOND)
    steps = list(range(max(1, n_steps - 1), len(story.steps) + 1))
    widths = [4.4, *[1.5, 1.0] * len(steps)]
    (left, *right) = new_grid(1, len(widths), (1.2 * sum(widths), 3.6), width_ratios=widths)[0]
    plot_budget(explanation, y, left)
    axes = np.array(right)
    plot_image_narrative(story, pixels[row], patches, steps, axes)
    for place, step in enumerate(steps):
        if step == n_steps:
            axes[2 * place].set_title(f"step {step}: it stops", fontweight="bold")
        elif step > n_steps:
            axes[2 * place].set_title(f"step {step}, if it went on", color="#5F5F5F")
    return left


def _beyond(model: Any, image: Any, n_steps: int) -> Any:
    """The narrative of an image that is asked for more than the model wanted."""
    value = dict(zip(model.encoder_.names, image.tolist(), strict=True))
    session = model.acquire()
    while len(session.narrative().steps) < min(n_steps, model.max_steps_):
        if session.done:
            session.go_on()
        session.observe({column: value[column] for column in session.next_columns})
    return session.narrative()


def _counterfactual(model: Any, X: Any, y: Any, patches: Patches, pair: Any) -> Any:
    """An image that is taken for something else once a single patch is grey."""
    flip = find_flip(model, X, y, *pair) or find_flip(model, X, y, *reversed(pair))
    if flip is None:
        return None
    longest = max(len(flip.before.steps), len(flip.after.steps))
    first = max(1, min(flip.step - 1, longest - STEPS_IN_A_ROW + 1))
    steps = range(first, min(longest, first + STEPS_IN_A_ROW - 1) + 1)
    return plot_counterfactual(
        (flip.before, flip.after), (flip.image, flip.changed), patches, flip.unit, steps
    )
