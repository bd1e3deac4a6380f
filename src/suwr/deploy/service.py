"""What the service answers: schemas of requests and responses, replays of sessions, and the worker.

No cell can break the JSON that is read. Errors name a field, but no value.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

import suwr
from suwr._utils.text import check_unicode
from suwr.data.descriptions import find_unusual
from suwr.data.encode import ColumnCode, TableEncoder
from suwr.data.frame import Table, object_column
from suwr.data.parse import EXPECTED, InvalidCell
from suwr.estimators.base import SUWRModel
from suwr.estimators.limits import known_at_start, largest_budget, start_distance
from suwr.estimators.session import InputError, make_given
from suwr.exceptions import TableError
from suwr.narrative.effects import UsualEffect
from suwr.narrative.explanation import Explanation, Narrative
from suwr.narrative.given import Given
from suwr.nn.rollout import Trace
from suwr.nn.step import Starts
from suwr.report import page_html

# Integers of more digits are kept as text: converting them takes quadratic time.
MAX_DIGITS = 400
# Characters of a name in an error.
MAX_SHOWN = 80
# No sum of costs is as large.
NO_LIMIT = 1e300


class RequestError(Exception):
    """A request that cannot be answered.

    Parameters
    ----------
    message : str
        Names no value of the request.
    field : str or None
        The field that is wrong.
    status : int
        The HTTP status.
    """

    def __init__(self, message: str, field: str | None = None, status: int = 422) -> None:
        super().__init__(message)
        self.message, self.field, self.status = message, field, status


class RepeatedNames(dict[str, Any]):
    """A JSON object in which a name occurs twice."""

    name: str


def read_json(body: bytes, *, finite: bool = False) -> dict[str, Any]:
    """Parse the body of a request, which must be an object.

    What a nested value contains is not checked: a cell of a row may be anything that JSON can
    represent, and matters only if the model asks for it.

    Parameters
    ----------
    body : bytes
    finite : bool, default=False
        Whether to refuse numbers that are no finite floats, wherever they are, because the response
        repeats the body.
    """
    to_float, to_integer = (_finite_float, _finite_integer) if finite else (float, _integer)
    try:
        numbers: Any = {"parse_float": to_float, "parse_constant": to_float}
        content = json.loads(body, object_pairs_hook=_object, parse_int=to_integer, **numbers)
    except (ValueError, RecursionError):
        # The message of the parser may quote the body.
        content = None
    if not isinstance(content, dict):
        raise RequestError("The body must be a JSON object.", status=400)
    return check_object(content, "body")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated = RepeatedNames(found)
    repeated.name = Counter(name for name, _ in pairs).most_common(1)[0][0]
    return repeated


def _integer(text: str) -> int | str:
    return int(text) if len(text) <= MAX_DIGITS else text


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise RequestError("Every number of a resource must be finite, and at most 1.8e308.")
    return number


def _finite_integer(text: str) -> int:
    _finite_float(text)
    return int(text)


def check_object(content: Any, what: str) -> dict[str, Any]:
    """Return a JSON object whose names are unique."""
    if not isinstance(content, dict):
        raise RequestError(f"{what!r} must be an object.", what)
    if isinstance(content, RepeatedNames):
        raise RequestError(f"{content.name!r} is given twice in {what!r}.", content.name)
    return content


def _values(what: str) -> Any:
    """Return the validator of an object with any values, which are not copied."""
    return PlainValidator(
        lambda content: check_object(content, what), json_schema_input_type=dict[str, Any]
    )


def _limit(number: Any) -> Any:
    """Return a number that is a float, although integers may be larger."""
    return NO_LIMIT if isinstance(number, int | float) and number > NO_LIMIT else number


class Request(BaseModel):
    """A request, which has no other fields."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(
        None, description="Digest of the model file; with it, another model is an error."
    )


