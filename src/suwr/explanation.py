"""The story of a prediction: what was revealed, in which order, and what it changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from suwr._utils.files import check_writable, write_atomic
from suwr._utils.text import percent, reading

if TYPE_CHECKING:
    from suwr.report.source import Source

__all__ = ["Explanation", "Narrative", "Step"]

# A prediction: one probability per class, or a single value.
Prediction = tuple[float, ...]

ENDINGS = {
    "decision": "It stopped here (stop probability {stop:.0%}): more was not worth its price.",
    "budget": "It stopped here because the most steps allowed were taken.",
    "everything": "It stopped here because nothing was left to reveal.",
    "open": "It has not stopped yet (stop probability {stop:.0%}).",
}


@dataclass(frozen=True)
class Step:
    """One step of a narrative.

    Attributes
    ----------
    revealed : dict of dict
        Unit → column → value, in the user's own units; None is 'missing'. One unit, unless several
        per step were asked for.
    stop_probability : float
        ζ_stop once these values are known.
    prediction_before, prediction : tuple of float
        *f* before and after the step: a probability per class, or one value.

    Examples
    --------
    >>> from suwr.explanation import Step
    >>> step = Step({"blood": {"s1": 157, "s5": 4.86}}, 0.8, (152.1,), (140.3,))
    >>> step.unit, step.columns
    ('blood', ('s1', 's5'))
    """

    revealed: dict[str, dict[str, Any]]
    stop_probability: float
    prediction_before: Prediction
    prediction: Prediction

    @property
    def units(self) -> tuple[str, ...]:
        """The revealed units."""
        return tuple(self.revealed)

    @property
    def unit(self) -> str:
        """The revealed unit; several are joined by ' + '."""
        return " + ".join(self.revealed)

    @property
    def values(self) -> dict[str, Any]:
        """The revealed columns with their values."""
        return {name: value for part in self.revealed.values() for name, value in part.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """The revealed columns."""
        return tuple(self.values)


@dataclass(frozen=True)
class Narrative:
    """How the prediction of one row came about.

    Attributes
    ----------
    row : int or str
        Which row this is.
    start : tuple of float
        The blind prediction, before anything is revealed.
    start_stop_probability : float
        ζ_stop(∅).
    steps : tuple of Step
    ended : {'decision', 'budget', 'everything', 'open'}
        Why it stopped; 'open' where somebody is still being asked.
    classes : tuple or None
        Class labels; None for regression.
    n_units : int
        Units there were to choose from.

    Examples
    --------
    >>> from suwr.explanation import Narrative, Step
    >>> step = Step({"bmi": {"bmi": 32.1}}, 0.9, (152.1,), (206.0,))
    >>> story = Narrative(0, (152.1,), 0.1, (step,), "decision", None, 10)
    >>> print(story.text())
    Row 0. Before anything is revealed: 152.1.
    1. bmi is 32.1. Prediction: 152.1 → 206.
    It stopped here (stop probability 90%): more was not worth its price.
    Predicted 206 from 1 of 10 features.
    """

    row: int | str
    start: Prediction
    start_stop_probability: float
    steps: tuple[Step, ...]
    ended: str
    classes: tuple[Any, ...] | None
    n_units: int

    @property
    def prediction(self) -> Prediction:
        """The final prediction."""
        return self.predictions[-1]

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """The blind prediction, then the one after each step."""
        return (self.start, *(step.prediction for step in self.steps))

    @property
    def stop_probabilities(self) -> tuple[float, ...]:
        """ζ_stop with nothing revealed, then after each step."""
        return (self.start_stop_probability, *(step.stop_probability for step in self.steps))

    @property
    def n_used(self) -> int:
        """Units that were revealed."""
        return sum(len(step.units) for step in self.steps)

    @property
    def label(self) -> Any:
        """The predicted class, or the predicted value."""
        return self._label(self.prediction)

    def _label(self, prediction: Prediction) -> Any:
        if self.classes is None:
            return prediction[0]
        return self.classes[prediction.index(max(prediction))]

    def _say(self, prediction: Prediction) -> str:
        if self.classes is None:
            return f"{prediction[0]:.4g}"
        ranked = sorted(zip(prediction, self.classes, strict=True), key=lambda pair: -pair[0])
        shown = ", ".join(f"{label} {percent(p)}" for p, label in ranked[:3])
        return shown if len(ranked) <= 3 else f"{shown}, …"

    @property
    def ending(self) -> str:
        """Why it stopped, in words."""
        return ENDINGS[self.ended].format(stop=self.stop_probabilities[-1])

    def text(self) -> str:
        """The narrative in plain sentences."""
        lines = [f"Row {self.row}. Before anything is revealed: {self._say(self.start)}."]
        for number, step in enumerate(self.steps, start=1):
            lines.append(
                f"{number}. {reading(step.revealed)}. Prediction: "
                f"{self._say(step.prediction_before)} → {self._say(step.prediction)}."
            )
        final = self.label if self.classes is not None else self._say(self.prediction)
        lines.append(self.ending)
        lines.append(f"Predicted {final} from {self.n_used} of {self.n_units} features.")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw the narrative; see :func:`suwr.plots.plot_narrative`."""
        from suwr.plots import plot_narrative

        return plot_narrative(self, ax)

    def _repr_html_(self) -> str:
        """The narrative as notebooks show it."""
        from suwr.report.notebook import narrative_html

        return narrative_html(self)

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Narrative:
        """Undo `to_dict`."""
        steps = tuple(
            Step(
                {unit: dict(values) for unit, values in s["revealed"].items()},
                float(s["stop_probability"]),
                tuple(s["prediction_before"]),
                tuple(s["prediction"]),
            )
            for s in state["steps"]
        )
        classes = state["classes"]
        return cls(
            state["row"],
            tuple(state["start"]),
            float(state["start_stop_probability"]),
            steps,
            str(state["ended"]),
            None if classes is None else tuple(classes),
            int(state["n_units"]),
        )


