"""What acquisition sessions accept from outside: answers, known values and stored sessions.

Every error names the field, and nothing is accepted by guessing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

import suwr
from suwr._utils.text import plain_repr
from suwr._utils.validation import parameter_error
from suwr.data.costs import read_row_costs
from suwr.data.parse import EXPECTED, INVALID, describe_cell
from suwr.estimators.identity import ModelIssuer
from suwr.estimators.starts import always_known, largest_budget, read_starts
from suwr.exceptions import SessionError
from suwr.narrative.given import Given
from suwr.narrative.reading import check_scalar, parse_receipt, read_given

__all__ = [
    "StoredSession", "check_answer", "check_unit", "make_given", "read_revision", "read_session",
    "read_value", "session_json",
]  # fmt: skip

# Incremented when an older suwr would misread a session.
FORMAT = 1
MAX_BYTES = 4 * 2**20
_FIELDS = ("format", "version", "model", "condition", "given", "answers", "continued", "unused")


class StoredSession(NamedTuple):
    """The fields of a session that determine all others.

    Attributes
    ----------
    model : str
        SHA-256 digest of the model file.
    condition : float or None
        Position of λ in its range, for a model that was fitted for a range.
    given : Given
    answers : tuple of dict
        Values by column that each step observed.
    continued : tuple of int
        Numbers of steps before which a further unit was requested after the policy had stopped.
    unused : dict
        Answers from before a revision that the policy has not requested again.
    """

    model: str
    condition: float | None
    given: Given
    answers: tuple[dict[str, Any], ...]
    continued: tuple[int, ...]
    unused: dict[str, Any]


# Answers.


def read_value(model: Any, name: str, value: Any) -> Any:
    """Parse one value by the type of its column."""
    code = model.encoder_.codes[model.encoder_.names.index(name)]
    read = code.parse(value)
    if read is INVALID:
        raise ValueError(
            f"The value of {name!r} must be {EXPECTED[code.type]} or None. "
            f"Got {describe_cell(value)} instead."
        )
    if isinstance(read, float) and read.is_integer() and abs(read) < 2**53:
        return int(read)
    return read


def check_answer(
    model: Any, values: Any, requested: Sequence[str], known: Mapping[str, Any]
) -> None:
    """Raise a ``ValueError`` unless there is a value for every requested column and no other.

    Parameters
    ----------
    model : SequentialModel
    values : mapping
        Values by column.
    requested : sequence of str
    known : mapping
        Values that are known already.
    """
    expected = f"'values' must have exactly the columns {list(requested)}."
    if not isinstance(values, Mapping):
        raise ValueError(f"{expected} Got {plain_repr(values)} instead.")
    for name in values:
        if name in requested:
            continue
        reason = f"{plain_repr(name)} is not requested"
        if name not in model.encoder_.names:
            reason = f"the model has no column {plain_repr(name)}"
        elif name in known:
            reason = f"{name!r} has a value already, which revise() can change"
        raise ValueError(f"{expected} Got {plain_repr(list(values))} instead: {reason}.")
    if len(values) < len(requested):
        raise ValueError(f"{expected} Got {list(values)} instead.")


def read_revision(model: Any, values: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return new values of columns that have one, parsed."""
    if not isinstance(values, Mapping) or not values:
        raise ValueError(
            "'values' must be a mapping of columns to their new values. "
            f"Got {plain_repr(values)} instead."
        )
    for name in values:
        _check_column(model, name)
        if name not in known:
            raise ValueError(f"{name!r} has no value yet that could be revised.")
    return {name: read_value(model, name, value) for name, value in values.items()}


def check_unit(model: Any, unit: Any) -> None:
    """Raise a ``ValueError`` if the model has no such unit."""
    if not isinstance(unit, str) or unit not in model.units_.names:
        raise ValueError(f"The model has no unit {plain_repr(unit)}.")


def _check_column(model: Any, name: Any) -> None:
    if name not in model.encoder_.names:
        raise ValueError(f"The model has no column {plain_repr(name)}.")