class NextRequest(Request):
    """All answers so far."""

    answers: Annotated[dict[str, Any], _values("answers")] = Field(
        {}, description="Values by column; null is a missing value."
    )
    known: Annotated[dict[str, Any], _values("known")] = Field(
        {},
        description="Values by column that are known in advance: they cost nothing, and the model "
        "reads them before its first question. Send the same in every request of a session. "
        "Columns that the model always knows may be among the answers instead; it asks for those "
        "that lack, with null as the unit.",
    )
    unavailable: list[str] = Field(
        [], description="Units that are not available: the model does not ask for them."
    )
    max_cost: Annotated[float, BeforeValidator(_limit), Field(ge=0, allow_inf_nan=False)] | None = (
        Field(None, description="Largest total cost of the questions.")
    )
    unasked: Literal["error", "drop"] = Field(
        "error",
        description="What to do with answers that the model does not ask for, for example after an "
        "earlier answer was changed.",
    )


class RowsRequest(Request):
    """Rows to predict or to explain."""

    rows: list[Annotated[dict[str, Any], _values("rows")]] = Field(
        min_length=1,
        description="Values by column. Cells that the model does not ask for may be absent or "
        "anything: they are not used.",
    )


class FhirRequest(BaseModel):
    """A QuestionnaireResponse, or Parameters with one named 'questionnaire-response'."""

    resourceType: Literal["QuestionnaireResponse", "Parameters"]


class Response(BaseModel):
    """A response, which has no other fields; those with a default may be absent."""

    model_config = ConfigDict(extra="forbid")


class ColumnDescription(Response):
    """A column, and what its values may be."""

    name: str
    type: Literal["number", "boolean", "text", "numeric category"]
    missing_allowed: bool
    allowed_values: list[bool | int | float | str] = []
    others_allowed: bool = False
    usual_range: list[float] = Field([], description="The central 90 % of the training values.")
    whole: bool = False


class Prediction(Response):
    """A prediction; regressions have no classes."""

    prediction: bool | int | float | str
    ended: str = Field(description="Why the model has stopped, or 'open'.")
    classes: list[bool | int | float | str] | None = None
    probabilities: list[float] = []


class RowPrediction(Prediction):
    """The prediction of a row."""

    columns: list[str] = Field(description="The columns that the model asked for, in order.")
    known: list[str] = []


class Answer(Prediction):
    """A final answer."""

    narrative: str
    receipt: dict[str, Any]
    certificate: dict[str, Any] | None


class RowExplanation(Answer):
    """The answer of a row, with its steps as in `Narrative.to_dict`."""

    model_config = ConfigDict(extra="allow")

    row: int
    steps: list[dict[str, Any]]


class Question(Response):
    """The unit that is asked for; null if columns lack that are always known."""

    unit: str | None
    columns: list[ColumnDescription]
    expected_gain: float | None
    stop_probability: float | None
    moves: str | None = Field(
        None, description="How often this unit moves the prediction in held-out rows."
    )
    alternatives: list[str] = Field(
        [], description="Units that the model might as well have asked for."
    )


class NextResponse(Response):
    """The next question, or the final answer."""

    model: str
    done: bool
    dropped: list[str] = Field(description="Answers that were left out.")
    start_distance: int | None = None
    question: Question | None = None
    prediction: Prediction | None = None
    answer: Answer | None = None


class Unusual(Response):
    """A value that is unlike the training data."""

    row: int
    column: str
    reason: str


class Predictions(Response):
    """The predictions of all rows."""

    model: str
    predictions: list[RowPrediction]
    unusual: list[Unusual]


class Explanations(Response):
    """The narratives of all rows."""

    model: str
    narratives: list[RowExplanation]
    unusual: list[Unusual]


class ModelDescription(Response):
    """Columns, units and classes of the model."""

    model: str
    version: str
    target: str | None
    classes: list[bool | int | float | str] | None
    columns: list[ColumnDescription]
    units: list[str]
    known_at_start: dict[str, float]
    missing: Literal["value", "unrecorded"]
    max_steps: int
    certificate: str | None


