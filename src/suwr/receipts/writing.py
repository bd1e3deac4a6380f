"""Writing of many receipts at once, from arrays of their numbers.

`ReceiptWriter` gives the texts of `Receipt.to_json`, byte for byte, without the objects behind
them: files of a million receipts are written by it, and verified by comparison with its texts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import suwr
from suwr.receipts.reading import PLAIN_FORMAT, TOLERANCE
from suwr.receipts.receipt import Issuer, signed

__all__ = ["ReceiptWriter", "Recorded", "to_text"]


def to_text(value: Any) -> str:
    """Return a value as JSON, in the form that receipts have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True)
class Recorded:
    """The numbers of recorded rollouts that start from nothing, as lists over rows.

    Attributes
    ----------
    order : list
        Units of each step and row; -1 where no unit was revealed.
    stops, margins : list
        Stop probability and margin in every state of each row; see `suwr.nn.rollout.Trace`.
    predictions : list
        Prediction in every state of each row, on the scale of the target.
    endings : list of str
        As in `suwr.Narrative`.
    """

    order: list[list[list[int]]]
    stops: list[list[float]]
    margins: list[list[float]]
    predictions: list[list[list[float]]]
    endings: list[str]

    def n_steps(self, row: int) -> int:
        """Number of steps of a row."""
        n_steps = 0
        for units in self.order[row]:
            if units[0] < 0:
                break
            n_steps += 1
        return n_steps

    def near_ties(self, row: int, n_steps: int) -> tuple[int, ...]:
        """Decisions of a row within rounding of another one; see `suwr.Receipt`."""
        margins = self.margins[row][: n_steps + 1]
        return tuple(i for i, margin in enumerate(margins) if margin < TOLERANCE)


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
        stops, predictions = recorded.stops[row], recorded.predictions[row]
        n_steps, width = recorded.n_steps(row), len(predictions[0])
        before = _numbers(predictions[0], width)
        parts = [
            self.head, label, self.facts, _number(stops[0]), ',"start":', before, ',"steps":[',
        ]  # fmt: skip
        for step in range(n_steps):
            after = _numbers(predictions[step + 1], width)
            parts += (
                '{"reveals":[' if step == 0 else ',{"reveals":[',
                self._reveals(recorded.order[row][step], row, cells),
                '],"stop_probability":',
                _number(stops[step + 1]),
                ',"prediction_before":',
                before,
                ',"prediction":',
                after,
                "}",
            )
            before = after
        last, ties = predictions[n_steps], recorded.near_ties(row, n_steps)
        answer = _number(last[0]) if self._labels is None else self._labels[last.index(max(last))]
        parts += (
            '],"ended":"',
            recorded.endings[row],
            '","near_ties":',
            to_text(ties) if ties else "[]",
            ',"answer":',
            answer,
            self._end,
        )
        return signed("".join(parts))

    def _reveals(self, units: list[int], row: int, cells: Sequence[Mapping[int, str]]) -> str:
        found = []
        for unit in units:
            if unit < 0:
                continue
            opening, columns = self._units[unit]
            if isinstance(columns, int):
                found.append(f"{opening}{cells[columns][row]}]}}")
            else:
                found.append(f"{opening}{','.join([cells[c][row] for c in columns])}]}}")
        return found[0] if len(found) == 1 else ",".join(found)


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError("A receipt cannot contain a number that is not finite.")
    return repr(value)


def _numbers(values: list[float], width: int) -> str:
    if width == 2:
        first, second = values
        return f"[{_number(first)},{_number(second)}]"
    return f"[{','.join([_number(value) for value in values])}]"
