"""Reading of receipts: exactly the fields of a receipt, of exactly their types.

True is not 1, and 1 is not 1.0: a value has one form, so that a changed form is a changed receipt.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from suwr.exceptions import ReceiptError
from suwr.narrative.explanation import ENDINGS, Narrative, Prediction, Step
from suwr.narrative.given import Given

__all__ = [
    "FORMAT", "PLAIN_FORMAT", "TOLERANCE", "check_scalar", "parse_receipt", "read_fields",
    "read_given",
]  # fmt: skip

# Incremented when an older suwr would misread a receipt. Format 2 has the field 'given'; rows that
# start from nothing, without limits, still have receipts of format 1. Only rows with costs of their
# own have 'costs' in 'given', which an older suwr refuses.
FORMAT, PLAIN_FORMAT = 2, 1
#: Largest difference of probabilities between platforms; a smaller margin is a near tie. The page
#: has the same tolerance.
TOLERANCE = 1e-5
_FIELDS = frozenset(
    ["format", "version", "environment", "model", "condition", "row", "classes", "n_units",
     "start_stop_probability", "start", "steps", "ended", "near_ties", "answer", "certificate",
     "sha256"]
)  # fmt: skip
_GIVEN_FIELDS = frozenset(["known", "unavailable", "max_cost", "exactly"])
_STEP_FIELDS = frozenset(["reveals", "stop_probability", "prediction_before", "prediction"])
_REVEAL_FIELDS = frozenset(["unit", "columns", "values"])
_DIGEST = re.compile("[0-9a-f]{64}")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ReceiptError("it has a key twice.")
    return found


def _refuse(message: str) -> NoReturn:
    raise ReceiptError(message)


def parse_receipt(text: str) -> dict[str, Any]:
    """Return the fields of a receipt as they are in JSON; anything malformed is refused."""
    state: dict[str, Any] = _DECODER.decode(text)
    return state


def read_fields(state: Any) -> dict[str, Any]:
    """Return the arguments of `suwr.Receipt` for the fields of a receipt.

    Raises
    ------
    ReceiptError
        A field is missing, unknown, of another type, or inconsistent with the others.
    """
    if type(state) is dict and type(state.get("format")) is int and state["format"] > FORMAT:
        _refuse(f"it has format {state['format']}, which requires a newer suwr.")
    given = type(state) is dict and "given" in state
    _check_fields(state, _FIELDS | {"given"} if given else _FIELDS, "the receipt")
    if type(state["format"]) is not int or state["format"] != (FORMAT if given else PLAIN_FORMAT):
        _refuse(f"'format' must be {FORMAT} with 'given', {PLAIN_FORMAT} without.")
    for name in ("version", "environment", "model", "ended", "sha256"):
        if type(state[name]) is not str:
            _refuse(f"{name!r} must be text.")
    if not (_DIGEST.fullmatch(state["model"]) and _DIGEST.fullmatch(state["sha256"])):
        _refuse("'model' and 'sha256' must be digests.")
    condition, certificate = state["condition"], state["certificate"]
    if condition is not None and not (type(condition) is float and -1 <= condition <= 1):
        _refuse("'condition' must be a number in [-1, 1] or null.")
    if certificate is not None:
        if type(certificate) is not dict:
            _refuse("'certificate' must be an object or null.")
        _check_finite(certificate)
    narrative = _read_narrative(state)
    answer, expected = state["answer"], narrative.label
    if type(answer) is not type(expected) or answer != expected:
        _refuse("'answer' is not that of the last prediction.")
    ties, n = state["near_ties"], len(narrative.steps)
    if type(ties) is not list or not all(type(i) is int and 0 <= i <= n for i in ties):
        _refuse("'near_ties' must list numbers of steps.")
    if ties != sorted(set(ties)):
        _refuse("'near_ties' must be increasing.")
    return {
        "version": state["version"],
        "environment": state["environment"],
        "model": state["model"],
        "condition": condition,
        "narrative": narrative,
        "near_ties": tuple(ties),
        "certificate": certificate,
    }


def _read_narrative(state: dict[str, Any]) -> Narrative:
    row, classes, n_units = state["row"], state["classes"], state["n_units"]
    if type(row) is not int and type(row) is not str:
        _refuse("'row' must be an integer or text.")
    if classes is not None:
        if type(classes) is not list or len(classes) < 2:
            _refuse("'classes' must list two or more, or be null.")
        for label in classes:
            check_scalar(label, "'classes'")
        classes = tuple(classes)
    if type(n_units) is not int or n_units < 1:
        _refuse("'n_units' must be a positive integer.")
    if state["ended"] not in ENDINGS or state["ended"] == "open":
        _refuse(f"'ended' must be one of {sorted(set(ENDINGS) - {'open'})}.")
    n_classes = None if classes is None else len(classes)
    start = before = _read_prediction(state["start"], n_classes)
    if type(state["steps"]) is not list:
        _refuse("'steps' must be a list.")
    steps, used = [], set[str]()
    for found in state["steps"]:
        _check_fields(found, _STEP_FIELDS, "a step")
        if found["prediction_before"] != list(before):
            _refuse("'prediction_before' is not the previous prediction.")
        given = _read_prediction(found["prediction_before"], n_classes)
        before = _read_prediction(found["prediction"], n_classes)
        revealed = _read_reveals(found["reveals"])
        if not used.isdisjoint(revealed):
            _refuse("a unit is revealed twice.")
        used.update(revealed)
        steps.append(Step(revealed, _read_probability(found["stop_probability"]), given, before))
    if len(used) > n_units:
        _refuse("it reveals more units than there are.")
    stop = _read_probability(state["start_stop_probability"])
    limits = read_given(state["given"]) if "given" in state else None
    if limits is not None and not used.isdisjoint(limits.unavailable):
        _refuse("it reveals a unit that is not available.")
    return Narrative(row, start, stop, tuple(steps), state["ended"], classes, n_units, given=limits)


def read_given(state: Any) -> Given:
    """Return `suwr.narrative.given.Given` for its fields in JSON; anything malformed is refused."""
    priced = type(state) is dict and "costs" in state
    _check_fields(state, _GIVEN_FIELDS | {"costs"} if priced else _GIVEN_FIELDS, "'given'")
    known, unavailable = state["known"], state["unavailable"]
    if type(known) is not dict or type(unavailable) is not list:
        _refuse("'known' must be an object and 'unavailable' a list.")
    for value in known.values():
        if value is not None:
            check_scalar(value, "'known'")
    if not all(type(unit) is str for unit in unavailable):
        _refuse("'unavailable' must list texts.")
    if len(set(unavailable)) < len(unavailable):
        _refuse("'unavailable' has a unit twice.")
    most = state["max_cost"]
    if most is not None and not (type(most) is float and 0 <= most < math.inf):
        _refuse("'max_cost' must be a number of at least 0, or null.")
    if type(state["exactly"]) is not bool or (state["exactly"] and most is None):
        _refuse("'exactly' must be a boolean, and requires 'max_cost'.")
    costs = state.get("costs", {})
    if type(costs) is not dict or (priced and not costs):
        _refuse("'costs' must be an object.")
    if not all(type(cost) is float and 0 <= cost < math.inf for cost in costs.values()):
        _refuse("'costs' must be numbers of at least 0.")
    given = Given.from_dict(state)
    if not given:
        _refuse("'given' is empty.")
    return given


def _read_reveals(given: Any) -> dict[str, dict[str, Any]]:
    if type(given) is not list or not given:
        _refuse("'reveals' must list one or more units.")
    revealed: dict[str, dict[str, Any]] = {}
    for part in given:
        _check_fields(part, _REVEAL_FIELDS, "a reveal")
        unit, columns, values = part["unit"], part["columns"], part["values"]
        if type(unit) is not str or unit in revealed:
            _refuse("'unit' must be text, and unique.")
        if type(columns) is not list or type(values) is not list:
            _refuse("'columns' and 'values' must be lists.")
        if not 0 < len(columns) == len(values):
            _refuse("'columns' and 'values' must have equal lengths.")
        if not all(type(column) is str for column in columns):
            _refuse("'columns' must be texts.")
        for value in values:
            if value is not None:
                check_scalar(value, "'values'")
        revealed[unit] = dict(zip(columns, values, strict=True))
        if len(revealed[unit]) < len(columns):
            _refuse("a unit has a column twice.")
    return revealed


def _read_prediction(given: Any, n_classes: int | None) -> Prediction:
    if type(given) is not list or len(given) != (n_classes or 1):
        _refuse(f"a prediction must be a list of {n_classes or 1} number(s).")
    for number in given:
        if type(number) is not float or not math.isfinite(number):
            _refuse("a prediction must be a finite number.")
        if n_classes is not None and not 0 <= number <= 1 + TOLERANCE:
            _refuse("a class probability must be in [0, 1].")
    return tuple(given)


def _read_probability(given: Any) -> float:
    if type(given) is not float or not 0 <= given <= 1:
        _refuse("a stop probability must be a number in [0, 1].")
    return float(given)


def check_scalar(value: Any, name: str) -> None:
    """Refuse anything but finite numbers of at most 64 bits, texts and booleans."""
    kind = type(value)
    if kind is float:
        if not math.isfinite(value):
            _refuse(f"{name} must be finite.")
    elif kind is int:
        if not -(2**64) < value < 2**64:
            _refuse(f"{name} must have at most 64 bits.")
    elif kind is not str and kind is not bool:
        _refuse(f"{name} must be numbers, texts or booleans.")


def _check_finite(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        _refuse("'certificate' must be finite.")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_finite(part)


def _check_fields(state: Any, names: frozenset[str], what: str) -> None:
    if type(state) is not dict:
        _refuse(f"{what} must be an object.")
    if state.keys() != names:
        missing = sorted(names - state.keys())
        unknown = sorted(str(name)[:40] for name in state.keys() - names)
        _refuse(f"{what} has missing fields {missing} and unknown fields {unknown}.")


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name} is not a number.")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