class Health(Response):
    """The process can answer."""

    status: Literal["ok"]
    model: str


class FhirResource(BaseModel):
    """A resource of FHIR R4."""

    model_config = ConfigDict(extra="allow")

    resourceType: str


class Problem(Response):
    """A message, and the field that is wrong."""

    field: str | None
    message: str


class ErrorResponse(Response):
    """The message names the field that is wrong, never a value."""

    error: Problem


R = TypeVar("R", bound=Request)


def read_request(kind: type[R], body: bytes) -> R:
    """Parse the body of a request of a kind."""
    content = read_json(body)
    unknown = next((name for name in content if name not in kind.model_fields), None)
    if unknown is not None:
        name, known = unknown[:MAX_SHOWN], ", ".join(sorted(kind.model_fields))
        raise RequestError(f"Unknown field {name!r}. Known fields: {known}.", name)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_context=False, include_input=False)
        field = str(first["loc"][0])
        raise RequestError(f"{field!r}: {first['msg']}.", field) from None


class _UnquotedCell(InvalidCell):
    """An invalid cell whose error does not contain its value."""

    def error(self, quote: bool) -> TableError:
        """See `InvalidCell`."""
        if self.value is _ABSENT:
            return TableError(f"Row {self.row} lacks column {self.column!r}, which is needed.")
        return super().error(False)


_ABSENT = type("Absent", (), {})()


