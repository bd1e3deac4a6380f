"""Receipts of many rows at once: their issue, and verification by issuing them again.

The receipt that a model issues for the values in a receipt is that receipt, byte for byte, or the
receipt is not genuine on this platform. `ReceiptIssuer.reissued` therefore only has to find the
values in a text; that all else in it is right follows from the equality of the texts.
"""

from __future__ import annotations

import copy
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.data.descriptions import warn_unusual
from suwr.data.encode import ColumnCode
from suwr.data.frame import Table, plain_value, row_labels
from suwr.data.parse import INVALID
from suwr.estimators.identity import ModelIssuer
from suwr.estimators.results import join_traces
from suwr.estimators.starts import stop_reasons
from suwr.narrative.reading import check_scalar
from suwr.narrative.receipt import MAX_BYTES, ReceiptWriter, Recorded, cell_text, to_text
from suwr.nn.rollout import Policy, Trace
from suwr.nn.step import Starts

__all__ = ["ReceiptIssuer", "receipt_texts"]

# Before a unit with its columns, and before its values.
_UNIT, _VALUES = '{"unit":', ',"values":['
_CONDITION = re.compile(r'(.*"condition":)([^,]*)(,"row":)')
# Cells of a column whose parsing is remembered, and their length.
_MEMORY, _MAX_LENGTH = 2**14, 200

# Reads a cell from JSON; INVALID if it is not in the form of a receipt.
CellReader = Callable[[str], Any]


class ReceiptIssuer:
    """Issues the receipts of rows that start from nothing and have no limits.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    policy : Policy
        The policy that decides; for a model that was fitted for a range of λ, at one of them.
    """

    def __init__(self, model: Any, policy: Policy) -> None:
        self._model = model
        self._policy = policy
        self._issuer = ModelIssuer(model, policy)
        self._units = [
            (name, model.units_.columns_of(i)) for i, name in enumerate(model.units_.names)
        ]
        self._writer = self._make_writer(self._issuer)
        self._unit_of = {
            opening[len(_UNIT) : -len(_VALUES)]: unit
            for unit, opening in enumerate(self._writer.openings)
        }
        self._readers = [_cell_reader(code) for code in model.encoder_.codes]

    def _make_writer(self, issuer: ModelIssuer) -> ReceiptWriter:
        model = self._model
        return ReceiptWriter(issuer, model._class_labels(), self._units, model.encoder_.names)

    @staticmethod
    def applies_to(policy: Policy) -> bool:
        """Whether rows start from nothing by default."""
        return Starts.usual(policy.inputs, 1) is None

    # Issue.

    def issue(self, table: Table, labels: Sequence[Any]) -> Iterator[str]:
        """Yield the receipts of ``model.explain``, as JSON.

        Parameters
        ----------
        table : Table
            Only cells that the policy reveals are read.
        labels : sequence
            One label per row.
        """
        trace = self._rollout(table, self._policy)
        warn_unusual(self._model.encoder_, table, trace.mask, "explain", labels)
        recorded = self._recorded(trace, self._policy)
        cells = []
        for column in range(trace.mask.shape[1]):
            rows = np.flatnonzero(trace.mask[:, column])
            texts = map(cell_text, table.values(rows, column))
            cells.append(dict(zip(rows.tolist(), texts, strict=True)))
        for row, label in enumerate(labels):
            text = to_text(label if type(label) in (int, str) else str(label))
            yield self._writer.text(row, text, recorded, cells)

    def _rollout(self, table: Table, policy: Policy) -> Trace:
        return join_traces([t for _, t in self._model._rollouts(table, policy, record=True)])

    def _recorded(self, trace: Trace, policy: Policy) -> Recorded:
        assert trace.stop_probability is not None
        assert trace.prediction is not None
        assert trace.margin is not None
        n, states = trace.stop_probability.shape
        shown = self._model._in_user_units(trace.prediction.reshape(n * states, -1))
        return Recorded.of(
            trace.n_steps,
            trace.order,
            trace.stop_probability,
            shown.reshape(n, states, -1),
            trace.margin,
            stop_reasons(self._model, policy, trace),
        )

    # Verification.

    def reissued(self, texts: Sequence[str | bytes]) -> list[tuple[int, ...] | None]:
        """Return the near ties of every receipt that the model issues again, byte for byte.

        None for any other text: it may be a receipt of another platform, in another form or with
        known values; nothing is said about it. Hidden values are missing. A rollout reads one only
        if it differs from the receipt, whose text then differs as well.
        """
        results: list[tuple[int, ...] | None] = [None] * len(texts)
        groups: dict[float | None, list[tuple[int, str]]] = defaultdict(list)
        for position, given in enumerate(texts):
            text = _decode(given)
            found = None if text is None else self._condition_of(text)
            if text is not None and found is not None:
                groups[found[0]].append((position, text))
        for condition, members in groups.items():
            policy, writer = self._policy, self._writer
            if condition is not None and condition != policy.condition:
                policy, issuer = policy.at(condition), copy.copy(self._issuer)
                issuer.condition = condition
                writer = self._make_writer(issuer)
            claimed = [text for _, text in members]
            for (position, _), ties in zip(
                members, self._compare(claimed, policy, writer), strict=True
            ):
                results[position] = ties
        return results

    def _condition_of(self, text: str) -> tuple[float | None] | None:
        """Return the position of λ in a text; None if its head is not that of this model."""
        if text.startswith(self._writer.head):
            return (self._issuer.condition,)
        if self._issuer.condition is None:
            return None
        own, other = _CONDITION.match(self._writer.head), _CONDITION.match(text[:2000])
        if own is None or other is None or own[1] != other[1]:
            return None
        try:
            condition = float(other[2])
        except ValueError:
            return None
        return (condition,) if -1 <= condition <= 1 and repr(condition) == other[2] else None

    def _compare(
        self, texts: list[str], policy: Policy, writer: ReceiptWriter
    ) -> Iterator[tuple[int, ...] | None]:
        """Issue the receipts for the values in texts, and compare."""
        labels = [_label(text, writer) for text in texts]
        cells: list[dict[int, str]] = [{} for _ in self._readers]
        for row, text in enumerate(texts):
            if labels[row] is not None:
                self._find_cells(row, text, cells)
        table = self._table(len(texts), cells)
        recorded = self._recorded(self._rollout(table, policy), policy)
        for row, (text, label) in enumerate(zip(texts, labels, strict=True)):
            try:
                same = label is not None and text == writer.text(row, label, recorded, cells)
            except (KeyError, ValueError):
                same = False
            yield recorded.near_ties.get(row, ()) if same else None

    def _find_cells(self, row: int, text: str, cells: list[dict[int, str]]) -> None:
        """Add the values in a text; those that are not found will be missing in its receipt.

        The time is linear in the length of any text. Values that contain a bracket are not found.
        """
        for part in text.split(_UNIT)[1:]:
            opening, _, rest = part.partition(_VALUES)
            unit = self._unit_of.get(opening)
            if unit is None:
                continue
            values = rest[: rest.find("]")]
            columns = self._units[unit][1]
            if len(columns) == 1:
                cells[columns[0]][row] = values
                continue
            for column, value in zip(columns, _split(values), strict=False):
                cells[column][row] = value

    def _table(self, n_rows: int, cells: list[dict[int, str]]) -> Table:
        """Return the values as a table; those in another form are removed from ``cells``."""
        columns: list[NDArray[Any]] = []
        for code, read, found in zip(self._model.encoder_.codes, self._readers, cells, strict=True):
            number = code.categories is None
            column = np.full(n_rows, np.nan if number else None, dtype=None if number else object)
            parsed = {row: read(text) for row, text in found.items()}
            for row in [row for row, cell in parsed.items() if cell is INVALID]:
                del found[row], parsed[row]
            column[list(parsed)] = list(parsed.values())
            columns.append(column)
        return Table(columns, n_rows)


