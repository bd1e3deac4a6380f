"""Explanations: the ordered steps of each prediction, as objects, text, JSON, frames and pages.

`Narrative` is one row, `ModelNarrative` one that ends with the output of the explained model,
`Explanation` many rows with the usage of units among them. An explanation made by a model has a
`Source`: its page can list every feature and run the model. An explanation read from JSON or a data
frame has none, and its page shows the narratives only. The wording of steps is that of format.js.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from suwr._utils.files import check_writable, write_atomic
from suwr._utils.text import (
    counted,
    format_label,
    format_number,
    percent,
    percent_of,
    percent_of_stop,
    printable,
)
from suwr._utils.validation import require, view
from suwr.data.descriptions import NO_DESCRIPTION, TableDescription
from suwr.narrative.effects import UsualEffect, usage_frame
from suwr.narrative.given import Given

# Sentences for the values of `Narrative.ended`; the HTML page uses them too.
ENDINGS = {
    "decision": "Stopped by the stopping policy (stop probability {stop}).",
    "budget": "Stopped after the maximum number of steps.",
    "abstained": "Abstained: not certain enough after the maximum number of steps.",
    "everything": "Stopped because all features are revealed.",
    "cost": "Stopped because no further feature fits the budget.",
    "unavailable": "Stopped because no further feature is available.",
    "open": "Not stopped yet (stop probability {stop}).",
}
# Classes that are named in a prediction: at most so many, each of at least this probability.
MAX_CLASSES, LEAST = 3, 0.005


def format_prediction(prediction: Sequence[float], classes: Sequence[Any] | None) -> str:
    """Format class probabilities, the most probable first, or a value.

    Classes of under 1 % are left out.

    Examples
    --------
    >>> format_prediction((0.1, 0.898, 0.002), ("a", "b", "c"))
    'b 90 %, a 10 %'
    >>> format_prediction((412_345.6,), None)
    '412,300'
    """
    if classes is None:
        return format_number(prediction[0], 4)
    ranked = sorted(zip(prediction, classes, strict=True), key=lambda pair: -pair[0])
    ranked = ranked[:1] + [pair for pair in ranked[1:] if pair[0] >= LEAST]
    shown = ", ".join(percent_of(format_label(label), p) for p, label in ranked[:MAX_CLASSES])
    return shown if len(ranked) <= MAX_CLASSES else f"{shown}, …"


@dataclass(frozen=True)
class Layout:
    """Columns and units of a model.

    Attributes
    ----------
    columns : list of str
    units : list of (str, list of int)
        Name and column numbers of every unit.
    image : tuple of int or None
        ``(height, width)`` or ``(height, width, channels)`` if the columns are pixels.
    """

    columns: list[str]
    units: list[tuple[str, list[int]]]
    image: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PageModel:
    """A model in a form that the script of a page can run.

    Attributes
    ----------
    description : dict
        JSON-compatible values: the encoding of the columns, the layers of the networks and the
        meaning of their outputs.
    weights : ndarray of float32, one-dimensional
        All weights, in the order of the layers in the description.
    receipts : dict or None
        What a receipt must state to be one of this model; None if the model has no receipts.
    """

    description: dict[str, Any]
    weights: NDArray[np.float32]
    receipts: dict[str, Any] | None = None


class Source(Protocol):
    """The model and the rows behind an explanation; rows are numbered as in the explanation.

    Attributes
    ----------
    sampled : bool
        Whether decisions were drawn from the policy, instead of the most probable ones.
    """

    sampled: bool

    def layout(self) -> Layout:
        """Return the columns and units."""
        ...

    def values(self, row: int) -> dict[int, Any]:
        """Return the values of a row by column number, revealed or not, except for invalid ones."""
        ...

    def model(self) -> PageModel:
        """Return the model; raise `UnsupportedModelError` if a page cannot run it."""
        ...

    def take(self, rows: slice) -> Source:
        """Return the source of a subset of the rows."""
        ...


Prediction = tuple[float, ...]  # one probability per class, or a single value


@dataclass(frozen=True)
class Step:
    """One step of a narrative.

    Attributes
    ----------
    revealed : dict of dict
        Unit → column → value, in the user's own scale; None is a missing value. Several units if a
        step reveals several; see `Costs`.
    stop_probability : float
        ζ_stop after the step.
    prediction_before, prediction : tuple of float
        The predictor *f* before and after the step: a probability per class, or one value.
    usual : UsualEffect or None
        How often the unit, the first one of several, moves the prediction at this step, or at any
        step if few rows took it at this one; None if that is not known.
    alternatives : dict of str to float
        Units that the policy might as well have chosen, and their probabilities relative to that of
        the chosen one: at most three, of at least 90 %. This and ``usual`` are not part of
        comparisons, receipts and frames.

    Examples
    --------
    >>> from suwr.narrative.explanation import Step
    >>> step = Step({"blood": {"s1": 157, "s5": 4.86}}, 0.8, (152.1,), (140.3,))
    >>> step.unit, step.columns
    ('blood', ('s1', 's5'))
    """

    revealed: dict[str, dict[str, Any]]
    stop_probability: float
    prediction_before: Prediction
    prediction: Prediction
    usual: UsualEffect | None = field(default=None, compare=False, repr=False)
    alternatives: dict[str, float] = field(default_factory=dict, compare=False, repr=False)

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
    origin : suwr.narrative.receipt.Origin or None
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
    >>> from suwr.narrative.explanation import Narrative, Step
    >>> step = Step({"bmi": {"bmi": 32.1}}, 0.9, (152.1,), (206.0,))
    >>> narrative = Narrative(0, (152.1,), 0.1, (step,), "decision", None, 10)
    >>> print(narrative.text())
    Row 0. Before anything is revealed: 152.1.
    1. bmi is 32.1. Speaks for a higher value: 206.
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

    @property
    def directions(self) -> tuple[int, ...]:
        """Whether each step speaks for the outcome (1), against it (-1), or for neither (0).

        A step speaks for the predicted class if it raises its probability, and for a predicted
        value if it moves the prediction as all steps together do. Changes that are not displayed do
        not count.
        """
        if self.classes is None:
            place, shown = 0, [self.prediction_text(p) for p in self.predictions]
        else:
            place = self.prediction.index(max(self.prediction))
            shown = [percent(p[place]) for p in self.predictions]
        values = [p[place] for p in self.predictions]
        sign = 1
        if self.classes is None:
            sign = 0 if shown[0] == shown[-1] else 1 if values[-1] > values[0] else -1
        return tuple(
            0 if shown[t] == shown[t + 1] else sign if values[t + 1] > values[t] else -sign
            for t in range(len(self.steps))
        )

    @property
    def outcome(self) -> str:
        """What steps speak for: the predicted class, 'a higher value' or 'a lower value'."""
        if self.classes is not None:
            return self.description.class_text(self.label)
        return f"a {'higher' if self.prediction[0] > self.start[0] else 'lower'} value"

    def says(self, number: int) -> str:
        """What a step speaks for or against, in words; '' if neither. Steps count from 1."""
        word = {1: "for", -1: "against"}.get(self.directions[number - 1])
        return "" if word is None else f"speaks {word} {self.outcome}"

    def prediction_text(self, prediction: Prediction) -> str:
        """Format a prediction with the display names of the classes."""
        return format_prediction(prediction, self.description.class_texts(self.classes))

    def _lines(self, words: Callable[[Any], str]) -> Iterator[str]:
        """Yield one line per step; consecutive ones that change no displayed number share one."""
        unchanged: list[Step] = []
        shown = [self.prediction_text(p) for p in self.predictions]
        for number, step in enumerate(self.steps, start=1):
            if shown[number - 1] == shown[number]:
                unchanged.append(step)
                if number == len(self.steps):
                    yield _unchanged_line(number, unchanged, words)
                continue
            if unchanged:
                yield _unchanged_line(number - 1, unchanged, words)
                unchanged = []
            says = self.says(number) or "prediction"
            yield f"{number}. {words(step.revealed)}. {says[0].upper()}{says[1:]}: {shown[number]}."

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
        start, given = self.prediction_text(self.start), self.given or Given()
        before = f"Before anything {'else ' if given.known else ''}is revealed: {start}."
        lines = [" ".join([f"Row {printable(self.row)}.", *given.sentences(), before])]
        words = partial(self.description.revealed_text, context=context)
        lines += self._lines(words)
        final = self.prediction_text(self.prediction) if self.classes is None else self.outcome
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
        return view("narrative.receipt:make_receipt", self)

    def plot(self, ax: Any = None) -> Any:
        """Plot the narrative; see :func:`suwr.plots.plot_narrative`."""
        return view("plots:plot_narrative", self, ax)

    def _repr_html_(self) -> str:
        """Representation in notebooks."""
        return str(view("report:narrative_html", self))

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        state = asdict(replace(self, origin=None, description=NO_DESCRIPTION))
        del state["origin"], state["description"], state["given"]
        state = {k: v for k, v in state.items() if k != "visit_cost" or v}
        state["steps"] = [
            {k: v for k, v in step.items() if k not in ("usual", "alternatives") or v}
            for step in state["steps"]
        ]
        return state if self.given is None else state | {"given": self.given.to_dict()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Narrative:
        """Create a narrative from the output of `to_dict`."""
        if cls is Narrative and "model_output" in state:
            return ModelNarrative.from_dict(state)
        steps = tuple(
            Step(
                {unit: dict(values) for unit, values in s["revealed"].items()},
                float(s["stop_probability"]),
                tuple(map(float, s["prediction_before"])),
                tuple(map(float, s["prediction"])),
                UsualEffect(**s["usual"]) if "usual" in s else None,
                {str(unit): float(share) for unit, share in s.get("alternatives", {}).items()},
            )
            for s in state["steps"]
        )
        classes, ended = state["classes"], state["ended"]
        if ended not in ENDINGS:
            raise ValueError(f"no narrative ends by {ended!r}")
        return cls(
            state["row"], tuple(map(float, state["start"])),
            float(state["start_stop_probability"]), steps,
            ended, None if classes is None else tuple(classes), int(state["n_units"]),
            str(state.get("certificate", "")),
            given=Given.from_dict(state["given"]) if "given" in state else None,
            visit_cost=float(state.get("visit_cost", 0.0)),
        )  # fmt: skip


def _unchanged_line(last: int, steps: Sequence[Step], words: Callable[[Any], str]) -> str:
    """Say that steps changed nothing, and how often they usually do."""
    n = len(steps)
    first, those, they = f"{last - n + 1}–{last}", f"These {n} steps change", "they move"
    if n == 1:
        first, those, they = f"{last}", "This step changes", "it moves"
    line = f"{first}. {'; '.join(words(step.revealed) for step in steps)}. {those} nothing"
    known = [step.usual for step in steps if step.usual is not None]
    if not known:
        return f"{line}."
    moved, rows = sum(effect.n_moved for effect in known), sum(effect.n_rows for effect in known)
    usual = replace(known[0], n_moved=moved, n_rows=rows)
    return f"{line}; {they} {usual}."


class Explanation(Sequence[Narrative]):
    """The narratives of many rows.

    Parameters
    ----------
    narratives : sequence of Narrative
        An `Explanation` passes on its source.
    source : suwr.narrative.explanation.Source, optional
        The model and the rows, for HTML pages that contain them. JSON and frames do not.

    Examples
    --------
    >>> start, after = (0.4, 0.6), (0.9, 0.1)
    >>> step = Step({"age": {"age": 71}}, 0.8, start, after)
    >>> e = Explanation([Narrative(0, start, 0.0, (step,), "decision", ("ill", "well"), 5)])
    >>> print(e[0].text())
    Row 0. Before anything is revealed: well 60 %, ill 40 %.
    1. age is 71. Speaks for ill: ill 90 %, well 10 %.
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
        return str(view("report:explanation_html", self))

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
        try:
            state = json.loads(text)
            found = state.get("description")
            description = NO_DESCRIPTION if found is None else TableDescription.from_dict(found)
            narratives = [Narrative.from_dict(n) for n in state["narratives"]]
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"[:300]
            raise ValueError(f"The text is not the JSON of an explanation: {reason}") from error
        return cls([replace(n, description=description) for n in narratives])

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
        check_writable(path)
        options = {"title": title, "y": y, "hidden_values": hidden_values, "context": context}
        page = view("report:page_html", self, model=model, **options)
        write_atomic(path, page.encode(errors="replace"))

    def usage(self) -> Any:
        """Return a pandas frame of how often, when and with what effect units are revealed."""
        return usage_frame(self)

    def to_frame(self) -> Any:
        """Return a pandas frame with one line per revealed column, for `from_frame`.

        Step 0 is the prediction before the first step. Predictions are repeated on all lines of a
        step. ``frame.attrs["suwr"]`` holds the class labels and the number of units.
        """

        return explanation_frame(self)

    def to_shap(self) -> Any:
        """Return a `shap.Explanation` of the effects of the steps, for the plots of shap.

        The effect of a unit is the change of the prediction by the step that reveals it, divided
        equally among the units of the step; that of a unit that is not revealed is 0. The base
        value of a row is its prediction before the first step, so effects and base value add up
        to the prediction of the row.

        Returns
        -------
        shap.Explanation
            ``values`` has shape (n, n_units), for classes (n, n_units, n_classes), and
            ``base_values`` the same without the units. ``data`` holds the revealed numbers of
            units that are single columns, otherwise NaN, and ``display_data`` texts. An
            explanation that was read from a file has the units that some row reveals.

        Raises
        ------
        MissingExtraError
            shap is not installed.
        """
        return shap_explanation(self)

    @classmethod
    def from_frame(cls, frame: Any) -> Explanation:
        """Create an explanation from the output of `to_frame`."""

        return cls(read_explanation_frame(frame))


