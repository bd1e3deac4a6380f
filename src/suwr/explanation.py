"""Explanations: the ordered steps of each prediction, as objects, text, JSON, frames and pages.

The imports of `suwr.plots` and `suwr.report` inside methods are the only ones of higher layers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

from suwr._utils.files import check_writable, write_atomic
from suwr._utils.narration import ENDINGS, format_prediction, step_lines
from suwr._utils.text import counted, format_label, percent_of_stop, printable
from suwr.data.descriptions import NO_DESCRIPTION, TableDescription
from suwr.given import Given
from suwr.usage import usage_frame

__all__ = ["ENDINGS", "Explanation", "Narrative", "Step"]

Prediction = tuple[float, ...]  # one probability per class, or a single value


@dataclass(frozen=True)
class Step:
    """One step of a narrative.

    Attributes
    ----------
    revealed : dict of dict
        Unit → column → value, in the user's own scale; None is a missing value. Several units if
        ``units_per_step > 1``.
    stop_probability : float
        ζ_stop after the step.
    prediction_before, prediction : tuple of float
        The predictor *f* before and after the step: a probability per class, or one value.

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
        """The revealed unit; several units are joined by ' + '."""
        return " + ".join(self.revealed)

    @property
    def values(self) -> dict[str, Any]:
        """The revealed values by column."""
        return {name: value for part in self.revealed.values() for name, value in part.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """The revealed columns."""
        return tuple(self.values)


@dataclass(frozen=True)
class Narrative:
    """The ordered steps that lead to the prediction of one row.

    Attributes
    ----------
    row : int or str
        Position or name of the row.
    start : tuple of float
        The prediction before any unit is revealed, except for known values.
    start_stop_probability : float
        ζ_stop(∅).
    steps : tuple of Step
    ended : {'decision', 'budget', 'abstained', 'everything', 'cost', 'unavailable', 'open'}
        Why the rollout ended: by the stopping policy, by ``max_steps`` (without an answer, if the
        model may abstain), because all units are revealed, because no further unit is affordable or
        available, or not yet (a session in progress).
    classes : tuple or None
        Class labels; None for regression.
    n_units : int
        Number of units of the table.
    certificate : str
        The guarantee of a certified model in words; '' without one.
    origin : suwr.receipts.Origin or None
        What `receipt` states about the model; None for a narrative that was read from a file. Not
        part of comparisons, JSON and frames.
    description : suwr.data.descriptions.TableDescription
        How columns, units and values are worded. Not part of comparisons.
    given : Given or None
        Known values, unavailable units, costs and the budget; None without any of them.
    visit_cost : float
        Cost of each step besides its units. Not part of comparisons.

    Examples
    --------
    >>> from suwr.explanation import Narrative, Step
    >>> step = Step({"bmi": {"bmi": 32.1}}, 0.9, (152.1,), (206.0,))
    >>> narrative = Narrative(0, (152.1,), 0.1, (step,), "decision", None, 10)
    >>> print(narrative.text())
    Row 0. Before anything is revealed: 152.1.
    1. bmi is 32.1. Prediction: 152.1 → 206.
    Stopped by the stopping policy (stop probability 90 %).
    Predicted 206 from 1 of 10 features.
    """

    row: int | str
    start: Prediction
    start_stop_probability: float
    steps: tuple[Step, ...]
    ended: str
    classes: tuple[Any, ...] | None
    n_units: int
    certificate: str = ""
    origin: Any = field(default=None, compare=False, repr=False)
    description: TableDescription = field(default=NO_DESCRIPTION, compare=False, repr=False)
    given: Given | None = None
    visit_cost: float = field(default=0.0, compare=False)

    @property
    def prediction(self) -> Prediction:
        """The final prediction."""
        return self.predictions[-1]

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """The predictions before the first step and after each step."""
        return (self.start, *(step.prediction for step in self.steps))

    @property
    def stop_probabilities(self) -> tuple[float, ...]:
        """ζ_stop before the first step and after each step."""
        return (self.start_stop_probability, *(step.stop_probability for step in self.steps))

    @property
    def n_used(self) -> int:
        """Number of revealed units."""
        return sum(len(step.units) for step in self.steps)

    @property
    def label(self) -> Any:
        """The predicted class, or the predicted value."""
        return self._label(self.prediction)

    def _label(self, prediction: Prediction) -> Any:
        if self.classes is None:
            return prediction[0]
        return self.classes[prediction.index(max(prediction))]

    def _format(self, prediction: Prediction) -> str:
        return format_prediction(prediction, self.classes)

    @property
    def ending(self) -> str:
        """Why the rollout ended, as a sentence."""
        return ENDINGS[self.ended].format(stop=percent_of_stop(self.stop_probabilities[-1]))

    def text(self, *, context: bool = True) -> str:
        """Return the narrative as plain text; control characters are shown as escapes.

        Parameters
        ----------
        context : bool, default=True
            Whether to say where revealed numbers lie among the training values.
        """
        start, given = self._format(self.start), self.given or Given()
        before = f"Before anything {'else ' if given.known else ''}is revealed: {start}."
        lines = [" ".join([f"Row {printable(self.row)}.", *given.sentences(), before])]
        words = partial(self.description.revealed_text, context=context)
        lines += step_lines(self.steps, self.classes, words)
        final = self._format(self.prediction) if self.classes is None else format_label(self.label)
        lines.append(self.ending)
        known = f" and {len(given.known)} known in advance" if given.known else ""
        known += f" in {counted(len(self.steps), 'visit')}" if self.visit_cost else ""
        lines.append(f"Predicted {final} from {self.n_used} of {self.n_units} features{known}.")
        if self.certificate and self.ended != "open":
            lines.append(printable(self.certificate))
        return "\n".join(lines)

    def receipt(self) -> Any:
        """Return a `suwr.Receipt`: the revealed values and every decision, for `suwr.verify`.

        Raises
        ------
        ValueError
            The narrative was read from a file, sampled, continued after the policy had stopped, or
            is not finished.
        """
        from suwr.receipts import make_receipt

        return make_receipt(self)

    def plot(self, ax: Any = None) -> Any:
        """Plot the narrative; see :func:`suwr.plots.plot_narrative`."""
        from suwr.plots import plot_narrative

        return plot_narrative(self, ax)

    def _repr_html_(self) -> str:
        """Representation in notebooks."""
        from suwr.report.notebook import narrative_html

        return narrative_html(self)

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        state = asdict(replace(self, origin=None, description=NO_DESCRIPTION))
        del state["origin"], state["description"], state["given"]
        state = {k: v for k, v in state.items() if k != "visit_cost" or v}
        return state if self.given is None else state | {"given": self.given.to_dict()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Narrative:
        """Create a narrative from the output of `to_dict`."""
        if cls is Narrative and "model_output" in state:
            from suwr.model_narrative import ModelNarrative

            return ModelNarrative.from_dict(state)
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
            state["row"], tuple(state["start"]), float(state["start_stop_probability"]), steps,
            str(state["ended"]), None if classes is None else tuple(classes), int(state["n_units"]),
            str(state.get("certificate", "")),
            given=Given.from_dict(state["given"]) if "given" in state else None,
            visit_cost=float(state.get("visit_cost", 0.0)),
        )  # fmt: skip


class Explanation(Sequence[Narrative]):
    """The narratives of many rows.

    Parameters
    ----------
    narratives : sequence of Narrative
        An `Explanation` passes on its source.
    source : suwr.report.source.Source, optional
        The model and the rows, for HTML pages that contain them. JSON and frames do not.

    Examples
    --------
    >>> start, after = (0.4, 0.6), (0.9, 0.1)
    >>> step = Step({"age": {"age": 71}}, 0.8, start, after)
    >>> e = Explanation([Narrative(0, start, 0.0, (step,), "decision", ("ill", "well"), 5)])
    >>> print(e[0].text())
    Row 0. Before anything is revealed: well 60 %, ill 40 %.
    1. age is 71. Prediction: well 60 %, ill 40 % → ill 90 %, well 10 %.
    Stopped by the stopping policy (stop probability 80 %).
    Predicted ill from 1 of 5 features.
    >>> Explanation.from_json(e.to_json()) == e
    True
    """

    def __init__(self, narratives: Sequence[Narrative], source: Any = None) -> None:
        self._narratives = list(narratives)
        inherited = narratives.source if isinstance(narratives, Explanation) else None
        self.source: Any = source or inherited

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
        return f"Explanation of {counted(len(self), 'row')}"

    def _repr_html_(self) -> str:
        """Representation in notebooks."""
        from suwr.report.notebook import explanation_html

        return explanation_html(self)

    def text(self, *, context: bool = True) -> str:
        """Return all narratives as plain text, separated by blank lines.

        Parameters
        ----------
        context : bool, default=True
            Whether to say where revealed numbers lie among the training values.
        """
        return "\n\n".join(n.text(context=context) for n in self)

    @property
    def description(self) -> TableDescription:
        """How columns, units and values are worded."""
        return self[0].description if len(self) else NO_DESCRIPTION

    def to_json(self) -> str:
        """Return all narratives as JSON, for `from_json`."""
        state: dict[str, Any] = {"format": 1, "narratives": [n.to_dict() for n in self]}
        if self.description != NO_DESCRIPTION:
            state["description"] = self.description.restrict(self).to_dict()
        return json.dumps(state, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """Create an explanation from the output of `to_json`."""
        state = json.loads(text)
        found = state.get("description")
        description = NO_DESCRIPTION if found is None else TableDescription.from_dict(found)
        return cls(
            [replace(Narrative.from_dict(n), description=description) for n in state["narratives"]]
        )

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Predictions, step by step",
        y: Sequence[Any] | None = None,
        model: bool | Literal["auto"] = "auto",
        hidden_values: bool = False,
        context: bool = True,
    ) -> None:
        """Write a self-contained HTML page, which needs neither a server nor a network.

        Readers can search and filter the rows and go through each narrative step by step. If the
        page contains the model, they can also change values and enter new rows.

        Parameters
        ----------
        path : path
            The HTML file; an existing file is replaced atomically.
        title : str
        y : sequence, optional
            The true class or value of each row, shown next to the prediction.
        model : bool or 'auto', default='auto'
            Whether the page contains the weights of the model. 'auto' includes them if the page
            can run the model and they take at most 3 MB; True raises an error if it cannot.
        hidden_values : bool, default=False
            Whether the page also contains the values that the model did *not* reveal, for use by
            the model or an image. Without them, a page with the model asks its reader for a value
            that the changed narrative reveals. Only set this if readers may see whole rows.
        context : bool, default=True
            Whether the page says where numbers lie among the training values. It then contains
            quantiles of the training values: of every column with the model, otherwise of the
            revealed ones.
        """
        from suwr.report import page_html

        check_writable(path)
        page = page_html(
            self, title=title, y=y, model=model, hidden_values=hidden_values, context=context
        )
        write_atomic(path, page.encode(errors="replace"))

    def usage(self) -> Any:
        """Return a pandas frame of how often, when and with what effect units are revealed."""
        return usage_frame(self)

    def to_frame(self) -> Any:
        """Return a pandas frame with one line per revealed column, for `from_frame`.

        Step 0 is the prediction before the first step. Predictions are repeated on all lines of a
        step. ``frame.attrs["suwr"]`` holds the class labels and the number of units.
        """
        from suwr.frames import explanation_frame

        return explanation_frame(self)

    @classmethod
    def from_frame(cls, frame: Any) -> Explanation:
        """Create an explanation from the output of `to_frame`."""
        from suwr.frames import read_explanation_frame

        return cls(read_explanation_frame(frame))
