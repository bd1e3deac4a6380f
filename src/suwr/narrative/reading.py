"""The JSON of receipts: its canonical form, and reading of exactly the fields of a receipt.

Canonical JSON is that of RFC 8785: sorted keys, no white space, and numbers as in JavaScript, so
that 1.0 is 1. The digest of a receipt is that of its canonical form, which databases and other
libraries that parse and write JSON preserve. Only integers beyond 2**53 have more digits here.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

from suwr.exceptions import ReceiptError
from suwr.narrative.explanation import ENDINGS, Narrative, Prediction, Step
from suwr.narrative.given import Given

# Incremented when an older suwr would misread a receipt.
FORMAT = 3
#: Largest difference of probabilities between platforms; a smaller margin is a near tie. The page
#: has the same tolerance.
TOLERANCE = 1e-5
_TEXTS = ("version", "environment", "model", "ended", "sha256")
_FACTS = ("format", "condition", "row", "given", "classes", "n_units", "start_stop_probability")
_FIELDS = frozenset([*_TEXTS, *_FACTS, "start", "steps", "near_ties", "answer", "certificate"])
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


def _read_float(text: str) -> float | int:
    """Read a number with a point or an exponent; whole ones are integers in canonical JSON."""
    number = float(text)
    if not math.isfinite(number):
        _refuse_constant(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name[:40]} is not a finite number.")


_dumps = json.JSONEncoder(ensure_ascii=False).encode
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_float=_read_float, parse_constant=_refuse_constant
)


def parse_json(text: str) -> Any:
    """Parse JSON strictly: neither NaN nor a key twice; whole numbers are integers."""
    return _DECODER.decode(text.rstrip())


def canonical_json(value: Any) -> str:
    """Return a value as canonical JSON.

    Examples
    --------
    >>> canonical_json({"b": [1.0, 1e-7, None], "a": 1e20})
    '{"a":100000000000000000000,"b":[1,1e-7,null]}'
    """
    if isinstance(value, Mapping):
        # As in JavaScript, by the units of UTF-16.
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return f"{{{','.join(f'{_dumps(name)}:{canonical_json(value[name])}' for name in names)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(canonical_json, value))}]"
    return _float_text(value) if isinstance(value, float) else _dumps(value)


def _float_text(number: float) -> str:
    """Return a number as JavaScript does: with an exponent below 1e-6 and from 1e21 on."""
    if not math.isfinite(number):
        _refuse_constant(str(number))
    mantissa, _, exponent = repr(number + 0.0).partition("e")
    if exponent and not -7 < int(exponent) < 21:
        return f"{mantissa}e{int(exponent):+d}"
    text = f"{Decimal(repr(number)):f}" if exponent else mantissa
    return text.removesuffix(".0").removeprefix("-") if number == 0 else text.removesuffix(".0")


def is_number(value: Any) -> bool:
    """Whether a value of parsed JSON is a number that a float can represent."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def read_fields(state: Any) -> dict[str, Any]:
    """Return the arguments of `suwr.Receipt` for the fields of a receipt.

    Raises
    ------
    ReceiptError
        A field is missing, unknown, of another type, or inconsistent with the others.
    """
    if type(state) is dict and type(state.get("format")) is int and state["format"] > FORMAT:
        _refuse(f"it has format {state['format']}, which requires a newer suwr.")
    _check_fields(state, _FIELDS, "the receipt")
    if type(state["format"]) is not int or state["format"] != FORMAT:
        _refuse(f"'format' must be {FORMAT}.")
    for name in _TEXTS:
        if type(state[name]) is not str:
            _refuse(f"{name!r} must be text.")
    if not (_DIGEST.fullmatch(state["model"]) and _DIGEST.fullmatch(state["sha256"])):
        _refuse("'model' and 'sha256' must be digests.")
    condition, certificate = state["condition"], state["certificate"]
    if condition is not None and not (is_number(condition) and -1 <= condition <= 1):
        _refuse("'condition' must be a number in [-1, 1] or null.")
    if certificate is not None and type(certificate) is not dict:
        _refuse("'certificate' must be an object or null.")
    narrative = _read_narrative(state)
    if canonical_json(state["answer"]) != canonical_json(narrative.label):
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
        "condition": None if condition is None else float(condition),
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
    limits = None if state["given"] is None else read_given(state["given"])
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
    if most is not None and not (is_number(most) and most >= 0):
        _refuse("'max_cost' must be a number of at least 0, or null.")
    if type(state["exactly"]) is not bool or (state["exactly"] and most is None):
        _refuse("'exactly' must be a boolean, and requires 'max_cost'.")
    costs = state.get("costs", {})
    if type(costs) is not dict or (priced and not costs):
        _refuse("'costs' must be an object.")
    if not all(is_number(cost) and cost >= 0 for cost in costs.values()):
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
        if not is_number(number):
            _refuse("a prediction must be a number.")
        if n_classes is not None and not 0 <= number <= 1 + TOLERANCE:
            _refuse("a class probability must be in [0, 1].")
    return tuple(map(float, given))


def _read_probability(given: Any) -> float:
    if not (is_number(given) and 0 <= given <= 1):
        _refuse("a stop probability must be a number in [0, 1].")
    return float(given)


def check_scalar(value: Any, name: str) -> None:
    """Refuse anything but numbers of at most 64 bits, texts and booleans."""
    if type(value) is int and not -(2**64) < value < 2**64:
        _refuse(f"{name} must have at most 64 bits.")
    if type(value) not in (int, float, str, bool):
        _refuse(f"{name} must be numbers, texts or booleans.")


def _check_fields(state: Any, names: frozenset[str], what: str) -> None:
    if type(state) is not dict:
        _refuse(f"{what} must be an object.")
    if state.keys() != names:
        missing = sorted(names - state.keys())
        unknown = sorted(str(name)[:40] for name in state.keys() - names)
        _refuse(f"{what} has missing fields {missing} and unknown fields {unknown}.")