def parse_rows(encoder: TableEncoder, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Parse rows of which any cell may be absent; absent cells are invalid.

    A cell that the model does not ask for may be anything, and other fields are ignored.
    """
    names = encoder.names
    table = encoder.parse([object_column([row.get(n, _ABSENT) for row in rows]) for n in names])
    for cells in table.invalid.values():
        for number, cell in enumerate(cells):
            if cell is not None:
                cells[number] = _UnquotedCell(cell.row, cell.column, cell.type, cell.value)
    return table


@dataclass(frozen=True)
class Answers:
    """All answers of a session so far.

    Attributes
    ----------
    values : mapping
        From column to value, in any order. Those of columns that the model always knows at the
        start are as if they were in ``given``.
    drop : bool
        Whether to leave out answers that the policy does not ask for, instead of refusing them.
    given : Given
        Values known in advance, unavailable units, and the budget.
    """

    values: Mapping[str, Any]
    drop: bool = False
    given: Given = field(default_factory=Given)


@dataclass(frozen=True)
class Replay:
    """A session that was rebuilt from its answers.

    Attributes
    ----------
    narrative : Narrative or None
        The complete steps; ``ended`` is 'open' while the policy asks for more. None if columns that
        the model always knows at the start have no answer yet.
    next_unit : str or None
        The unit that is asked for; None if the policy has stopped or not started.
    next_columns : tuple of str
        The columns that are asked for; empty if the policy has stopped.
    partial : dict
        Answers to the other columns of that unit, or to others that are known at the start.
    dropped : tuple of str
        Columns that were answered, but not asked for.
    start_distance : int or None
        Number of known units that the policy would not have asked for by itself; None if nothing is
        known in advance.
    gain : float or None
        Expected gain of continuing; None if the policy has no such estimate.
    usual : UsualEffect or None
        How often the unit that is asked for moves the prediction; see `Step.usual`.
    alternatives : tuple of str
        Units that the policy might as well have asked for.
    """

    narrative: Narrative | None
    next_unit: str | None
    next_columns: tuple[str, ...]
    partial: dict[str, Any]
    dropped: tuple[str, ...]
    start_distance: int | None = None
    gain: float | None = None
    usual: UsualEffect | None = None
    alternatives: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether the policy has stopped."""
        return not self.next_columns


#: From a replayed session to the response.
Finish = Callable[[Replay], dict[str, Any]]


class Service:
    """Answers requests about one fitted model. It remembers nothing between requests.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    mean_features : float, optional
        As in ``acquire``, for a model that was fitted for a range.
    max_rows : int, default=1000
        Rows per request.
    """

    def __init__(
        self, model: SUWRModel, mean_features: float | None = None, max_rows: int = 1000
    ) -> None:
        self.model = model
        self.mean_features = mean_features
        self.max_rows = max_rows
        self.fitted = model.fitted_policy(mean_features=mean_features)
        self.policy = self.fitted.policy
        self.digest = self.fitted.issuer.model
        self.start = tuple(self.fitted.always_known)
        self.description = self.fitted.description
        self.codes = self.fitted.codes

    @cached_property
    def page(self) -> str:
        """The HTML page with the model and one row of typical values."""
        cells = [
            float(f"{code.center:.6g}") if code.categories is None else (*code.categories, None)[0]
            for code in self.codes.values()
        ]
        table = self.model.encoder_.parse([object_column([cell]) for cell in cells])
        explanation = self._explain_table(table, ["of typical values"])
        return page_html(explanation, title="A model, step by step")

    def pages(self, bodies: Sequence[bytes]) -> list[Any]:
        """Answer requests for the page."""
        return [self.page] * len(bodies)

    def next(self, bodies: Sequence[bytes]) -> list[Any]:
        """Answer requests for the next question: by a response, or by an exception each."""
        return self.answer_sessions(bodies, lambda body: (self.read_next(body), self.state))

    def answer_sessions(
        self, bodies: Sequence[bytes], read: Callable[[bytes], tuple[Answers, Finish]]
    ) -> list[Any]:
        """Replay the sessions of requests in one rollout.

        Parameters
        ----------
        bodies : sequence of bytes
        read : callable
            From a body to the answers, and a function from their replay to the response.

        Returns
        -------
        list
            The response to each request, or an exception.
        """
        found = [_attempt(read, body) for body in bodies]
        replays = iter(self.replay([f[0] for f in found if not isinstance(f, Exception)]))
        results: list[Any] = []
        for request in found:
            result = request if isinstance(request, Exception) else next(replays)
            if isinstance(result, Replay):
                result = _attempt(request[1], result)
            results.append(result)
        return results

    def read_next(self, body: bytes) -> Answers:
        """Read the body of a request for the next question."""
        request = read_request(NextRequest, body)
        self._check_model(request.model)
        self._check_columns(request.answers)
        given = self._read_given(request)
        twice = [name for name in given.known if name in request.answers]
        if twice:
            raise RequestError(f"{twice[0]!r} is in 'known' and in 'answers'.", twice[0])
        return Answers(request.answers, request.unasked == "drop", given)

    def _check_columns(self, values: Mapping[str, Any]) -> None:
        unknown = next((name for name in values if name not in self.codes), None)
        if unknown is not None:
            name = unknown[:MAX_SHOWN]
            raise RequestError(f"The model has no column {name!r}.", name)

    def _read_given(self, request: NextRequest) -> Given:
        """Read the limits of a request."""
        known, unavailable, limit = request.known, request.unavailable, request.max_cost
        n_units, largest = len(self.model.units_), largest_budget(self.policy.inputs)
        if len(unavailable) > n_units:
            raise RequestError(
                f"'unavailable' must have at most {n_units} entries, the number of units.",
                "unavailable",
            )
        if largest is not None and limit is not None and limit > largest:
            raise RequestError(
                f"'max_cost' must be at most {largest:g}, the largest budget that the model was "
                "fitted for.",
                "max_cost",
            )
        limit = None if limit == NO_LIMIT else limit
        other = known.keys() - set(self.start)
        if self.fitted.guarantee and (other or unavailable or limit is not None):
            raise RequestError(
                "The model is certified for one policy on whole rows: 'known' (except for columns "
                "that it always knows), 'unavailable' and 'max_cost' are not possible.",
                "known" if other else "unavailable" if unavailable else "max_cost",
            )
        try:
            return make_given(self.fitted, known, unavailable, limit)
        except InputError as error:
            raise RequestError(error.message, error.field) from None

    def state(self, replay: Replay) -> dict[str, Any]:
        """Return the next question, or the final answer."""
        state = {"model": self.digest, "done": replay.done, "dropped": list(replay.dropped)}
        if replay.start_distance is not None:
            state["start_distance"] = replay.start_distance
        narrative, stop = replay.narrative, None
        if narrative is not None:
            if replay.done:
                return state | {"answer": self.final(narrative)}
            stop = narrative.stop_probabilities[-1]
        return state | {
            "question": {
                "unit": replay.next_unit,
                "columns": [describe_column(c, self.codes[c]) for c in replay.next_columns],
                "expected_gain": replay.gain,
                "stop_probability": stop,
                "moves": None if replay.usual is None else f"Moves {replay.usual}.",
                "alternatives": list(replay.alternatives),
            },
            "prediction": None if narrative is None else self._prediction(narrative),
        }

    def replay(self, sessions: Sequence[Answers]) -> list[Replay | RequestError]:
        """Rebuild sessions from their answers, all in one rollout.

        The answers of a session are a row whose other cells are invalid. The first invalid cell
        that its rollout reveals is the next question. As in any rollout, only answers to what the
        policy asks for are read, and rows do not influence each other.
        """
        begun = [self._begin(session) for session in sessions]
        rows = [session for session in begun if isinstance(session, Answers)]
        found = iter(self._roll_out(rows) if rows else ())
        return [next(found) if isinstance(b, Answers) else b for b in begun]

    def _begin(self, session: Answers) -> Answers | Replay | RequestError:
        """Take the columns that the model always knows from the answers; ask for those without."""
        given, answers = session.given, dict(session.values)
        start = [c for c in self.start if c not in given.known and not self._is_closed(c, given)]
        if not start:
            return session
        known = {name: answers.pop(name) for name in start if name in answers}
        encoder = self.model.encoder_
        table, numbers = parse_rows(encoder, [known]), {n: encoder.names.index(n) for n in known}
        for name, number in numbers.items():
            if _is_invalid(table, 0, number):
                return self._wrong_type(name)
        lacking = tuple(name for name in start if name not in known)
        if not lacking:
            given = replace(given, known={**given.known, **known})
            return replace(session, values=answers, given=given)
        try:
            self._check_left(tuple(answers), session.drop)
        except RequestError as error:
            return error
        partial = {name: table.value(0, number) for name, number in numbers.items()}
        return Replay(None, None, lacking, partial, tuple(answers))

    def _is_closed(self, column: str, given: Given) -> bool:
        """Whether no available unit has a column."""
        units, number = self.model.units_, self.model.encoder_.names.index(column)
        having = [name for u, name in enumerate(units.names) if number in units.columns_of(u)]
        return bool(given.unavailable) and set(having) <= set(given.unavailable)

    def _roll_out(self, sessions: Sequence[Answers]) -> list[Replay | RequestError]:
        model = self.model
        table = parse_rows(model.encoder_, [{**s.values, **s.given.known} for s in sessions])
        values = self.fitted.encode(table)
        starts = self.fitted.starts_of([session.given for session in sessions])
        distances: list[int | None] = [None] * len(sessions)
        if starts is not None:
            assert starts.known is not None
            found_distances = start_distance(self.policy, values, starts.known).tolist()
            known = zip(sessions, found_distances, strict=True)
            distances = [
                int(n) if self.start or session.given.known else None for session, n in known
            ]
        trace = self.policy.rollout(values, record=True, starts=starts)
        order, found = trace.order.copy(), []
        for row, n_steps in enumerate(trace.n_steps):
            asked: tuple[list[int], list[int], list[int]] = ([], [], [])
            for step in range(n_steps):
                units = [int(u) for u in order[row, step] if u >= 0]
                columns = dict.fromkeys(int(c) for u in units for c in model.units_.columns_of(u))
                invalid = [c for c in columns if _is_invalid(table, row, c)]
                if invalid:
                    # Rollouts of cells that may be unrecorded do not end here.
                    order[row, step:] = -1
                    asked = (units, list(columns), invalid)
                    break
            found.append(asked)
        shorter = replace(trace, order=order)
        labels = ["answers"] * len(sessions)
        narratives = self.fitted.narrate(table, labels, shorter, starts)
        replays: list[Replay | RequestError] = []
        for row, (session, narrative) in enumerate(zip(sessions, narratives, strict=True)):
            try:
                replay = self._replay(table, row, session, narrative, *found[row])
                assert trace.gain is not None
                found_gain = float(trace.gain[row, len(narrative.steps)])
                gain = self.fitted.expected_gain(found_gain)
                replay = replace(replay, start_distance=distances[row], gain=gain)
                replays.append(self._with_outlook(replay, trace, row))
            except RequestError as error:
                replays.append(error)
        return replays

    def _with_outlook(self, replay: Replay, trace: Trace, row: int) -> Replay:
        """Add why the next unit is asked for, and what might be asked instead."""
        if replay.done or replay.narrative is None:
            return replay
        step = len(replay.narrative.steps)
        assert trace.alternatives is not None
        assert trace.odds is not None
        others = self.fitted.alternatives(trace.alternatives[row, step], trace.odds[row, step])
        usual = self.fitted.usual(trace.order[row, step], step + 1)
        return replace(replay, usual=usual, alternatives=tuple(others))

    def _replay(
        self, table: Table, row: int, session: Answers, narrative: Narrative, units: list[int],
        columns: list[int], invalid: list[int],
    ) -> Replay:  # fmt: skip
        names, given = self.model.encoder_.names, session.values
        wrong = [names[c] for c in invalid if names[c] in given]
        if wrong:
            raise self._wrong_type(wrong[0])
        used = {name for step in narrative.steps for name in step.columns}
        partial: dict[str, Any] = {}
        if invalid:
            narrative = replace(narrative, ended="open")
            used |= session.given.known.keys()
            new = [c for c in columns if c not in invalid and names[c] not in used]
            partial = {names[c]: table.value(row, c) for c in new}
        left = tuple(name for name in given if name not in used and name not in partial)
        self._check_left(left, session.drop)
        unit = " + ".join(self.model.units_.names[u] for u in units) if invalid else None
        return Replay(narrative, unit, tuple(names[c] for c in invalid), partial, left)

    def _check_left(self, left: Sequence[str], drop: bool) -> None:
        """Refuse answers that are left over, unless they are dropped."""
        if left and not drop:
            raise RequestError(
                f"{left[0]!r} is answered, but the model does not ask for it after the other "
                'answers. Leave it out, or pass "unasked": "drop".',
                left[0],
            )

    def _wrong_type(self, name: str) -> RequestError:
        expected = EXPECTED[self.codes[name].type]
        message = f"The value of {name!r} must be {expected}, or null if it is not available."
        return RequestError(message, name)

    def final(self, narrative: Narrative) -> dict[str, Any]:
        """Return the final answer of a narrative with all that belongs to it."""
        known = {} if narrative.given is None else narrative.given.known
        for values in (known, *(step.values for step in narrative.steps)):
            for name, value in values.items():
                _check_text(name, value)
        receipt = narrative.receipt()
        return {
            **self._prediction(narrative),
            "narrative": narrative.text(),
            "receipt": json.loads(receipt.to_json()),
            "certificate": receipt.certificate,
        }

    def predict(self, bodies: Sequence[bytes]) -> list[Any]:
        """Predict the rows of requests: a response or an exception each."""
        return self._answer_rows(bodies, "predictions", self._row_prediction)

    def explain(self, bodies: Sequence[bytes]) -> list[Any]:
        """Explain the rows of requests, with receipts: a response or an exception each."""
        return self._answer_rows(bodies, "narratives", lambda n: n.to_dict() | self.final(n))

    def _row_prediction(self, narrative: Narrative) -> dict[str, Any]:
        found = self._prediction(narrative)
        found["columns"] = [c for step in narrative.steps for c in step.columns]
        return found if narrative.given is None else found | {"known": list(narrative.given.known)}

    def describe(self) -> dict[str, Any]:
        """Return the columns, units and classes of the model."""
        model = self.model
        return {
            "model": self.digest,
            "version": suwr.__version__,
            "target": model.target_name_,
            "classes": model.target_.labels,
            "columns": [describe_column(*item) for item in self.codes.items()],
            "units": list(model.units_.names),
            "known_at_start": known_at_start(self.policy.inputs, model.encoder_.names),
            "missing": "unrecorded" if model.encoder_.unrecorded else "value",
            "max_steps": model.max_steps_,
            "certificate": self.fitted.guarantee or None,
        }

    def _answer_rows(
        self, bodies: Sequence[bytes], name: str, describe: Callable[[Narrative], Any]
    ) -> list[Any]:
        """Explain the rows of all requests together, and describe their narratives."""
        requests = [_attempt(self._read_rows, body) for body in bodies]
        valid = [rows for rows in requests if not isinstance(rows, Exception)]
        if not valid:
            return requests
        encoder = self.model.encoder_
        table = parse_rows(encoder, [row for rows in valid for row in rows])
        labels = [number for rows in valid for number in range(len(rows))]
        try:
            narratives = list(self._explain_table(table, labels))
        except TableError as error:
            # The row is named by its number in a single request, which the worker tries next.
            raise RequestError(str(error), "rows") from None
        used = [{c for step in n.steps for c in step.columns}.union(self.start) for n in narratives]
        mask = np.array([[name in columns for name in encoder.names] for columns in used])
        unusual = find_unusual(encoder, table, mask)

        def respond(part: range) -> dict[str, Any]:
            return {
                "model": self.digest,
                name: [describe(narratives[number]) for number in part],
                "unusual": [
                    {"row": int(v.row) - part.start, "column": v.column, "reason": v.reason}
                    for v in unusual
                    if int(v.row) in part
                ],
            }

        last, results = 0, list[Any]()
        for rows in requests:
            if not isinstance(rows, Exception):
                last += len(rows)
                rows = _attempt(respond, range(last - len(rows), last))
            results.append(rows)
        return results

    def _read_rows(self, body: bytes) -> list[dict[str, Any]]:
        request = read_request(RowsRequest, body)
        self._check_model(request.model)
        n_rows = len(request.rows)
        if n_rows > self.max_rows:
            message = f"'rows' must have at most {self.max_rows} objects. Got {n_rows}."
            raise RequestError(message, "rows", 413)
        return request.rows

    def _explain_table(self, table: Table, labels: Sequence[Any]) -> Explanation:
        starts = Starts.usual(self.policy.inputs, table.n_rows)
        # A warning would write values to the log.
        return self.fitted.explain(table, labels, starts=starts, warn=False)

    def _prediction(self, narrative: Narrative) -> dict[str, Any]:
        state: dict[str, Any] = {"prediction": narrative.label, "ended": narrative.ended}
        if narrative.classes is not None:
            state["classes"] = list(narrative.classes)
            state["probabilities"] = list(narrative.prediction)
        return state

    def _check_model(self, digest: str | None) -> None:
        if digest not in (None, self.digest):
            raise RequestError(
                "This is the service of another model or version: its digest is "
                f"{self.digest}. Start again without 'model'.",
                "model",
                409,
            )


def describe_column(name: str, code: ColumnCode) -> dict[str, Any]:
    """Describe the values of a column as `ColumnDescription` states them."""
    state: dict[str, Any] = {"name": name, "type": code.type, "missing_allowed": True}
    if code.categories is not None:
        others = code.type in ("text", "numeric category")
        return state | {"allowed_values": list(code.categories), "others_allowed": others}
    if code.summary is not None:
        usual = [code.summary.quantiles[1], code.summary.quantiles[-2]]
        state |= {"usual_range": usual, "whole": code.whole}
    return state


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, or the exception that it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return error


def _is_invalid(table: Table, row: int, column: int) -> bool:
    cells = table.invalid.get(column)
    return cells is not None and cells[row] is not None


def _check_text(name: str, value: Any) -> None:
    """Refuse texts that no receipt can hold."""
    try:
        check_unicode([value], name)
    except ValueError:
        raise RequestError(f"The value of {name!r} must be valid Unicode.", name) from None


# Requests that are answered together, and the size of their bodies if there are several.
MAX_BATCH, MAX_BYTES = 256, 2**16

#: From the bodies of requests to responses or exceptions.
Compute = Callable[[Sequence[bytes]], list[Any]]


class _Job(NamedTuple):
    """The body of a request, and where its response goes."""

    body: bytes
    result: asyncio.Future[Any]


class Worker:
    """Answers requests in one thread, in batches of one kind; the kinds take turns.

    Parameters
    ----------
    waiting : int
        Requests that may wait; more are refused.
    """

    def __init__(self, waiting: int) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="suwr-serve")
        self._most, self._n = waiting, 0
        self._queues: dict[Compute, deque[_Job]] = {}
        self._task: asyncio.Task[None] | None = None

    async def run(self, compute: Compute, body: bytes = b"") -> Any:
        """Return the response to a request.

        Parameters
        ----------
        compute : callable
            Answers several requests of a kind, each by a response or by an exception.
        body : bytes
            Also parsed by ``compute``, so that it does not keep others waiting.
        """
        if self._n >= self._most:
            raise RequestError("Too many requests are waiting. Try again later.", status=503)
        self._n += 1
        try:
            loop = asyncio.get_running_loop()
            job = _Job(body, loop.create_future())
            self._queues.setdefault(compute, deque()).append(job)
            if self._task is None or self._task.done():
                self._task = loop.create_task(self._work())
            return await job.result
        finally:
            self._n -= 1

    async def _work(self) -> None:
        """Answer a batch of each kind in turn, until no request is left."""
        loop = asyncio.get_running_loop()
        while self._queues:
            compute, queue = next(iter(self._queues.items()))
            del self._queues[compute]
            jobs = _next_batch(queue)
            if queue:
                self._queues[compute] = queue
            bodies = [job.body for job in jobs]
            results = await loop.run_in_executor(self._thread, _answer, compute, bodies)
            for job, result in zip(jobs, results, strict=True):
                if job.result.done():
                    continue
                if isinstance(result, Exception):
                    job.result.set_exception(result)
                else:
                    job.result.set_result(result)


def _next_batch(queue: deque[_Job]) -> list[_Job]:
    """Take jobs from a queue, without those whose clients no longer wait."""
    jobs, size = list[_Job](), 0
    while queue and len(jobs) < MAX_BATCH and (not jobs or size + len(queue[0].body) <= MAX_BYTES):
        job = queue.popleft()
        if not job.result.done():
            jobs.append(job)
            size += len(job.body)
    return jobs


def _answer(compute: Compute, bodies: Sequence[bytes]) -> list[Any]:
    """Answer each request, if necessary apart from those for which a batch fails."""
    found = _attempt(compute, bodies) if bodies else []
    if not isinstance(found, Exception):
        return found
    if len(bodies) == 1:
        return [found]
    half = len(bodies) // 2
    return _answer(compute, bodies[:half]) + _answer(compute, bodies[half:])