class Explanation(Sequence[Narrative]):
    """The narratives of many rows.

    Parameters
    ----------
    narratives : sequence of Narrative
        Another `Explanation` hands on its source.
    source : Source, optional
        The model that told them and its rows, for pages that carry them. JSON and frames do not
        keep it.

    Examples
    --------
    >>> start, after = (0.4, 0.6), (0.9, 0.1)
    >>> step = Step({"age": {"age": 71}}, 0.8, start, after)
    >>> e = Explanation([Narrative(0, start, 0.0, (step,), "decision", ("ill", "well"), 5)])
    >>> print(e[0].text())
    Row 0. Before anything is revealed: well 60 %, ill 40 %.
    1. age is 71. Prediction: well 60 %, ill 40 % → ill 90 %, well 10 %.
    It stopped here (stop probability 80%): more was not worth its price.
    Predicted ill from 1 of 5 features.
    >>> Explanation.from_json(e.to_json()) == e
    True
    """

    def __init__(self, narratives: Sequence[Narrative], source: Source | None = None) -> None:
        self._narratives = list(narratives)
        handed_on = narratives.source if isinstance(narratives, Explanation) else None
        self.source: Source | None = source or handed_on

    def __len__(self) -> int:
        return len(self._narratives)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            source = None if self.source is None else self.source.take(index)
            return Explanation(self._narratives[index], source)
        return self._narratives[index]

    def __iter__(self) -> Iterator[Narrative]:
        return iter(self._narratives)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explanation) and self._narratives == other._narratives

    def __repr__(self) -> str:
        return f"Explanation of {len(self)} rows"

    def _repr_html_(self) -> str:
        """The narratives as notebooks show them."""
        from suwr.report.notebook import explanation_html

        return explanation_html(self)

    def text(self) -> str:
        """All narratives, with an empty line in between."""
        return "\n\n".join(n.text() for n in self)

    def to_json(self) -> str:
        """All narratives as JSON; `from_json` reads them back."""
        return json.dumps(
            {"format": 1, "narratives": [n.to_dict() for n in self]}, ensure_ascii=False
        )

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """Undo `to_json`."""
        return cls([Narrative.from_dict(n) for n in json.loads(text)["narratives"]])

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "How these predictions came about",
        y: Sequence[Any] | None = None,
        model: bool | Literal["auto"] = "auto",
        hidden_values: bool = True,
    ) -> None:
        """Write one self-contained page: no network, no server, nothing else to install.

        Rows can be searched and filtered, and each narrative stepped through. With the model
        inside, readers can change values and be asked for features one by one.

        Parameters
        ----------
        path : path
            The HTML file; an existing one is replaced in one step or not at all.
        title : str
        y : sequence, optional
            The true class or value of each row, shown beside the prediction.
        model : bool or 'auto', default='auto'
            Put the model's weights into the page. 'auto' does so where the explanation came from a
            model that a page can run and its weights take at most 3 MB; True raises an error where
            that is not possible.
        hidden_values : bool, default=True
            Put the values that were *not* revealed into the page too, where the model or an image
            can use them. Without them a changed story may ask its reader for values. Leave them
            out where readers must not see them.
        """
        from suwr.report import page_html

        check_writable(path)
        page = page_html(self, title=title, y=y, model=model, hidden_values=hidden_values)
        write_atomic(path, page.encode(errors="replace"))

    def to_frame(self) -> Any:
        """A pandas frame with a line for every revealed column of every step.

        Step 0 is the blind start. Predictions are repeated on the lines of one step. Facts about
        the whole narrative are in ``frame.attrs``; `from_frame` reads it all back.
        """
        from suwr.explanation_frame import to_frame

        return to_frame(self)

    @classmethod
    def from_frame(cls, frame: Any) -> Explanation:
        """Undo `to_frame`."""
        from suwr.explanation_frame import from_frame

        return from_frame(frame)
