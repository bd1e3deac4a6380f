"""Counterfactual images: one patch is changed and the prediction flips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr.data.frame import take_rows
from suwr.data.units import Patches
from suwr.plots._style import BLACK
from suwr.plots.images import new_step_grid, patch_box, pixel_values, plot_image_narrative

if TYPE_CHECKING:
    from suwr.narrative.explanation import Narrative

__all__ = ["Flip", "find_flip", "plot_counterfactual"]

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