@dataclass(frozen=True)
class ModelNarrative(Narrative):
    """A narrative, and what the explained model says about the whole row.

    Attributes
    ----------
    model_output : tuple of float
        Output of the model for all features: a probability per class, or one value. Unlike
        everything else in a narrative, it depends on features that were not revealed.

    Examples
    --------
    >>> from suwr.narrative.explanation import Narrative, Step
    >>> step = Step({"bmi": {"bmi": 32.1}}, 0.9, (152.1,), (206.0,))
    >>> narrative = Narrative(0, (152.1,), 0.1, (step,), "decision", None, 10)
    >>> print(ModelNarrative.of(narrative, (210.0,)).comparison)
    The model says 210; from these features alone: 206.
    """

    model_output: Prediction = ()

    @classmethod
    def of(cls, narrative: Narrative, model_output: Prediction) -> ModelNarrative:
        """Add the output of the model to a narrative."""
        known = {field.name: getattr(narrative, field.name) for field in fields(Narrative)}
        return cls(**known, model_output=model_output)

    @property
    def agrees(self) -> bool:
        """Whether the revealed features give the class that the model predicts."""
        return bool(self._label(self.model_output) == self.label)

    @property
    def comparison(self) -> str:
        """The output of the model beside that of the revealed features, as a sentence."""
        if self.classes is None:
            says, alone = (
                self.prediction_text(self.model_output),
                self.prediction_text(self.prediction),
            )
        else:
            place = self.model_output.index(max(self.model_output))
            label = self.description.class_text(self.classes[place])
            says = percent_of(label, self.model_output[place])
            alone = percent_of(label, self.prediction[place])
        return f"The model says {says}; from these features alone: {alone}."

    def text(self, *, context: bool = True) -> str:
        """Return the narrative as plain text; the last line is `comparison`."""
        return f"{super().text(context=context)}\n{self.comparison}"

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> ModelNarrative:
        """Create a narrative from the output of `to_dict`."""
        known = {name: value for name, value in state.items() if name != "model_output"}
        return cls.of(Narrative.from_dict(known), tuple(map(float, state["model_output"])))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        return {**super().to_dict(), "model_output": list(self.model_output)}


