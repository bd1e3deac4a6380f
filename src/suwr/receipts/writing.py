"""Writing of many receipts at once, from arrays of their numbers.

`ReceiptWriter` gives the texts of `Receipt.to_json`, byte for byte, without the objects behind
them: files of a million receipts are written by it, and verified by comparison with its texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

import suwr
from suwr.receipts.reading import PLAIN_FORMAT, TOLERANCE
from suwr.receipts.receipt import Issuer, signed

__all__ = ["ReceiptWriter", "Recorded", "cell_text", "to_text"]


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
