"""Costs of units that depend on what was acquired before, on the device of the networks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from suwr.data.costs import CostFunction
from suwr.data.units import Units

__all__ = ["MaskCosts", "SetupCosts"]


@dataclass(frozen=True)
class SetupCosts:
    """Set-up costs on a device; see `suwr.data.costs.Setups`.

    Attributes
    ----------
    costs : Tensor of float, shape (n_setups + 1,)
        The last one, which is 0, is that of units without a set-up.
    of_unit : Tensor of int, shape (n_units,)
    columns : Tensor of float, shape (n_columns, n_setups + 1)
        1 for the columns of the units that need each set-up.
    """

    costs: Tensor
    of_unit: Tensor
    columns: Tensor

    @classmethod
    def build(cls, units: Units, device: torch.device | str) -> SetupCosts:
        """Put the set-up costs of units on a device."""
        assert units.setups is not None
        n = len(units.setups.costs)
        of_unit = np.where(units.setups.of_unit < 0, n, units.setups.of_unit)
        columns = np.stack(
            [units.membership[of_unit == i].any(axis=0) for i in range(n + 1)], axis=1
        )
        costs = torch.tensor([*units.setups.costs, 0.0], dtype=torch.float32, device=device)
        return cls(
            costs,
            torch.tensor(of_unit, dtype=torch.long, device=device),
            torch.tensor(columns, dtype=torch.float32, device=device),
        )

    def subset(self, units: Tensor, columns: Tensor) -> SetupCosts:
        """The set-up costs of some units and their columns."""
        return SetupCosts(self.costs, self.of_unit[units], self.columns[columns])

    def unpaid(self, acquired: Tensor) -> Tensor:
        """What each unit costs in addition, given the acquired columns, ``(..., n_units)``."""
        paid = acquired.to(torch.float32) @ self.columns > 0
        return torch.where(paid, 0.0, self.costs)[..., self.of_unit]


@dataclass(frozen=True)
class MaskCosts:
    """A cost function on a device; see `suwr.data.costs.CostFunction`.

    Attributes
    ----------
    function : CostFunction
        Of all units and columns.
    units, columns : Tensor of int, or None
        Those of the masks, in increasing order; None is all of them.
    """

    function: CostFunction
    units: Tensor | None = None
    columns: Tensor | None = None

    def subset(self, units: Tensor, columns: Tensor) -> MaskCosts:
        """The costs of some units and their columns; no other column is ever acquired."""
        assert self.units is None
        return replace(self, units=torch.nonzero(units)[:, 0], columns=columns)

    def __call__(self, acquired: Tensor) -> Tensor:
        """Costs given the acquired columns, ``(..., n_units)``."""
        rows = acquired.reshape(-1, acquired.shape[-1])
        if self.columns is not None:
            full = rows.new_zeros(len(rows), self.function.n_columns)
            full[:, self.columns] = rows
            rows = full
        # Most masks of a batch occur several times.
        masks, place = np.unique(rows.cpu().numpy(), axis=0, return_inverse=True)
        costs = torch.from_numpy(self.function(masks)[place.reshape(-1)])
        costs = costs.to(acquired.device, torch.float32)
        costs = costs if self.units is None else costs[:, self.units]
        return costs.reshape(*acquired.shape[:-1], costs.shape[-1])