_FRAME_COLUMNS = ("row", "step", "unit", "column", "value", "stop_probability")


def explanation_frame(explanation: Explanation) -> Any:
    """Return the frame of an explanation; see `Explanation.to_frame`."""
    pandas = require("pandas", "tables", "Explanation.to_frame")
    first = explanation[0] if len(explanation) else None
    classes = None if first is None else first.classes
    names = [*_FRAME_COLUMNS, *_prediction_columns(classes), "ended"]
    lines = [line for narrative in explanation for line in _lines(narrative)]
    frame = pandas.DataFrame(lines, columns=names)
    frame["value"] = pandas.Series([line["value"] for line in lines], dtype=object)
    frame.attrs["suwr"] = {
        "classes": None if classes is None else list(classes),
        "n_units": 0 if first is None else first.n_units,
        "certificate": "" if first is None else first.certificate,
        "description": explanation.description.restrict(explanation).to_dict(),
    }
    if any(n.given is not None for n in explanation):
        given: dict[Any, list[Any]] = {}
        for n in explanation:
            given.setdefault(n.row, []).append(None if n.given is None else n.given.to_dict())
        frame.attrs["suwr"]["given"] = given
    if first is not None and first.visit_cost:
        frame.attrs["suwr"]["visit_cost"] = first.visit_cost
    return frame