def make_given(
    model: Any,
    known: Mapping[str, Any] | None = None,
    unavailable: Sequence[str] = (),
    max_cost: float | None = None,
    exactly: float | None = None,
    costs: Any = None,
) -> Given:
    """Validate the arguments of ``acquire``."""
    if known is not None and not isinstance(known, Mapping):
        expected = "a mapping of columns to their values"
        raise parameter_error("known", "acquire", expected, known)
    for name in known or ():
        _check_column(model, name)
    names = always_known(model)
    if known is None and names:
        raise ValueError(
            f"The 'known' parameter of acquire must have the values of {names}, which the model "
            "was trained to know at the start. Pass {} to start from nothing."
        )
    if isinstance(unavailable, str):
        raise parameter_error("unavailable", "acquire", "a list of units", unavailable)
    for unit in unavailable:
        check_unit(model, unit)
        columns = model.units_.columns_of(model.units_.names.index(unit))
        if all(model.encoder_.names[c] in (known or {}) for c in columns):
            raise ValueError(f"{unit!r} is known: it cannot be unavailable.")
    for name, value in (("max_cost", max_cost), ("exactly", exactly)):
        if value is not None and not isinstance(value, Real):
            raise parameter_error(name, "acquire", "a number of at least 0", value)
    # The same checks as for tables. A certified model may start as it always does.
    usual = set(known or ()) == set(names)
    flags = np.isin(model.encoder_.names, list(known)) if known and not usual else None
    prices = _read_costs(model, costs)
    read_starts(model, "acquire", 1, flags, None, max_cost, exactly, prices)
    limit = max_cost if exactly is None else exactly
    limit = largest_budget(model) if limit is None else limit
    return Given(
        {name: read_value(model, name, value) for name, value in (known or {}).items()},
        tuple(dict.fromkeys(unavailable)),
        None if limit is None or np.isinf(limit) else float(limit),
        exactly is not None,
        None if prices is None else dict(zip(model.units_.names, prices.tolist(), strict=True)),
    )


def _read_costs(model: Any, costs: Any) -> NDArray[np.float64] | None:
    """Return the costs of the units of one row; None without any."""
    if costs is None:
        return None
    units = model.units_
    if isinstance(costs, Mapping):
        for unit in costs:
            check_unit(model, unit)
        usual = dict(zip(units.names, units.costs.tolist(), strict=True))
        costs = list({**usual, **costs}.values())
    return read_row_costs(costs, units.names, 1, "acquire")[0]


# Stored sessions.


def session_json(session: StoredSession) -> str:
    """Return a session as JSON."""
    state = {
        "format": FORMAT,
        "version": suwr.__version__,
        **session._asdict(),
        "given": session.given.to_dict() if session.given else None,
    }
    return json.dumps(state, ensure_ascii=False, allow_nan=False)


def read_session(text: str | bytes, model: Any) -> StoredSession:
    """Read the fields of a session; anything but exactly its fields is refused.

    The answers are only checked for their types. Replaying the session validates them.

    Raises
    ------
    SessionError
    """
    if not isinstance(text, str | bytes):
        raise SessionError(f"A session must be JSON. Got {type(text).__name__} instead.")
    if len(text) > MAX_BYTES:
        raise SessionError(f"The session has more than {MAX_BYTES:,} bytes.")
    try:
        state = parse_receipt(text if isinstance(text, str) else text.decode())
        stored = _read_fields(state)
        found = ModelIssuer(model, model.policy_).model
        if stored.model != found:
            _refuse(
                f"it is of the model {stored.model[:12]}…, not of {found[:12]}…, by the digests of "
                "their files."
            )
        if (stored.condition is None) != (model.policy_.condition is None):
            _refuse("'condition' is not that of the model.")
        given = stored.given
        checked = make_given(
            model, given.known, given.unavailable,
            None if given.exactly else given.max_cost, given.max_cost if given.exactly else None,
            given.costs,
        )  # fmt: skip
        for name in stored.unused:
            _check_column(model, name)
        unused = {name: read_value(model, name, value) for name, value in stored.unused.items()}
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply." if isinstance(error, RecursionError) else error
        raise SessionError(f"The session is invalid: {reason}"[:400]) from None
    return stored._replace(given=checked, unused=unused)


def _refuse(message: str) -> NoReturn:
    raise SessionError(message)


def _read_fields(state: Any) -> StoredSession:
    if type(state) is dict and type(state.get("format")) is int and state["format"] > FORMAT:
        _refuse(f"it has format {state['format']}, which requires a newer suwr.")
    if type(state) is not dict or state.keys() != set(_FIELDS):
        _refuse(f"it must have exactly the fields {', '.join(_FIELDS)}.")
    if type(state["format"]) is not int or state["format"] != FORMAT:
        _refuse(f"'format' must be {FORMAT}.")
    for name in ("version", "model"):
        if type(state[name]) is not str:
            _refuse(f"{name!r} must be text.")
    condition, answers, continued = state["condition"], state["answers"], state["continued"]
    if condition is not None and not (type(condition) is float and -1 <= condition <= 1):
        _refuse("'condition' must be a number in [-1, 1] or null.")
    if type(answers) is not list or not all(type(answer) is dict for answer in answers):
        _refuse("'answers' must list objects.")
    if type(state["unused"]) is not dict:
        _refuse("'unused' must be an object.")
    for values in (*answers, state["unused"]):
        for name, value in values.items():
            if value is not None:
                check_scalar(value, f"the value of {name[:40]!r}")
    n = len(answers)
    if type(continued) is not list or not all(type(i) is int and 0 <= i <= n for i in continued):
        _refuse("'continued' must list numbers of steps.")
    given = Given() if state["given"] is None else read_given(state["given"])
    return StoredSession(
        state["model"], condition, given, tuple(answers), tuple(continued), state["unused"]
    )
