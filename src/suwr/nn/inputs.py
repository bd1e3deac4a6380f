"""Masked inputs ``[x ⊙ h, h]``, the only input of the networks, and their relaxation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr.data.units import Units
from suwr.nn.budgets import Budgets
from suwr.nn.costs import MaskCosts, SetupCosts

__all__ = ["MaskedInputs", "gumbel", "soft_columns", "soft_reveal"]

# Above this number of units, random masks have their size only in expectation.
MANY_UNITS = 64
# Units are small if each has at most this fraction of the columns.
SMALL_UNIT_FRACTION = 1 / 8


@dataclass(frozen=True)
class MaskedInputs:
    """Maps encoded rows and masks to network inputs, for a given set of units.

    Attributes
    ----------
    costs : Tensor of float, shape (n_units,)
    column_of : Tensor of int, shape (n_values,)
        The column of each encoded value.
    plain : bool
        Whether every column is encoded by one value, in order.
    groups : Tensor of bool, shape (n_units, n_columns), or None
        The columns of each unit; None if every unit is one column, in order.
    members : Tensor of int, shape (size of the largest unit, n_units), or None
        The columns of each unit, repeated to equal length; None unless units are small and the
        device is a CPU.
    selectable : Tensor of bool, shape (n_units,), or None
        Units that may be revealed; None is all of them.
    known : Tensor of float, shape (n_columns,), or None
        Probability that training knows each column at the start of a row; None is no column.
    known_masks : Tensor of bool, shape (n_masks, n_columns), or None
        Masks that training draws from; None if columns are known independently of one another.
    unrecorded : bool
        Whether encoded values that are NaN were not recorded. They stay hidden if revealed.
    setups : SetupCosts or None
    function : MaskCosts or None
        Costs given what was acquired before, instead of ``costs``.
    visit_cost : float
        Cost of every step that acquires a unit, besides those of its units.
    budgets : Budgets or None
        Budgets of the rows that the policy is trained for; None is no limit.
    pieces : Tensor of bool, shape (n_values,), or None
        Encoded values that are positions in bins; None if there are none.
    """

    costs: Tensor
    column_of: Tensor
    plain: bool
    groups: Tensor | None
    members: Tensor | None
    selectable: Tensor | None = None
    known: Tensor | None = None
    known_masks: Tensor | None = None
    unrecorded: bool = False
    setups: SetupCosts | None = None
    function: MaskCosts | None = None
    visit_cost: float = 0.0
    budgets: Budgets | None = None
    pieces: Tensor | None = None

    @classmethod
    def build(
        cls,
        units: Units,
        column_of: NDArray[np.intp],
        device: torch.device | str,
        selectable: NDArray[np.bool_] | None = None,
        known: NDArray[np.float64] | None = None,
        unrecorded: bool = False,
        budgets: Budgets | None = None,
        pieces: NDArray[np.bool_] | None = None,
    ) -> MaskedInputs:
        """Put units and encoding on a device."""
        allowed = None if selectable is None else torch.tensor(selectable, device=device)
        groups = None
        if not units.single:
            # The matrix may be large: share its memory.
            groups = torch.from_numpy(np.require(units.membership, requirements="W")).to(device)
        inputs = cls._of(
            groups,
            torch.tensor(units.costs, dtype=torch.float32, device=device),
            torch.tensor(column_of, dtype=torch.long, device=device),
            allowed,
        )
        setups = None if units.setups is None else SetupCosts.build(units, device)
        function = None if units.function is None else MaskCosts(units.function)
        inputs = replace(
            inputs, unrecorded=unrecorded, setups=setups, function=function,
            visit_cost=units.visit_cost, budgets=budgets,
            pieces=None if pieces is None else torch.tensor(pieces, device=device),
        )  # fmt: skip
        if known is None:
            return inputs
        chance = torch.tensor(known, dtype=torch.float32, device=device)
        if chance.dim() == 1:
            return replace(inputs, known=chance)
        return replace(inputs, known=chance.mean(dim=0), known_masks=chance > 0)

    @classmethod
    def _of(
        cls,
        groups: Tensor | None,
        costs: Tensor,
        column_of: Tensor,
        selectable: Tensor | None = None,
    ) -> MaskedInputs:
        n_columns = len(costs) if groups is None else groups.shape[1]
        return cls(
            costs,
            column_of,
            torch.equal(column_of, torch.arange(n_columns, device=costs.device)),
            groups,
            _members(groups) if groups is not None and groups.device.type == "cpu" else None,
            selectable,
        )

    def subset(self, units: Tensor, columns: Tensor, values: Tensor) -> MaskedInputs:
        """The inputs of some units, of their ``columns`` and of the encoded ``values`` of these.

        Parameters
        ----------
        units : Tensor of bool, shape (n_units,)
        columns, values : Tensor of int
            In increasing order.
        """
        position = torch.searchsorted(columns, self.column_of[values])
        groups = None if self.groups is None else self.groups[units][:, columns]
        inputs = MaskedInputs._of(groups, self.costs[units], position)
        return replace(
            inputs,
            known=None if self.known is None else self.known[columns],
            known_masks=None if self.known_masks is None else self.known_masks[:, columns],
            unrecorded=self.unrecorded,
            setups=None if self.setups is None else self.setups.subset(units, columns),
            function=None if self.function is None else self.function.subset(units, columns),
            visit_cost=self.visit_cost,
            budgets=self.budgets,
            pieces=None if self.pieces is None else self.pieces[values],
        )

    @property
    def single(self) -> bool:
        """Whether every unit is one column, in order."""
        return self.groups is None

    @property
    def membership(self) -> Tensor:
        """The columns of each unit, bool, ``(n_units, n_columns)``."""
        if self.groups is not None:
            return self.groups
        return torch.eye(self.n_units, dtype=torch.bool, device=self.device)

    @property
    def device(self) -> torch.device:
        """The device of all tensors."""
        return self.costs.device

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.costs)

    @property
    def n_columns(self) -> int:
        """Number of columns, *d*."""
        return self.n_units if self.groups is None else self.groups.shape[1]

    def reveal(self, values: Tensor, mask: Tensor) -> Tensor:
        """``[x ⊙ h, h]``. Hidden values are replaced, not multiplied by 0: NaN · 0 is NaN."""
        mask = mask & self.recorded(values) if self.unrecorded else mask
        if self.plain:
            return torch.cat([torch.where(mask, values, 0.0), mask.to(values.dtype)], dim=-1)
        # With many values per column, this is faster than indexing and `cat`.
        shown = mask.gather(-1, self.column_of.expand(*mask.shape[:-1], -1))
        inputs = values.new_empty((*mask.shape[:-1], len(self.column_of) + mask.shape[-1]))
        torch.where(shown, values, values.new_zeros(()), out=inputs[..., : len(self.column_of)])
        inputs[..., len(self.column_of) :] = mask
        return inputs

    def recorded(self, values: Tensor) -> Tensor:
        """Columns of encoded rows that are not NaN, ``(..., n_columns)``."""
        if self.plain:
            return ~values.isnan()
        # Every column has at least one value; those of one column are all NaN or none is.
        columns = torch.arange(self.n_columns, device=self.device)
        return ~values[..., torch.searchsorted(self.column_of, columns)].isnan()

    def recorded_units(self, values: Tensor) -> Tensor | None:
        """Units of which every column is recorded, ``(..., n_units)``; None is all of them."""
        if not self.unrecorded:
            return None
        recorded = self.recorded(values)
        if self.single:
            return recorded
        return (~recorded).to(torch.float32) @ self.membership.to(torch.float32).T == 0

    def first_masks(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor | None:
        """Columns that training knows at the start of rows; None if it knows none."""
        if self.known is None:
            return None
        if self.known_masks is not None:
            n, device = len(self.known_masks), generator.device
            drawn = torch.randint(n, shape, generator=generator, device=device)
            return self.known_masks[drawn.to(self.device)]
        noise = torch.rand((*shape, self.n_columns), generator=generator, device=generator.device)
        return noise.to(self.device) < self.known

    def available(self, mask: Tensor) -> Tensor:
        """Units that may be revealed and would reveal a column, ``(..., n_units)``."""
        informative = self.informative(mask)
        return informative if self.selectable is None else informative & self.selectable

    def informative(self, mask: Tensor) -> Tensor:
        """Units that would reveal a column, ``(..., n_units)``."""
        if self.single:
            return ~mask
        if self.members is not None:
            # Gathering the few columns of each unit is ten times as fast as a matrix product.
            columns = (~mask).flatten(0, -2).T.contiguous()
            hidden = columns[self.members[0]]
            for number in self.members[1:]:
                hidden |= columns[number]
            return hidden.T.contiguous().unflatten(0, mask.shape[:-1])
        hidden = (~mask).to(torch.float32)
        return hidden @ self.membership.to(torch.float32).T > 0

    def unit_costs(
        self, mask: Tensor, known: Tensor | None = None, costs: Tensor | None = None
    ) -> Tensor:
        """Cost of acquiring each unit in a state, ``(n_units,)`` or ``(..., n_units)``.

        Parameters
        ----------
        mask : Tensor of bool, shape (..., n_columns)
        known : Tensor of bool, shape (..., n_columns), optional
            Columns that were known at the start and not acquired.
        costs : Tensor of shape (..., n_units), optional
            Costs of each row, instead of those of all rows.
        """
        costs = self.costs if costs is None else costs
        if self.setups is None and self.function is None:
            return costs
        acquired = mask if known is None else mask & ~known
        if self.function is not None:
            return self.function(acquired)
        assert self.setups is not None
        return costs + self.setups.unpaid(acquired)

    def cost_of(
        self,
        units: Tensor,
        mask: Tensor,
        known: Tensor | None = None,
        costs: Tensor | None = None,
    ) -> Tensor:
        """Cost of acquiring one unit per row, ``(...)``; see `unit_costs`."""
        if self.setups is None and self.function is None and costs is None:
            return self.costs[units]
        found = self.unit_costs(mask, known, costs)
        return found.gather(-1, units.expand(mask.shape[:-1]).unsqueeze(-1))[..., 0]

    def add(self, mask: Tensor, units: Tensor) -> Tensor:
        """Masks after revealing one more unit per row."""
        if self.groups is None:
            return mask.scatter(-1, units.expand(mask.shape[:-1]).unsqueeze(-1), True)
        return mask | self.groups[units]

    def random_masks(
        self, shape: tuple[int, ...], generator: torch.Generator, most: int | None = None
    ) -> Tensor:
        """Masks of random sets of units, whose size is uniform between 0 and ``most``."""
        device = self.device
        most = self.n_units if most is None else min(most, self.n_units)
        noise = torch.rand((*shape, self.n_units), generator=generator, device=device)
        size = torch.randint(0, most + 1, (*shape, 1), generator=generator, device=device)
        if self.n_units > MANY_UNITS:
            # Sorting would take longer than training.
            chosen = noise < size / self.n_units
        else:
            # The k smallest of n random numbers are a uniform random set of size k.
            ordered = noise.sort(dim=-1).values
            ordered = torch.cat([ordered, torch.ones_like(noise[..., :1])], dim=-1)
            chosen = noise < ordered.gather(-1, size)
        if not self.single:
            chosen = chosen.to(torch.float32) @ self.membership.to(torch.float32) > 0
        return chosen if self.known is None else chosen | (self.known == 1)


def _members(membership: Tensor) -> Tensor | None:
    """The columns of each unit, if all units are small."""
    # The sum of torch would convert the whole matrix to integers.
    largest = int(membership.numpy().sum(axis=1).max())
    if largest > SMALL_UNIT_FRACTION * membership.shape[1]:
        return None
    columns = [np.resize(np.flatnonzero(row), largest) for row in membership.numpy()]
    return torch.from_numpy(np.stack(columns, axis=1))


def gumbel(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise: the arg max of logits plus noise is a sample from their softmax."""
    noise = torch.empty(shape, device=generator.device).exponential_(generator=generator)
    # In place, since memory traffic dominates a step on a GPU.
    return noise.clamp_(min=1e-20).log_().neg_()


def soft_columns(inputs: MaskedInputs, weight: Tensor) -> Tensor:
    """Weights of columns from weights of units; for weights 0 and 1, the union of the units.

    Parameters
    ----------
    inputs : MaskedInputs
    weight : Tensor of shape (..., n_units)
    """
    if inputs.single:
        return weight
    return (weight @ inputs.membership.to(weight.dtype)).clamp(max=1.0)


def soft_reveal(inputs: MaskedInputs, values: Tensor, weight: Tensor) -> Tensor:
    """``[x · w, w]``, the relaxation of `MaskedInputs.reveal`; equal to it where w is 0 or 1.

    Parameters
    ----------
    inputs : MaskedInputs
    values : Tensor of shape (..., n_values)
    weight : Tensor of shape (..., n_columns)
    """
    if inputs.unrecorded:
        weight = weight * inputs.recorded(values)
        values = values.nan_to_num(nan=0.0)
    shown = weight if inputs.plain else weight[..., inputs.column_of]
    return torch.cat([values * shown, weight], dim=-1)