def receipt_texts(model: Any, X: Any, mean_features: float | None = None) -> Iterator[str]:
    """Yield the receipts of ``model.explain(X)``, as JSON.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    X : array-like or data frame of shape (n, d)
    mean_features : float, optional
        As in `SequentialModel.select`.
    """
    policy = model._policy_at(None, mean_features)
    if not ReceiptIssuer.applies_to(policy):
        for narrative in model.explain(X, mean_features=mean_features):
            yield narrative.receipt().to_json()
        return
    table = model._read(X)
    yield from ReceiptIssuer(model, policy).issue(table, row_labels(X, table.n_rows))


def _decode(given: str | bytes) -> str | None:
    if len(given) > MAX_BYTES:
        return None
    try:
        return (given if isinstance(given, str) else given.decode()).rstrip()
    except UnicodeDecodeError:
        return None


def _label(text: str, writer: ReceiptWriter) -> str | None:
    """Return the label of the row as JSON; None if it is not in the form of a receipt."""
    start = len(writer.head)
    label = text[start : max(start, text.find(writer.facts, start))]
    if label.isascii() and label.isdigit() and len(label) < 16:
        return label if label == "0" or label[0] != "0" else None
    try:
        row = json.loads(label)
        return label if type(row) in (int, str) and to_text(row) == label else None
    except (ValueError, RecursionError):
        return None


def _split(values: str) -> Sequence[str]:
    """Return the values of a list in JSON, each as JSON; none if it is not one."""
    if '"' not in values:
        return values.split(",")
    try:
        return [to_text(value) for value in json.loads(f"[{values}]")]
    except (ValueError, RecursionError):
        return ()


def _cell_reader(code: ColumnCode) -> CellReader:
    return _read_number if code.categories is None else partial(_read_category, code, {})


def _read_number(text: str) -> Any:
    """Read a cell of a numeric column."""
    try:
        number = float(text)
    except ValueError:
        return np.nan if text == "null" else INVALID
    if repr(number) == text and "." in text and not text.endswith(".0"):
        return number
    # Whole numbers are written as integers, and infinite ones not at all.
    return number if isfinite(number) and repr(plain_value(number)) == text else INVALID


def _read_category(code: ColumnCode, memory: dict[str, Any], text: str) -> Any:
    """Read a cell of a categorical column; ``memory`` holds texts that were read before."""
    if text in memory:
        return memory[text]
    try:
        value = json.loads(text)
        found = INVALID if to_text(value) != text else _parse(code, value)
    except (ValueError, RecursionError):
        found = INVALID
    if len(memory) < _MEMORY and len(text) <= _MAX_LENGTH:
        memory[text] = found
    return found


def _parse(code: ColumnCode, value: Any) -> Any:
    if value is None:
        return None
    check_scalar(value, "'values'")
    parsed = code.parse(value)
    shown = plain_value(parsed)
    return parsed if type(shown) is type(value) and shown == value else INVALID
