"""Receipts: JSON documents from which every decision of a prediction can be replayed.

A receipt holds the revealed values, the decisions and the predictions of one row, the digest of the
model file, and nothing about any other value. `suwr.verify` replays it with the model.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol

import suwr
from suwr.exceptions import ReceiptError
from suwr.explanation import ENDINGS, Narrative, Prediction, Step
from suwr.reasons import Reason, principal_reasons

__all__ = ["FORMAT", "MAX_BYTES", "TOLERANCE", "Issuer", "Origin", "Receipt", "make_receipt"]

# Incremented when an older suwr would misread a receipt.
FORMAT = 1
# A receipt of 32 steps and 1,000 classes has 1.5 MB.
MAX_BYTES = 4 * 2**20
#: Largest difference of probabilities between platforms; a smaller margin is a near tie. The page
#: has the same tolerance.
TOLERANCE = 1e-5
_FIELDS = [
    "format", "version", "environment", "model", "condition", "row", "classes", "n_units",
    "start_stop_probability", "start", "steps", "ended", "near_ties", "answer", "certificate",
    "sha256",
]  # fmt: skip
_STEP_FIELDS = ["reveals", "stop_probability", "prediction_before", "prediction"]
_REVEAL_FIELDS = ["unit", "columns", "values"]


class Issuer(Protocol):
    """The model behind a narrative, as far as its receipts are concerned.

    Attributes
    ----------
    model : str
        SHA-256 digest of the model file.
    environment : str
        Platform, libraries and device, which determine the rounding of numbers.
    condition : float or None
        Position of λ in its range, for a model that was fitted for a range.
    certificate : dict or None
    """

    @property
    def model(self) -> str: ...
    @property
    def environment(self) -> str: ...
    @property
    def condition(self) -> float | None: ...
    @property
    def certificate(self) -> dict[str, Any] | None: ...


@dataclass(frozen=True)
class Origin:
    """What a narrative remembers for its receipt.

    Attributes
    ----------
    issuer : Issuer
    margins : tuple of float
        Distance from the nearest other decision, before the first step and after each step.
    sampled : bool
        Whether decisions were drawn at random.
    """

    issuer: Issuer
    margins: tuple[float, ...]
    sampled: bool = False


@dataclass(frozen=True)
class Receipt:
    """What a prediction used and how it was decided; `Narrative.receipt` creates it.

    Attributes
    ----------
    version : str
        Version of suwr.
    environment : str
        Platform, libraries and device. In the same environment, a replay gives the same bits.
    model : str
        SHA-256 digest of the model file.
    condition : float or None
        Position of λ in its range, for a model that was fitted for a range.
    narrative : Narrative
        The revealed values in order, with stop probabilities and predictions.
    near_ties : tuple of int
        Numbers of steps after which a decision was within rounding of another one; 0 is the
        decision before the first step.
    certificate : dict or None
        The certificate of the model, if it has one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import Receipt, SUWRClassifier, verify
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> text = clf.explain(X[:1])[0].receipt().to_json()
    >>> receipt = Receipt.from_json(text)
    >>> receipt.answer == clf.predict(X[:1])[0]
    True
    >>> print(verify(receipt, clf))
    verified
    """

    version: str
    environment: str
    model: str
    condition: float | None
    narrative: Narrative
    near_ties: tuple[int, ...]
    certificate: dict[str, Any] | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the narrative."""
        return self.narrative.steps

    @property
    def answer(self) -> Any:
        """The predicted class or value."""
        return self.narrative.label

    @property
    def sha256(self) -> str:
        """Digest of all other fields. It detects accidental changes and identifies the receipt."""
        return _digest(_body(self))

    def reasons(self, n: int = 4, template: str | None = None) -> tuple[Reason, ...]:
        """Return the steps that moved the prediction most toward the answer, largest effect first.

        Parameters
        ----------
        n : int, default=4
            Largest number of reasons.
        template : str, optional
            Format of `Reason.text`, with the fields ``{features}``, ``{facts}``, ``{answer}``,
            ``{effect}``, ``{before}``, ``{after}`` and ``{number}``.

        Returns
        -------
        tuple of Reason
            Steps that moved the prediction away from the answer are not reasons for it.
        """
        return principal_reasons(self.narrative, n, template)

    def to_json(self) -> str:
        """Return the receipt as one line of JSON."""
        body = _body(self)
        return f'{body[:-1]},"sha256":"{_digest(body)}"}}'

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """Read a receipt; anything but exactly its fields is refused.

        Raises
        ------
        ReceiptError
        """
        if len(text) > MAX_BYTES:
            raise ReceiptError(f"The receipt has more than {MAX_BYTES:,} bytes.")
        try:
            decoded = text if isinstance(text, str) else text.decode()
            state = json.loads(
                decoded, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
            )
            receipt = _read(state)
            # An unchanged text need not be written again.
            body, end = decoded.rstrip()[:-77], f',"sha256":"{state["sha256"]}"}}'
            written = decoded.rstrip().endswith(end) and _digest(body + "}") == state["sha256"]
            if not written and receipt.sha256 != state["sha256"]:
                raise ReceiptError("it was altered: its digest does not match its content.")
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply." if isinstance(error, RecursionError) else error
            raise ReceiptError(f"The receipt is invalid: {reason}"[:300]) from None
        return receipt


