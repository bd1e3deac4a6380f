"""Choosing the rows that figures show, by rules that anybody can repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from suwr.explanation import Explanation, Narrative

__all__ = ["Flip", "find_flip", "most_confused", "typical_row"]

# Images of a class that are searched for a flip.
MOST_SEARCHED = 200
# Grey, ink, blank: what a patch is filled with, as shares of the range of pixels.
FILLS = (0.5, 1.0, 0.0)


@dataclass(frozen=True)
class Flip:
    """A patch whose change turns the prediction.

    Attributes
    ----------
    row : int
        Where the image stands.
    step : int
        The step that reveals the changed patch, from 1.
    unit : str
        Its name.
    image, changed : ndarray of shape (n_columns,)
        The image as it is, and with the patch filled.
    before, after : Narrative
        Of the two.
    """

    row: int
    step: int
    unit: str
    image: NDArray[np.float64]
    changed: NDArray[np.float64]
    before: Narrative
    after: Narrative


def typical_row(explanation: Explanation, y: ArrayLike, label: Any) -> int | None:
    """The first correctly classified row of a class that takes as many steps as its median.

    None where no row of the class is classified correctly.
    """
    right = [
        i
        for i, (story, truth) in enumerate(zip(explanation, np.asarray(y).tolist(), strict=True))
        if truth == label and story.label == label
    ]
    if not right:
        return None
    lengths = np.array([len(explanation[i].steps) for i in right])
    median = np.sort(lengths)[len(lengths) // 2]
    return right[int(np.flatnonzero(lengths == median)[0])]


def most_confused(explanation: Explanation, y: ArrayLike) -> tuple[Any, Any]:
    """The class, and the other class that it is most often taken for."""
    classes = explanation[0].classes
    if classes is None or len(classes) < 2:
        raise ValueError("Only classes, at least two, can be confused.")
    wrong = Counter(
        (truth, story.label)
        for story, truth in zip(explanation, np.asarray(y).tolist(), strict=True)
        if truth != story.label and truth in classes
    )
    return wrong.most_common(1)[0][0] if wrong else (classes[0], classes[1])


def find_flip(
    model: Any, X: Any, y: ArrayLike, source: Any, target: Any, *, fills: Sequence[float] = FILLS
) -> Flip | None:
    """Look for an image of ``source`` that is taken for ``target`` once a patch is filled.

    Only pixels that the patch reveals first are filled, so both narratives are the same until then.
    Among all that flip at the very step of the patch, the one that is surest both before and after.

    Parameters
    ----------
    model : estimator
        With ``explain``.
    X : array or data frame of shape (n, n_columns)
    y : array-like of shape (n,)
    source, target : class labels
    fills : sequence of float, default=(0.5, 1, 0)
        What fills the patch, from the smallest pixel (0) to the largest (1): grey is tried first,
        the others only where it turns no image.

    Returns
    -------
    Flip or None
        None where no single patch does it.
    """
    pixels = np.asarray(X, dtype=np.float64)
    rows = np.flatnonzero(np.asarray(y) == source)[:MOST_SEARCHED]
    if len(rows) == 0:
        return None
    low, high = float(np.nanmin(pixels)), float(np.nanmax(pixels))
    stories = list(model.explain(_like(X, pixels[rows])))
    patches = _fresh_columns(stories, [str(name) for name in model.encoder_.names], source)
    for fill in fills if patches else ():
        changed = pixels[rows[[number for number, _, _ in patches]]]
        for image, (_, _, columns) in zip(changed, patches, strict=True):
            image[columns] = low + fill * (high - low)
        best, surest = None, 0.0
        for story, image, (number, step, _) in zip(
            model.explain(_like(X, changed)), changed, patches, strict=True
        ):
            before, row = stories[number], int(rows[number])
            sure = min(_sure(before, source, step), _sure(story, target, step))
            if sure > surest:
                unit = before.steps[step - 1].unit
                best, surest = Flip(row, step, unit, pixels[row], image, before, story), sure
        if best is not None:
            return best
    return None


def _fresh_columns(
    stories: list[Narrative], names: list[str], source: Any
) -> list[tuple[int, int, list[int]]]:
    """Story, step and the columns that this step reveals first, for all stories of a class."""
    place = {name: i for i, name in enumerate(names)}
    found = []
    for number, story in enumerate(stories):
        seen: set[str] = set()
        for step, part in enumerate(story.steps if story.label == source else (), start=1):
            found.append((number, step, [place[c] for c in part.columns if c not in seen]))
            seen.update(part.columns)
    return found


def _sure(story: Narrative, label: Any, step: int) -> float:
    """How probable a class is after a step and in the end; 0 where it is not the first choice."""
    assert story.classes is not None
    states = (story.predictions[step], story.prediction)
    if any(story._label(prediction) != label for prediction in states):
        return 0.0
    return min(prediction[story.classes.index(label)] for prediction in states)


def _like(X: Any, values: NDArray[np.float64]) -> Any:
    """Rows in the container that the model was given."""
    return type(X)(values, columns=X.columns) if hasattr(X, "iloc") else values
