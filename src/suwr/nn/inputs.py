"""x ⊙ h as tensors: what the networks are allowed to see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr.data.units import Units

__all__ = ["MaskedInputs"]

# From here on, what is exact for few units is replaced by what is fast for many.
MANY_UNITS = 64
# Units are small where so many of the largest would fit into the table.
SMALL_UNIT = 8


@dataclass(frozen=True)
class MaskedInputs:
    """Turns encoded rows and column masks into network inputs, and knows the units.

    Attributes
    ----------
    membership : Tensor of bool, shape (n_units, n_columns)
    costs : Tensor of float, shape (n_units,)
    column_of : Tensor of int, shape (n_values,)
        The column that each encoded number belongs to.
    plain : bool
        Whether encoded numbers are the columns, one for one.
    single : bool
        Whether units are the columns, one for one.
    members : Tensor of int, shape (largest unit, n_units), or None
        The columns of each unit, repeated where it has fewer; on a CPU, where units are small.
    """

    membership: Tensor
    costs: Tensor
    column_of: Tensor
    plain: bool
    single: bool
    members: Tensor | None

    @classmethod
    def build(
        cls, units: Units, column_of: NDArray[np.intp], device: torch.device | str
    ) -> MaskedInputs:
        """Put units and encoding on a device."""
        n_columns = units.membership.shape[1]
        return cls(
            torch.tensor(units.membership, device=device),
            torch.tensor(units.costs, dtype=torch.float32, device=device),
            torch.tensor(column_of, dtype=torch.long, device=device),
            bool(np.array_equal(column_of, np.arange(n_columns))),
            bool(np.array_equal(units.membership, np.eye(n_columns, dtype=bool))),
            _members(units) if torch.device(device).type == "cpu" else None,
        )

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.membership.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns, *d*."""
        return self.membership.shape[1]

    def reveal(self, values: Tensor, mask: Tensor) -> Tensor:
        """``[x ⊙ h, h]``. Hidden values are replaced, never multiplied: NaN · 0 is not 0."""
        shown = mask if self.plain else mask[..., self.column_of]
        return torch.cat([torch.where(shown, values, 0.0), mask.to(values.dtype)], dim=-1)

    def available(self, mask: Tensor) -> Tensor:
        """Units that would still reveal something, ``(n, n_units)``."""
        if self.single:
            return ~mask
        if self.members is not None:
            # Few columns, each copied whole: ten times as fast here as a product with all of them.
            columns = (~mask).flatten(0, -2).T.contiguous()
            found = columns[self.members[0]]
            for number in self.members[1:]:
                found |= columns[number]
            return found.T.contiguous().unflatten(0, mask.shape[:-1])
        hidden = (~mask).to(torch.float32)
        return hidden @ self.membership.to(torch.float32).T > 0

    def add(self, mask: Tensor, units: Tensor) -> Tensor:
        """Masks with one more unit each."""
        return mask | self.membership[units]

    def random_masks(
        self, shape: tuple[int, ...], generator: torch.Generator, most: int | None = None
    ) -> Tensor:
        """Unions of random sets of units, of every size from none to ``most``, equally often."""
        device = self.membership.device
        most = self.n_units if most is None else min(most, self.n_units)
        noise = torch.rand((*shape, self.n_units), generator=generator, device=device)
        size = torch.randint(0, most + 1, (*shape, 1), generator=generator, device=device)
        if self.n_units > MANY_UNITS:
            # Sorting would cost more than training; the size is then right on average.
            chosen = noise < size / self.n_units
        else:
            # The k smallest of n random numbers are a random set of size k.
            ordered = noise.sort(dim=-1).values
            ordered = torch.cat([ordered, torch.ones_like(noise[..., :1])], dim=-1)
            chosen = noise < ordered.gather(-1, size)
        if self.single:
            return chosen
        return chosen.to(torch.float32) @ self.membership.to(torch.float32) > 0


def _members(units: Units) -> Tensor | None:
    """The columns of each unit, where all units are small beside the table."""
    largest = int(units.membership.sum(axis=1).max())
    if SMALL_UNIT * largest > units.membership.shape[1]:
        return None
    columns = [np.resize(np.flatnonzero(row), largest) for row in units.membership]
    return torch.from_numpy(np.stack(columns, axis=1))