def read_explanation_frame(frame: Any) -> list[Narrative]:
    """Return the narratives of a frame; see `Explanation.from_frame`."""
    facts = frame.attrs["suwr"]
    classes = None if facts["classes"] is None else tuple(facts["classes"])
    description = NO_DESCRIPTION
    if "description" in facts:
        description = TableDescription.from_dict(facts["description"])
    narratives = []
    for (row, place), lines in frame.groupby(["row", _occurrences(frame)], sort=False):
        stated = facts.get("given", {}).get(row)
        given = None if stated is None else stated[place]
        (_, start), *parts = lines.groupby("step", sort=True)
        predictions = [_prediction(start, classes)]
        steps = []
        for _, part in parts:
            revealed: dict[str, dict[str, Any]] = {}
            for unit, column, value in zip(
                part["unit"], part["column"], part["value"], strict=True
            ):
                revealed.setdefault(unit, {})[column] = value
            predictions.append(_prediction(part, classes))
            stop = float(part["stop_probability"].iloc[0])
            steps.append(Step(revealed, stop, predictions[-2], predictions[-1]))
        narratives.append(
            Narrative(
                row.item() if hasattr(row, "item") else row,
                predictions[0],
                float(start["stop_probability"].iloc[0]),
                tuple(steps),
                str(start["ended"].iloc[0]),
                classes,
                facts["n_units"],
                facts.get("certificate", ""),
                description=description,
                given=None if given is None else Given.from_dict(given),
                visit_cost=float(facts.get("visit_cost", 0.0)),
            )
        )
    return narratives


