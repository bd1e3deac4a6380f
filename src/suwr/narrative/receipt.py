"""Receipts: JSON documents from which every decision of a prediction can be replayed.

A receipt holds the revealed values, the decisions and the predictions of one row, the digest of the
model file, and nothing about any other value. `suwr.verify` replays it with the model. Its
principal reasons are the steps that moved the prediction toward the answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from string import Formatter
from typing import Any, Protocol

import suwr
from suwr._utils.text import percent, printable
from suwr._utils.validation import check_integer, parameter_error
from suwr.data.descriptions import NO_DESCRIPTION
from suwr.exceptions import ReceiptError
from suwr.narrative.explanation import Narrative, Step
from suwr.narrative.reading import FORMAT, TOLERANCE, canonical_json, parse_json, read_fields

# A receipt of 32 steps and 1,000 classes has 1.5 MB.
MAX_BYTES = 4 * 2**20


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
    >>> bool(receipt.answer == clf.predict(X[:1])[0])
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
        return _digest(_fields(self))

    def reasons(
        self, n: int = 4, template: str | None = None, *, against: bool = False
    ) -> tuple[Reason, ...]:
        """Return the steps that moved the prediction most toward the answer, largest effect first.

        Parameters
        ----------
        n : int, default=4
            Largest number of reasons.
        template : str, optional
            Format of `Reason.text`, with the fields ``{features}``, ``{facts}``, ``{answer}``,
            ``{effect}``, ``{before}``, ``{after}`` and ``{number}``.
        against : bool, default=False
            Whether to return the steps that moved the prediction away from the answer instead.

        Returns
        -------
        tuple of Reason
            Steps that moved the prediction away from the answer are not reasons for it.
        """
        return principal_reasons(self.narrative, n, template, against=against)

    def to_json(self) -> str:
        """Return the receipt as canonical JSON, in one line."""
        fields = _fields(self)
        return canonical_json({**fields, "sha256": _digest(fields)})

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Receipt:
        """Read a receipt that a JSON library has parsed, as `from_json` does."""
        try:
            text = json.dumps(state)
        except (TypeError, ValueError, RecursionError) as error:
            raise ReceiptError(f"The receipt is invalid: it is not JSON: {error}"[:300]) from None
        return cls.from_json(text)

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """Read a receipt; anything but exactly its fields is refused.

        The order of keys, white space and the form of numbers are of no importance: databases
        change them.

        Raises
        ------
        ReceiptError
        """
        if len(text) > MAX_BYTES:
            raise ReceiptError(f"The receipt has more than {MAX_BYTES:,} bytes.")
        try:
            state = parse_json(text if isinstance(text, str) else text.decode())
            receipt = cls(**read_fields(state))
            if _digest({k: v for k, v in state.items() if k != "sha256"}) != state["sha256"]:
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
        raise ValueError(
            "A receipt requires policy='greedy': sampled decisions cannot be replayed."
        )
    if narrative.ended == "open":
        raise ValueError("A receipt requires a finished narrative. This session is still open.")
    if any(stop >= 0.5 for stop in narrative.stop_probabilities[:-1]):
        raise ValueError("A receipt cannot be replayed if units were requested after the stop.")
    issuer = origin.issuer
    row = narrative.row if type(narrative.row) in (int, str) else str(narrative.row)
    return Receipt(
        suwr.__version__,
        issuer.environment,
        issuer.model,
        issuer.condition,
        replace(narrative, row=row, origin=None),
        tuple(i for i, margin in enumerate(origin.margins) if margin < TOLERANCE),
        # A certificate is for whole rows that start from nothing.
        issuer.certificate if narrative.given is None else None,
    )


def _fields(receipt: Receipt) -> dict[str, Any]:
    """Return all fields but the digest, as JSON types."""
    narrative = receipt.narrative
    return {
        "format": FORMAT,
        "version": receipt.version,
        "environment": receipt.environment,
        "model": receipt.model,
        "condition": receipt.condition,
        "row": narrative.row,
        "given": None if narrative.given is None else narrative.given.to_dict(),
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


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(fields).encode()).hexdigest()


_CLASS_TEMPLATE = "{facts} (probability of {answer}: {before} → {after})"
_VALUE_TEMPLATE = "{facts} (prediction: {before} → {after})"
_FIELDS = ("features", "facts", "answer", "effect", "before", "after", "number")


@dataclass(frozen=True)
class Reason:
    """One principal reason.

    Attributes
    ----------
    step : int
        Number of the step, from 1.
    units : tuple of str
        The units that the step revealed.
    values : dict
        Their values by column.
    effect : float
        Change of the probability of the answer, or of the predicted value, by this step.
    text : str
        The reason in words.

    Examples
    --------
    >>> from suwr.narrative.explanation import Narrative, Step
    >>> from suwr.narrative.receipt import principal_reasons
    >>> debt = Step({"debt": {"debt": 0.6}}, 0.2, (0.7, 0.3), (0.3, 0.7))
    >>> age = Step({"age": {"age": 50}}, 0.3, (0.3, 0.7), (0.4, 0.6))
    >>> late = Step({"late": {"late": 3}}, 0.9, (0.4, 0.6), (0.1, 0.9))
    >>> steps = (debt, age, late)
    >>> narrative = Narrative(0, (0.7, 0.3), 0.1, steps, "decision", ("paid", "default"), 9)
    >>> for reason in principal_reasons(narrative):
    ...     print(reason.text)
    debt is 0.6 (probability of default: 30 % → 70 %)
    late is 3 (probability of default: 60 % → 90 %)
    """

    step: int
    units: tuple[str, ...]
    values: dict[str, Any]
    effect: float
    text: str


def principal_reasons(
    narrative: Narrative, n: int = 4, template: str | None = None, *, against: bool = False
) -> tuple[Reason, ...]:
    """Return the steps that moved the prediction most toward the answer, largest effect first.

    Parameters
    ----------
    narrative : Narrative
    n : int, default=4
        Largest number of reasons.
    template : str, optional
        Format of `Reason.text`; see `suwr.Receipt.reasons`.
    against : bool, default=False
        Whether to return the steps that moved the prediction away from the answer instead.

    Returns
    -------
    tuple of Reason
        Fewer than ``n`` if fewer steps moved the prediction in this direction. Steps of equal
        effect are in the order in which they were revealed.
    """
    check_integer(n, "n", "reasons", 1)
    classes = narrative.classes
    default = _VALUE_TEMPLATE if classes is None else _CLASS_TEMPLATE
    template = default if template is None else _check_template(template)
    place = 0 if classes is None else classes.index(narrative.label)
    toward = 1.0
    if classes is None and narrative.prediction[0] < narrative.start[0]:
        toward = -1.0
    toward = -toward if against else toward
    steps = [
        (step.prediction[place] - step.prediction_before[place], number, step)
        for number, step in enumerate(narrative.steps, start=1)
    ]
    ranked = sorted(
        (entry for entry in steps if toward * entry[0] > 0),
        key=lambda entry: (-toward * entry[0], entry[1]),
    )
    reasons = []
    for rank, (effect, number, step) in enumerate(ranked[:n], start=1):
        pair = (step.prediction_before[place], step.prediction[place])
        before, after = (f"{p:.4g}" if classes is None else percent(p) for p in pair)
        text = template.format(
            features=", ".join(printable(unit) for unit in step.units),
            facts=NO_DESCRIPTION.revealed_text(step.revealed),
            answer=f"{narrative.label:.4g}" if classes is None else printable(narrative.label),
            effect=f"{effect:+.4g}" if classes is None else f"{100 * effect:+.0f} points",
            before=before,
            after=after,
            number=rank,
        )
        reasons.append(Reason(number, step.units, step.values, effect, text))
    return tuple(reasons)


def _check_template(template: Any) -> str:
    """Accept the fields by name, and nothing that reads their attributes."""
    expected = f"a text with the fields {', '.join('{' + name + '}' for name in _FIELDS)}"
    try:
        fields = [(name, spec) for _, name, spec, _ in Formatter().parse(template)]
    except (TypeError, ValueError):
        raise parameter_error("template", "reasons", expected, template) from None
    if any(name is not None and (name not in _FIELDS or spec) for name, spec in fields):
        raise parameter_error("template", "reasons", expected, template)
    return str(template)
