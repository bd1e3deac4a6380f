"""Bodies of requests and of responses: their schemas, and JSON that no cell can break.

Errors name a field, but no value.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from suwr.data.encode import TableEncoder
from suwr.data.frame import Table
from suwr.data.parse import InvalidCell
from suwr.exceptions import TableError

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
        content = json.loads(
            body, object_pairs_hook=_object, parse_int=to_integer, parse_float=to_float,
            parse_constant=to_float,
        )  # fmt: skip
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
    columns: list[NDArray[Any]] = []
    for name in encoder.names:
        column = np.empty(len(rows), dtype=object)
        for number, row in enumerate(rows):
            column[number] = row.get(name, _ABSENT)
        columns.append(column)
    table = encoder.parse(columns)
    for cells in table.invalid.values():
        for number, cell in enumerate(cells):
            if cell is not None:
                cells[number] = _UnquotedCell(cell.row, cell.column, cell.type, cell.value)
    return table
