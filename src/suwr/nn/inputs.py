"""Masked inputs ``[x ⊙ h, h]``, the only input of the networks, and their relaxation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr.data.units import Units

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
    membership : Tensor of bool, shape (n_units, n_columns)
    costs : Tensor of float, shape (n_units,)
    column_of : Tensor of int, shape (n_values,)
        The column of each encoded value.
    plain : bool
        Whether every column is encoded by one value, in order.
    single : bool
        Whether every unit is one column, in order.
    members : Tensor of int, shape (size of the largest unit, n_units), or None
        The columns of each unit, repeated to equal length; None unless units are small and the
        device is a CPU.
    selectable : Tensor of bool, shape (n_units,), or None
        Units that may be revealed; None is all of them.
    """

    membership: Tensor
    costs: Tensor
    column_of: Tensor
    plain: bool
    single: bool
    members: Tensor | None
    selectable: Tensor | None = None

    @classmethod
    def build(
        cls,
        units: Units,
        column_of: NDArray[np.intp],
        device: torch.device | str,
        selectable: NDArray[np.bool_] | None = None,
    ) -> MaskedInputs:
        """Put units and encoding on a device."""
        allowed = None if selectable is None else torch.tensor(selectable, device=device)
        return cls._of(
            torch.tensor(units.membership, device=device),
            torch.tensor(units.costs, dtype=torch.float32, device=device),
            torch.tensor(column_of, dtype=torch.long, device=device),
            allowed,
        )

    @classmethod
    def _of(
        cls, membership: Tensor, costs: Tensor, column_of: Tensor, selectable: Tensor | None = None
    ) -> MaskedInputs:
        n_columns = membership.shape[1]
        columns = torch.arange(n_columns, device=membership.device)
        single = torch.eye(n_columns, dtype=torch.bool, device=membership.device)
        return cls(
            membership,
            costs,
            column_of,
            torch.equal(column_of, columns),
            torch.equal(membership, single),
            _members(membership) if membership.device.type == "cpu" else None,
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
        return MaskedInputs._of(self.membership[units][:, columns], self.costs[units], position)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.membership.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns, *d*."""
        return self.membership.shape[1]

    def reveal(self, values: Tensor, mask: Tensor) -> Tensor:
        """``[x ⊙ h, h]``. Hidden values are replaced, not multiplied by 0: NaN · 0 is NaN."""
        shown = mask if self.plain else mask[..., self.column_of]
        return torch.cat([torch.where(shown, values, 0.0), mask.to(values.dtype)], dim=-1)

    def available(self, mask: Tensor) -> Tensor:
        """Units that may be revealed and would reveal a column, ``(..., n_units)``."""
        informative = self._informative(mask)
        return informative if self.selectable is None else informative & self.selectable

    def _informative(self, mask: Tensor) -> Tensor:
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

    def add(self, mask: Tensor, units: Tensor) -> Tensor:
        """Masks after revealing one more unit per row."""
        return mask | self.membership[units]

    def random_masks(
        self, shape: tuple[int, ...], generator: torch.Generator, most: int | None = None
    ) -> Tensor:
        """Masks of random sets of units, whose size is uniform between 0 and ``most``."""
        device = self.membership.device
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
        if self.single:
            return chosen
        return chosen.to(torch.float32) @ self.membership.to(torch.float32) > 0


def _members(membership: Tensor) -> Tensor | None:
    """The columns of each unit, if all units are small."""
    largest = int(membership.sum(dim=1).max())
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
    shown = weight if inputs.plain else weight[..., inputs.column_of]
    return torch.cat([values * shown, weight], dim=-1)
