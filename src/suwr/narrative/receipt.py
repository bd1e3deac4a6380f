"""Receipts: JSON documents from which every decision of a prediction can be replayed.

A receipt holds the revealed values, the decisions and the predictions of one row, the digest of the
model file, and nothing about any other value. `suwr.verify` replays it with the model.

`ReceiptWriter` gives the texts of `Receipt.to_json`, byte for byte, without the objects behind
them: files of a million receipts are written by it, and verified by comparison with its texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import suwr
from suwr.exceptions import ReceiptError
from suwr.narrative.explanation import Narrative, Step
from suwr.narrative.reading import FORMAT, PLAIN_FORMAT, TOLERANCE, parse_receipt, read_fields
from suwr.narrative.reasons import Reason, principal_reasons

__all__ = [
    "MAX_BYTES", "Issuer", "Origin", "Receipt", "ReceiptWriter", "Recorded", "cell_text",
    "make_receipt", "signed", "to_text",
]  # fmt: skip

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
        return signed(_body(self))

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
            decoded = (text if isinstance(text, str) else text.decode()).rstrip()
            state = parse_receipt(decoded)
            receipt = cls(**read_fields(state))
            # An unchanged text need not be written again.
            end = f',"sha256":"{state["sha256"]}"}}'
            unchanged = decoded.endswith(end) and (
                _digest(decoded[: -len(end)] + "}") == state["sha256"]
            )
            if not unchanged and receipt.sha256 != state["sha256"]:
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
        suwr.__version__, issuer.environment, issuer.model, issuer.condition,
        replace(narrative, row=row, origin=None),
        tuple(i for i, margin in enumerate(origin.margins) if margin < TOLERANCE),
        # A certificate is for whole rows that start from nothing.
        issuer.certificate if narrative.given is None else None,
    )  # fmt: skip


# Writing.


def _body(receipt: Receipt) -> str:
    """Return the JSON of all fields but the digest, in a fixed order."""
    narrative = receipt.narrative
    given = {} if narrative.given is None else {"given": narrative.given.to_dict()}
    state = {
        "format": FORMAT if given else PLAIN_FORMAT,
        "version": receipt.version,
        "environment": receipt.environment,
        "model": receipt.model,
        "condition": receipt.condition,
        "row": narrative.row,
        **given,
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


def signed(body: str) -> str:
    """Return the JSON of a receipt, given that of all fields but the digest."""
    return f'{body[:-1]},"sha256":"{_digest(body)}"}}'


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def cell_text(value: Any) -> str:
    """Return the value of a cell as JSON; as `to_text`, but faster for numbers."""
    kind = type(value)
    return repr(value) if kind is int or (kind is float and isfinite(value)) else to_text(value)


def to_text(value: Any) -> str:
    """Return a value as JSON, in the form that receipts have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True)
class Recorded:
    """The numbers of recorded rollouts that start from nothing, as lists over all rows.

    Attributes
    ----------
    n_steps : list of int
        Number of steps of each row.
    first : list of int
        Place of the first state of each row in the lists of states. Its first step is that many
        places, less the number of rows before it, into the list of steps.
    units : list of list of int
        Units of each step; -1 where there are fewer.
    stops : list of float
        Stop probability in each state.
    predictions : list of float
        The numbers of the prediction in each state, on the scale of the target.
    width : int
        Numbers per prediction.
    endings : list of str
        As in `suwr.Narrative`, of each row.
    near_ties : dict of tuple of int
        As in `suwr.Receipt`, of rows that have any.
    infinite : frozenset of int
        Rows that have no receipt, since one of their numbers is not finite.
    """

    n_steps: list[int]
    first: list[int]
    units: list[list[int]]
    stops: list[float]
    predictions: list[float]
    width: int
    endings: list[str]
    near_ties: dict[int, tuple[int, ...]]
    infinite: frozenset[int]

    @classmethod
    def of(
        cls,
        n_steps: NDArray[np.intp],
        order: NDArray[np.intp],
        stops: NDArray[np.floating],
        predictions: NDArray[np.float64],
        margins: NDArray[np.floating],
        endings: list[str],
    ) -> Recorded:
        """Convert arrays over rows and steps or states; see `suwr.nn.rollout.Trace`."""
        visited = np.arange(stops.shape[1]) <= n_steps[:, None]
        finite = np.isfinite(stops) & np.isfinite(predictions).all(axis=2)
        near = visited & (margins < TOLERANCE)
        return cls(
            n_steps.tolist(),
            (np.cumsum(n_steps + 1) - n_steps - 1).tolist(),
            order[np.arange(order.shape[1]) < n_steps[:, None]].tolist(),
            stops[visited].astype(np.float64).tolist(),
            predictions[visited].ravel().tolist(),
            predictions.shape[2],
            endings,
            {int(i): tuple(np.flatnonzero(near[i]).tolist()) for i in np.flatnonzero(near.any(1))},
            frozenset(np.flatnonzero((visited & ~finite).any(axis=1)).tolist()),
        )


