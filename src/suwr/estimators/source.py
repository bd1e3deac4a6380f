"""What the page of an explanation is told by the model that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suwr.data.tables import Table
from suwr.data.units import Patches
from suwr.estimators.export import export_model
from suwr.nn.rollout import Policy
from suwr.report.source import Layout, PageModel

if TYPE_CHECKING:
    from suwr.estimators.sequential import SequentialModel

__all__ = ["ModelSource"]


class ModelSource:
    """A fitted model, the table it explained and the policy it did so by.

    See `suwr.report.Source`.
    """

    def __init__(self, model: SequentialModel, table: Table, policy: Policy) -> None:
        self._model = model
        self._table = table
        self._policy = policy

    def layout(self) -> Layout:
        """Columns and units."""
        units, groups = self._model.units_, self._model.groups
        return Layout(
            list(self._model.encoder_.names),
            [(name, units.columns_of(i).tolist()) for i, name in enumerate(units.names)],
            groups.shape if isinstance(groups, Patches) else None,
        )

    def values(self, row: int) -> list[Any]:
        """Every cell of a row."""
        return [self._table.value(row, c) for c in range(len(self._table.columns))]

    def model(self) -> PageModel:
        """The model as data."""
        return export_model(self._model, self._policy)

    def take(self, rows: slice) -> ModelSource:
        """The source of some of the rows."""
        return ModelSource(self._model, self._table.take(rows), self._policy)