def make_receipt(narrative: Narrative) -> Receipt:
    """Return the receipt of a narrative; see `Narrative.receipt`."""
    origin: Origin | None = narrative.origin
    if origin is None:
        raise ValueError(
            "A receipt requires a narrative made by a model. This one was read from a file."
        )
    if origin.sampled:
        raise ValueError("A receipt requires policy='greedy': sampled decisions cannot be replayed.")
    if narrative.ended == "open":
        raise ValueError("A receipt requires a finished narrative. This session is still open.")
    if any(stop >= 0.5 for stop in narrative.stop_probabilities[:-1]):
        raise ValueError("A receipt cannot be replayed if units were requested after the stop.")
    issuer = origin.issuer
    return Receipt(
        suwr.__version__, issuer.environment, issuer.model, issuer.condition,
        replace(narrative, origin=None),
        tuple(i for i, margin in enumerate(origin.margins) if margin < TOLERANCE),
        issuer.certificate,
    )  # fmt: skip


# Writing.


def _body(receipt: Receipt) -> str:
    """Return the JSON of all fields but the digest, in a fixed order."""
    narrative = receipt.narrative
    state = {
        "format": FORMAT,
        "version": receipt.version,
        "environment": receipt.environment,
        "model": receipt.model,
        "condition": receipt.condition,
        "row": narrative.row,
        "classes": narrative.classes,
        "n_units": narrative.n_units,
        "start_stop_probability": narrative.start_stop_probability,
        "start": narrative.start,
        "steps": [
            {
                "reveals": [
                    {"unit": unit, "columns": list(values), "values": list(values.values())}
                    for unit, values in step.revealed.items()
                ],
                "stop_probability": step.stop_probability,
                "prediction_before": step.prediction_before,
                "prediction": step.prediction,
            }
            for step in narrative.steps
        ],
        "ended": narrative.ended,
        "near_ties": receipt.near_ties,
        "answer": receipt.answer,
        "certificate": receipt.certificate,
    }
    return json.dumps(state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# Reading. Types are compared exactly: True is not 1, and 1 is not 1.0.


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ReceiptError("it has a key twice.")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ReceiptError(f"{name} is not a number.")


def _read(state: Any) -> Receipt:
    if type(state) is dict and type(state.get("format")) is int and state["format"] > FORMAT:
        raise ReceiptError(f"it has format {state['format']}, which requires a newer suwr.")
    _check_fields(state, _FIELDS, "the receipt")
    _expect(state["format"] == FORMAT and type(state["format"]) is int, "'format' must be 1.")
    for name in ("version", "environment", "model", "ended", "sha256"):
        _expect(type(state[name]) is str, f"{name!r} must be text.")
    for name in ("model", "sha256"):
        found = state[name]
        _expect(len(found) == 64 and set(found) <= set("0123456789abcdef"), f"{name!r} is no digest.")
    condition, certificate = state["condition"], state["certificate"]
    if condition is not None:
        _expect(type(condition) is float and -1 <= condition <= 1, "'condition' is not in [-1, 1].")
    _expect(certificate is None or type(certificate) is dict, "'certificate' must be an object.")
    _check_finite(certificate)
    narrative = _read_narrative(state)
    _expect(_same(state["answer"], narrative.label), "'answer' is not that of the last prediction.")
    ties, n = state["near_ties"], len(narrative.steps)
    _expect(
        type(ties) is list and all(type(i) is int and 0 <= i <= n for i in ties)
        and ties == sorted(set(ties)),
        "'near_ties' must list numbers of steps.",
    )  # fmt: skip
    return Receipt(
        state["version"], state["environment"], state["model"], condition, narrative, tuple(ties),
        certificate,
    )  # fmt: skip


def _read_narrative(state: dict[str, Any]) -> Narrative:
    row, classes, n_units = state["row"], state["classes"], state["n_units"]
    _expect(type(row) in (int, str), "'row' must be a number or text.")
    if classes is not None:
        _expect(type(classes) is list and len(classes) >= 2, "'classes' must list two or more.")
        for label in classes:
            _check_scalar(label, "'classes'")
        classes = tuple(classes)
    _expect(type(n_units) is int and n_units > 0, "'n_units' must be a positive integer.")
    _expect(state["ended"] in ENDINGS and state["ended"] != "open", "'ended' is unknown.")
    width = 1 if classes is None else len(classes)
    start = before = _read_prediction(state["start"], width, classes is not None)
    _expect(type(state["steps"]) is list, "'steps' must be a list.")
    steps, used = [], set[str]()
    for found in state["steps"]:
        _check_fields(found, _STEP_FIELDS, "a step")
        given = _read_prediction(found["prediction_before"], width, classes is not None)
        _expect(given == before, "'prediction_before' is not the previous prediction.")
        before = _read_prediction(found["prediction"], width, classes is not None)
        revealed = _read_reveals(found["reveals"])
        _expect(used.isdisjoint(revealed), "a unit is revealed twice.")
        used.update(revealed)
        steps.append(Step(revealed, _read_probability(found["stop_probability"]), given, before))
    _expect(len(used) <= n_units, "it reveals more units than there are.")
    stop = _read_probability(state["start_stop_probability"])
    return Narrative(row, start, stop, tuple(steps), state["ended"], classes, n_units)


def _read_reveals(given: Any) -> dict[str, dict[str, Any]]:
    _expect(type(given) is list and len(given) > 0, "'reveals' must list one or more units.")
    revealed: dict[str, dict[str, Any]] = {}
    for part in given:
        _check_fields(part, _REVEAL_FIELDS, "a reveal")
        unit, columns, values = part["unit"], part["columns"], part["values"]
        _expect(type(unit) is str and unit not in revealed, "'unit' must be text, and unique.")
        _expect(type(columns) is list and type(values) is list, "columns and values must be lists.")
        _expect(all(type(c) is str for c in columns), "'columns' must be texts.")
        _expect(0 < len(columns) == len(values), "columns and values must have equal lengths.")
        for value in values:
            if value is not None:
                _check_scalar(value, "'values'")
        revealed[unit] = dict(zip(columns, values, strict=True))
        _expect(len(revealed[unit]) == len(columns), "a unit has a column twice.")
    return revealed


def _read_prediction(given: Any, width: int, probabilities: bool) -> Prediction:
    _expect(type(given) is list and len(given) == width, f"a prediction must have {width} numbers.")
    for number in given:
        _expect(type(number) is float and math.isfinite(number), "a prediction must be finite.")
        _expect(not probabilities or 0 <= number <= 1 + TOLERANCE, "a probability is not in [0, 1].")
    return tuple(given)


def _read_probability(given: Any) -> float:
    _expect(type(given) is float and 0 <= given <= 1, "a stop probability is not in [0, 1].")
    return float(given)


def _check_scalar(value: Any, name: str) -> None:
    kind = type(value)
    _expect(kind in (bool, int, float, str), f"{name} must be scalars.")
    if kind is float:
        _expect(math.isfinite(value), f"{name} must be finite.")
    elif kind is int:
        _expect(-(2**64) < value < 2**64, f"{name} must have at most 64 bits.")


def _check_finite(value: Any) -> None:
    if isinstance(value, float):
        _expect(math.isfinite(value), "'certificate' must be finite.")
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_finite(part)


def _check_fields(state: Any, names: Sequence[str], what: str) -> None:
    _expect(type(state) is dict, f"{what} must be an object.")
    if len(state) != len(names) or any(name not in state for name in names):
        missing = [name for name in names if name not in state]
        unknown = [str(name)[:40] for name in state if name not in names]
        raise ReceiptError(f"{what} has missing fields {missing} and unknown fields {unknown}.")


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise ReceiptError(message)