class ReceiptWriter:
    """Writes receipts of one policy, for rows that start from nothing and have no limits.

    Parameters
    ----------
    issuer : Issuer
    classes : tuple or None
        Class labels; None for regression.
    units : sequence of (str, sequence of int)
        Name and columns of each unit.
    columns : sequence of str
        Names of the columns.
    """

    def __init__(
        self,
        issuer: Issuer,
        classes: tuple[Any, ...] | None,
        units: Sequence[tuple[str, Sequence[int]]],
        columns: Sequence[str],
    ) -> None:
        state = {
            "format": PLAIN_FORMAT,
            "version": suwr.__version__,
            "environment": issuer.environment,
            "model": issuer.model,
            "condition": issuer.condition,
        }
        #: The text before the label of the row.
        self.head = to_text(state)[:-1] + ',"row":'
        #: The text from the label of the row to the first number.
        self.facts = f',"classes":{to_text(classes)},"n_units":{len(units)}'
        self.facts += ',"start_stop_probability":'
        self._end = f',"certificate":{to_text(issuer.certificate)}}}'
        self._labels = None if classes is None else [to_text(label) for label in classes]
        #: The text of a reveal before its values, by unit.
        self.openings = [
            f'{{"unit":{to_text(name)},"columns":{to_text([columns[c] for c in numbers])}'
            ',"values":['
            for name, numbers in units
        ]
        self._units = [
            (opening, int(numbers[0]) if len(numbers) == 1 else [int(c) for c in numbers])
            for opening, (_, numbers) in zip(self.openings, units, strict=True)
        ]

    def text(
        self, row: int, label: str, recorded: Recorded, cells: Sequence[Mapping[int, str]]
    ) -> str:
        """Return the receipt of a row.

        Parameters
        ----------
        row : int
            Number of the row in ``recorded`` and ``cells``.
        label : str
            The label of the row, as JSON.
        recorded : Recorded
        cells : sequence of dict
            For each column, the values of its revealed cells by row, as JSON.

        Raises
        ------
        KeyError
            A revealed cell is not in ``cells``.
        ValueError
            A number is not finite.
        """
        if row in recorded.infinite:
            raise ValueError("A receipt cannot contain a number that is not finite.")
        first, n_steps = recorded.first[row], recorded.n_steps[row]
        stops = recorded.stops[first : first + n_steps + 1]
        width, numbers = recorded.width, recorded.predictions
        places = range(first * width, (first + n_steps + 1) * width, width)
        units = recorded.units[first - row : first - row + n_steps]
        # The JSON of a list of floats is its representation without spaces.
        shown = [repr(numbers[i : i + width]).replace(" ", "") for i in places]
        steps = [
            f'{{"reveals":[{self._reveals(units[step], row, cells)}],"stop_probability":'
            f'{stops[step + 1]!r},"prediction_before":{shown[step]},"prediction":'
            f"{shown[step + 1]}}}"
            for step in range(n_steps)
        ]
        last, ties = numbers[places[-1] : places[-1] + width], recorded.near_ties.get(row)
        answer = repr(last[0]) if self._labels is None else self._labels[last.index(max(last))]
        return signed(
            f'{self.head}{label}{self.facts}{stops[0]!r},"start":{shown[0]},"steps":['
            f'{",".join(steps)}],"ended":"{recorded.endings[row]}","near_ties":'
            f'{to_text(ties) if ties else "[]"},"answer":{answer}{self._end}'
        )

    def _reveals(self, units: list[int], row: int, cells: Sequence[Mapping[int, str]]) -> str:
        if len(units) == 1:
            opening, columns = self._units[units[0]]
            if isinstance(columns, int):
                return f"{opening}{cells[columns][row]}]}}"
        found = []
        for opening, columns in (self._units[unit] for unit in units if unit >= 0):
            numbers = [columns] if isinstance(columns, int) else columns
            found.append(f"{opening}{','.join([cells[c][row] for c in numbers])}]}}")
        return ",".join(found)