def shap_explanation(explanation: Explanation) -> Any:
    """Return the effects of the steps; see `Explanation.to_shap`."""
    shap = require("shap", "audit", "Explanation.to_shap")
    if not explanation:
        raise ValueError("Explanation.to_shap needs at least one row. Got none instead.")
    description, classes = explanation.description, explanation[0].classes
    # Every unit with its columns, in the order of the model, or in that of the steps.
    columns: dict[str, list[str]] = {}
    if explanation.source is not None:
        layout = explanation.source.layout()
        columns = {unit: [layout.columns[c] for c in own] for unit, own in layout.units}
    for narrative in explanation:
        for step in narrative.steps:
            for unit, revealed in step.revealed.items():
                columns.setdefault(unit, list(revealed))
    place = {unit: number for number, unit in enumerate(columns)}
    base = np.array([narrative.start for narrative in explanation])
    effects = np.zeros((len(explanation), len(place), base.shape[1]))
    data = np.full(effects.shape[:2], np.nan)
    display = np.full(effects.shape[:2], "not revealed", dtype=object)
    for row, narrative in enumerate(explanation):
        for step in narrative.steps:
            effect = np.subtract(step.prediction, step.prediction_before) / len(step.units)
            for unit, revealed in step.revealed.items():
                at = row, place[unit]
                effects[at] += effect
                display[at] = ", ".join(
                    description.column(name).value_text(value) for name, value in revealed.items()
                )
                if len(revealed) == 1:
                    (value,) = revealed.values()
                    data[at] = value if isinstance(value, int | float) else np.nan
    return shap.Explanation(
        effects[..., 0] if classes is None else effects,
        base_values=base[:, 0] if classes is None else base,
        data=data,
        display_data=display,
        feature_names=[description.unit_text(u, own, short=True) for u, own in columns.items()],
        output_names=description.class_texts(classes),
    )


def _occurrences(frame: Any) -> Any:
    """Return for each line how many rows of the same label come before its row.

    Each row begins with step 0. Lines may be in any order if labels are unique.
    """
    starts = frame["step"] == 0
    if not frame["row"][starts].duplicated().any():
        return frame["step"] * 0
    if not starts.iloc[0] or (frame["row"] != frame["row"].shift())[~starts].any():
        raise ValueError("The lines of rows with equal labels must be in the order of 'to_frame'.")
    return starts.groupby(frame["row"]).cumsum() - 1


def _prediction_columns(classes: tuple[Any, ...] | None) -> list[str]:
    return ["prediction"] if classes is None else [f"probability of {c}" for c in classes]


def _prediction(lines: Any, classes: tuple[Any, ...] | None) -> Prediction:
    return tuple(float(lines[name].iloc[0]) for name in _prediction_columns(classes))


def _lines(narrative: Narrative) -> Iterator[dict[str, Any]]:
    names = _prediction_columns(narrative.classes)
    cells: Iterator[tuple[Any, Any, Any]]
    for number, (stop, prediction) in enumerate(
        zip(narrative.stop_probabilities, narrative.predictions, strict=True)
    ):
        if number == 0:
            cells = iter([(None, None, None)])
        else:
            revealed = narrative.steps[number - 1].revealed
            cells = ((u, c, v) for u, values in revealed.items() for c, v in values.items())
        facts = dict(zip(names, prediction, strict=True)) | {"ended": narrative.ended}
        for cell in cells:
            line = (narrative.row, number, *cell, stop)
            yield dict(zip(_FRAME_COLUMNS, line, strict=True)) | facts
