"""Figures of models of images: revealed patches, predictions, usage of pixels, counterfactuals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.validation import require
from suwr.data.frame import raw_columns, take_rows
from suwr.data.units import Patches
from suwr.plots._style import (
    BLACK,
    BLUE,
    GREY,
    VERMILLION,
    check_rows,
    new_axes,
    new_grid,
    open_frame,
    plain,
    short_percent,
)

if TYPE_CHECKING:
    from suwr.narrative.explanation import Explanation, Narrative

# Opacity of hidden pixels: the image stays recognisable, and revealed pixels stand out.
_HIDDEN_ALPHA = 0.25
# Width ratio of an image and the class probabilities to its right.
_WIDTHS = (1.5, 1.0)

Box = tuple[float, float, float, float]


def plot_image_step(
    narrative: Narrative,
    image: ArrayLike,
    patches: Patches,
    step: int | None = None,
    ax: Any = None,
) -> Any:
    """Draw an image and the patches revealed up to a step.

    Patches of the step itself are red, earlier ones blue, each with the number of its step. Hidden
    pixels are drawn faintly; the model has not read them.

    Parameters
    ----------
    narrative : Narrative
        Narrative of a model fitted with ``groups=patches``.
    image : array-like of shape ``patches.shape`` or (n_columns,)
    patches : Patches
    step : int, default=None
        Step to draw; 0 is the state before any patch is revealed. If None, the complete selection
        is drawn in red.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from suwr import Patches
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_image_step
    >>> patches = Patches((4, 4), size=2, stride=2)
    >>> step = Step({patches.names[0]: {"pixel 0": 1.0}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("3", "8"), 4)
    >>> len(plot_image_step(narrative, np.zeros(16), patches, step=1).images)
    1
    """
    last = len(narrative.steps) if step is None else _check_step(step, narrative)
    ax = new_axes(ax, (2.6, 2.6))
    boxes, seen = _revealed(narrative, patches.shape, _boxes(patches), last)
    pixels = _as_image(image, patches)
    _draw_pixels(ax, pixels, seen, patches)
    for number, box in boxes:
        _draw_patch(ax, box, number, current=step is None or number == last)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_color(GREY)
    return ax


def plot_image_narrative(
    narrative: Narrative,
    image: ArrayLike,
    patches: Patches,
    steps: Sequence[int] | None = None,
    axes: Any = None,
) -> Any:
    """Draw several steps side by side, each with its class probabilities.

    Parameters
    ----------
    narrative : Narrative
        Narrative of a classifier fitted with ``groups=patches``.
    image : array-like of shape ``patches.shape`` or (n_columns,)
    patches : Patches
    steps : sequence of int, default=None
        Steps to draw; if None, all steps from 1.
    axes : array of matplotlib Axes, shape (2 * n_steps,), default=None
        Two axes per step, for the image and for the probabilities; if None, a new figure is
        created.

    Returns
    -------
    ndarray of matplotlib Axes, shape (2 * n_steps,)

    Examples
    --------
    >>> import numpy as np
    >>> from suwr import Patches
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_image_narrative
    >>> patches = Patches((4, 4), size=2, stride=2)
    >>> step = Step({patches.names[0]: {"pixel 0": 1.0}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("3", "8"), 4)
    >>> plot_image_narrative(narrative, np.zeros(16), patches, steps=[0, 1]).shape
    (4,)
    """
    chosen = list(range(1, len(narrative.steps) + 1) or [0]) if steps is None else list(steps)
    if axes is None:
        axes = new_step_grid(1, len(chosen))[0]
    if np.shape(axes) != (2 * len(chosen),):
        raise ValueError(
            f"The 'axes' parameter of plot_image_narrative must have the shape "
            f"({2 * len(chosen)},), two axes per step. Got the shape {np.shape(axes)} instead."
        )
    for place, step in enumerate(chosen):
        picture, bars = axes[2 * place], axes[2 * place + 1]
        plot_image_step(narrative, image, patches, step, picture)
        picture.set_title(f"step {step}" if step else "start")
        picture.set_xlabel(f"stop: {short_percent(narrative.stop_probabilities[step])}")
        plot_prediction(narrative, step, bars)
        # Make the bars as high as the image.
        bars.set_box_aspect(_WIDTHS[0] / _WIDTHS[1] * patches.shape[0] / patches.shape[1])
    return axes


def plot_prediction(narrative: Narrative, step: int | None = None, ax: Any = None) -> Any:
    """Draw the class probabilities after a step as bars, the most probable class in colour.

    Parameters
    ----------
    narrative : Narrative
        Narrative of a classifier.
    step : int, default=None
        Step to draw; 0 is the state before anything is revealed, None the last step.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_prediction
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> len(plot_prediction(narrative).patches)
    2
    """
    if narrative.classes is None:
        raise ValueError("plot_prediction needs the narrative of a classifier.")
    last = len(narrative.steps) if step is None else _check_step(step, narrative)
    ax = new_axes(ax, (2.0, 2.6))
    prediction = np.array(narrative.predictions[last])
    place = np.arange(len(prediction))
    best = int(prediction.argmax())
    colours = [VERMILLION if i == best else GREY for i in place]
    ax.barh(place, prediction, 0.75, color=colours)
    # The label of the longest bar always fits either inside the bar or to its right.
    inside = prediction[best] > 0.5
    ax.text(
        prediction[best] - 0.03 if inside else prediction[best] + 0.03, best,
        short_percent(prediction[best]), va="center", ha="right" if inside else "left",
        color="white" if inside else "black", fontsize="small", fontweight="bold",
    )  # fmt: skip
    labels = narrative.description.class_texts(narrative.classes) or []
    ax.set_yticks(place, [plain(label, 12) for label in labels])
    for label, number in zip(ax.get_yticklabels(), place, strict=True):
        label.set_fontweight("bold" if number == best else "normal")
    ax.set_ylim(len(place) - 0.4, -0.6)
    ax.set_xlim(0, 1)
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0, labelsize="small")
    open_frame(ax, "top", "right", "bottom")
    return ax


def plot_image_usage(explanation: Explanation, patches: Patches, ax: Any = None) -> Any:
    """Draw the fraction of images in which each pixel is revealed.

    Parameters
    ----------
    explanation : Explanation
        Explanation of a model fitted with ``groups=patches``.
    patches : Patches
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from suwr import Patches
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_image_usage
    >>> patches = Patches((4, 4), size=2, stride=2)
    >>> step = Step({patches.names[0]: {"pixel 0": 1.0}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("3", "8"), 4)
    >>> plot_image_usage(Explanation([narrative]), patches).images[0].get_array().shape
    (4, 4)
    """
    check_rows(explanation, "plot_image_usage")
    ax = new_axes(ax, (4.4, 3.8))
    boxes = _boxes(patches)
    masks = [_revealed(n, patches.shape, boxes, len(n.steps))[1] for n in explanation]
    percentage = 100 * np.mean(masks, axis=0)
    drawn = ax.imshow(percentage, cmap="cividis", vmin=0, vmax=100, interpolation="nearest")
    ax.figure.colorbar(drawn, ax=ax, label="Images that reveal the pixel (%)")
    ax.set_title("Revealed pixels", loc="left", fontweight="bold")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def new_step_grid(n_rows: int, n_steps: int) -> Any:
    """Create the axes of several narratives of images, of shape (n_rows, 2 * n_steps)."""
    return new_grid(
        n_rows,
        2 * n_steps,
        (3.2 * n_steps + 0.3, 2.3 * n_rows + 0.2),
        width_ratios=_WIDTHS * n_steps,
    )


def patch_box(unit: str, patches: Patches) -> Box:
    """Return the left, top, width and height of a patch in pixels, clipped to the image."""
    return _box_in(_boxes(patches), unit)


def _box_in(boxes: dict[str, Box], unit: str) -> Box:
    if unit not in boxes:
        raise ValueError(f"The 'patches' parameter must contain the revealed unit {unit!r}.")
    return boxes[unit]


def _boxes(patches: Patches) -> dict[str, Box]:
    """Map the name of every patch to its box."""
    found: dict[str, Box] = {}
    for name, member in zip(patches.names, patches.membership(), strict=True):
        shown = member.reshape(*patches.shape[:2], -1).any(axis=2)
        rows, columns = np.flatnonzero(shown.any(axis=1)), np.flatnonzero(shown.any(axis=0))
        found[name] = columns[0], rows[0], len(columns), len(rows)
    return found


def _revealed(
    narrative: Narrative, shape: tuple[int, ...], known: dict[str, Box], last: int
) -> tuple[list[tuple[int, Box]], NDArray[np.bool_]]:
    """Return (step, box) of every revealed patch, and the mask of revealed pixels."""
    seen = np.zeros(shape[:2], dtype=bool)
    boxes = []
    for number, step in enumerate(narrative.steps[:last], start=1):
        for unit in step.units:
            left, top, width, height = box = _box_in(known, unit)
            seen[int(top) : int(top + height), int(left) : int(left + width)] = True
            boxes.append((number, box))
    return boxes, seen


def pixel_values(model: Any, X: Any) -> NDArray[np.float64]:
    """Return the pixels of images; NaN where a cell is missing or not a number.

    Parameters
    ----------
    model : estimator
        Fitted to images.
    X : array or data frame of shape (n_rows, n_columns)
    """
    return np.stack(model.encoder_.parse(raw_columns(X)).columns, axis=1)


def _as_image(image: ArrayLike, patches: Patches) -> NDArray[np.float64]:
    pixels = np.asarray(image, dtype=np.float64)
    if pixels.size != patches.n_columns:
        raise ValueError(
            f"The 'image' parameter must have {patches.n_columns} values, of shape "
            f"{patches.shape} or flat. Got the shape {pixels.shape} instead."
        )
    return pixels.reshape(patches.shape)


def _draw_pixels(
    ax: Any, pixels: NDArray[np.float64], seen: NDArray[np.bool_], patches: Patches
) -> None:
    """Draw revealed pixels opaquely and hidden ones faintly; one channel is dark on light."""
    alpha = np.where(seen, 1.0, _HIDDEN_ALPHA)
    finite = pixels[np.isfinite(pixels)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    scaled = (pixels - low) / (high - low) if high > low else np.zeros_like(pixels)
    grey = len(patches.shape) == 2 or patches.shape[2] == 1
    shown = scaled.reshape(patches.shape[:2]) if grey else scaled
    ax.imshow(
        shown, alpha=alpha, cmap="gray_r" if grey else None, vmin=0, vmax=1,
        interpolation="nearest",
    )  # fmt: skip


def _draw_patch(ax: Any, box: Box, number: int, current: bool) -> None:
    patches = require("matplotlib.patches", "plots", "Plotting")
    effects = require("matplotlib.patheffects", "plots", "Plotting")
    left, top, width, height = box
    colour = VERMILLION if current else BLUE
    ax.add_patch(
        patches.Rectangle(
            (left - 0.5, top - 0.5),
            width,
            height,
            fill=False,
            edgecolor=colour,
            linewidth=2.4 if current else 1.6,
            zorder=4 if current else 3,
        )
    )
    ax.text(
        left - 0.5 + width / 2, top - 0.5 + height / 2, str(number), color=colour, ha="center",
        va="center", fontweight="bold", fontsize="medium" if current else "small",
        zorder=6 if current else 5,
        path_effects=[effects.withStroke(linewidth=2.5, foreground="white")],
    )  # fmt: skip


def _check_step(step: int, narrative: Narrative) -> int:
    if not 0 <= step <= len(narrative.steps):
        raise ValueError(
            f"The 'step' parameter must be from 0 to {len(narrative.steps)}. Got {step} instead."
        )
    return step


# Images of the source class that are searched for a flip.
_MAX_IMAGES = 200
# Values that replace a patch, from the smallest revealed pixel value (0) to the largest (1).
_FILLS = (0.5, 1.0, 0.0)


@dataclass(frozen=True)
class Flip:
    """An image whose predicted class changes when one patch is overwritten.

    Attributes
    ----------
    row : int
        Row number of the image.
    step : int
        Step that reveals the changed patch, counted from 1.
    unit : str
        Name of the changed patch.
    image, changed : ndarray of shape (n_columns,)
        The original and the changed image.
    before, after : Narrative
        Narratives of the original and the changed image.

    Examples
    --------
    >>> import numpy as np
    >>> from suwr.narrative.explanation import Narrative, Step
    >>> from suwr.plots import Flip
    >>> def narrative(value, prediction):
    ...     step = Step({"patch (0, 0)": {"pixel 0": value}}, 0.9, (0.5, 0.5), prediction)
    ...     return Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("3", "8"), 4)
    >>> before, after = narrative(1.0, (0.9, 0.1)), narrative(0.0, (0.2, 0.8))
    >>> flip = Flip(0, 1, "patch (0, 0)", np.ones(4), np.array([0, 1, 1, 1]), before, after)
    >>> flip.before.label, flip.after.label
    ('3', '8')
    """

    row: int
    step: int
    unit: str
    image: NDArray[np.float64]
    changed: NDArray[np.float64]
    before: Narrative
    after: Narrative


def find_flip(
    model: Any, X: Any, y: ArrayLike, source: Any, target: Any, *, fills: Sequence[float] = _FILLS
) -> Flip | None:
    """Search for an image of one class that is predicted as another once a patch is overwritten.

    Only pixels that the patch reveals first are overwritten, so the two narratives are identical
    up to that step. Of all images whose prediction flips at that very step and stays flipped, the
    one with the most confident predictions before and after is returned.

    Parameters
    ----------
    model : SUWRClassifier
        Classifier fitted with ``groups=Patches(...)``.
    X : array or data frame of shape (n_rows, n_columns)
    y : array-like of shape (n_rows,)
        True classes.
    source, target : class labels
    fills : sequence of float, default=(0.5, 1, 0)
        Values that replace the patch, from the smallest revealed pixel value (0) to the largest
        (1). Later values are tried only if no image flips with the earlier ones.

    Returns
    -------
    Flip or None
        None if no single patch flips the prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from suwr import Patches, SUWRClassifier
    >>> from suwr.plots import find_flip
    >>> X = np.random.default_rng(0).uniform(size=(60, 4))
    >>> y = (X[:, 0] > 0.5).astype(int)
    >>> clf = SUWRClassifier(groups=Patches((2, 2), size=1), max_epochs=1, random_state=0)
    >>> find_flip(clf.fit(X, y), X, y, source=2, target=1) is None  # no image of class 2
    True
    """
    pixels = pixel_values(model, X)
    rows = np.flatnonzero(np.asarray(y) == source)[:_MAX_IMAGES]
    if len(rows) == 0:
        return None
    narratives = list(model.explain(take_rows(X, rows)))
    revealed = pixels[model.select(X) & np.isfinite(pixels)]
    low, high = float(revealed.min(initial=np.inf)), float(revealed.max(initial=-np.inf))
    candidates = _candidates(narratives, [str(name) for name in model.encoder_.names], source)
    for fill in fills if candidates else ():
        changed = pixels[rows[[number for number, _, _ in candidates]]]
        for image, (_, _, columns) in zip(changed, candidates, strict=True):
            image[columns] = low + fill * (high - low)
        best, highest = None, 0.0
        for after, image, (number, step, _) in zip(
            model.explain(_like(X, changed)), changed, candidates, strict=True
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


def plot_counterfactual(
    narratives: tuple[Narrative, Narrative],
    images: tuple[ArrayLike, ArrayLike],
    patches: Patches,
    changed: str,
    steps: Sequence[int] | None = None,
    axes: Any = None,
) -> Any:
    """Draw the narrative of an image above that of the same image with one patch changed.

    An arrow points at the changed patch in every step after it is revealed.

    Parameters
    ----------
    narratives : (Narrative, Narrative)
        Narratives of the original and the changed image.
    images : (array-like, array-like)
        The original and the changed image.
    patches : Patches
    changed : str
        Name of the changed patch, such as 'patch (5, 9)'.
    steps : sequence of int, default=None
        Steps to draw, where a narrative has them; if None, all steps.
    axes : array of matplotlib Axes, shape (2, 2 * n_steps), default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    ndarray of matplotlib Axes, shape (2, 2 * n_steps)

    Examples
    --------
    >>> import numpy as np
    >>> from suwr import Patches
    >>> from suwr.narrative.explanation import Narrative, Step
    >>> from suwr.plots import plot_counterfactual
    >>> patches = Patches((4, 4), size=2, stride=2)
    >>> step = Step({patches.names[0]: {"pixel 0": 1.0}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("3", "8"), 4)
    >>> images = np.zeros(16), np.repeat([1.0, 0.0], [2, 14])
    >>> plot_counterfactual((narrative, narrative), images, patches, patches.names[0]).shape
    (2, 2)
    """
    longest = max(len(narrative.steps) for narrative in narratives)
    chosen = list(range(1, longest + 1)) if steps is None else list(steps)
    axes = new_step_grid(2, len(chosen)) if axes is None else np.asarray(axes)
    left, top, width, height = patch_box(changed, patches)
    centre = (left - 0.5 + width / 2, top - 0.5 + height / 2)
    for row, (narrative, image) in enumerate(zip(narratives, images, strict=True)):
        present = [step for step in chosen if step <= len(narrative.steps)]
        plot_image_narrative(narrative, image, patches, present, axes[row, : 2 * len(present)])
        for ax in axes[row, 2 * len(present) :]:
            ax.set_axis_off()
        if row == 0:
            continue
        for place, step in enumerate(present):
            if changed in {unit for s in narrative.steps[:step] for unit in s.units}:
                _draw_arrow(axes[row, 2 * place], centre, patches)
    axes[0, 0].set_ylabel("original")
    axes[1, 0].set_ylabel("one patch changed")
    return axes


def _draw_arrow(ax: Any, centre: tuple[float, float], patches: Patches) -> None:
    """Draw an arrow from the nearer side of the image to a point."""
    width = patches.shape[1]
    from_left = centre[0] < width / 2
    ax.annotate(
        "",
        xy=(centre[0] + (-0.06 if from_left else 0.06) * width, centre[1]),
        xytext=(-0.5 if from_left else width - 0.5, centre[1]),
        arrowprops={
            "arrowstyle": "-|>",
            "color": BLACK,
            "linewidth": 2,
            "shrinkA": 0,
            "shrinkB": 0,
        },
        zorder=8,
        annotation_clip=False,
    )


def _candidates(
    narratives: list[Narrative], names: list[str], source: Any
) -> list[tuple[int, int, list[int]]]:
    """Return (narrative, step, columns first revealed by the step) of correct narratives."""
    place = {name: i for i, name in enumerate(names)}
    found = []
    for number, narrative in enumerate(narratives):
        seen: set[str] = set()
        steps = narrative.steps if narrative.label == source else ()
        for number_of_step, step in enumerate(steps, start=1):
            columns = [place[c] for c in step.columns if c not in seen]
            found.append((number, number_of_step, columns))
            seen.update(step.columns)
    return found


def _confidence(narrative: Narrative, label: Any, step: int) -> float:
    """Return the probability of a class after a step and at the end; 0 if not predicted."""
    assert narrative.classes is not None
    states = (narrative.predictions[step], narrative.prediction)
    if any(narrative._label(prediction) != label for prediction in states):
        return 0.0
    return min(prediction[narrative.classes.index(label)] for prediction in states)


def _like(X: Any, values: NDArray[np.float64]) -> Any:
    """Return rows in the same kind of container as ``X``."""
    return type(X)(values, columns=X.columns) if hasattr(X, "iloc") else values
