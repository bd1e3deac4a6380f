"""Masked inputs ``[x ⊙ h, h]``, all that networks see of a row, and further inputs of policies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from suwr.data.costs import CostFunction
from suwr.data.units import Units


@dataclass(frozen=True)
class Budgets:
    """A range of budgets, the largest cost of a row.

    The position of a budget in the range, from -1 to 1, is an input of the networks. What is left
    of the budget follows from the mask.

    Attributes
    ----------
    low, high : float
    """

    low: float
    high: float

    def at(self, uniform: Tensor, mean_cost: float) -> Tensor:
        """Budgets in the range for numbers that are uniform on [0, 1).

        The density is uniform up to the last unit, of ``mean_cost``, which ``high`` just affords:
        with unit costs, all whole budgets are equally frequent.

        Examples
        --------
        >>> Budgets(1.0, 3.0).at(torch.tensor([0.0, 0.5, 0.9]), 1.0).tolist()
        [1.0, 2.5, 3.0]
        """
        return (self.low + uniform.double() * (self.high - self.low + mean_cost)).clamp_max(
            self.high
        )

    def position(self, budget: Tensor) -> Tensor:
        """The positions of budgets; those outside of the range have the position of its end."""
        share = (budget.clamp(self.low, self.high) - self.low) / (self.high - self.low)
        return (2.0 * share - 1.0).to(torch.float32)


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
        columns = np.array([units.membership[of_unit == i].any(axis=0) for i in range(n + 1)]).T
        return cls(
            torch.tensor([*units.setups.costs, 0.0], dtype=torch.float32, device=device),
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


# Number of `uncertainty_features`.
N_UNCERTAINTY_FEATURES = 5
# Knots of `encode_position` in new models.
POSITION_KNOTS = 6


def encode_position(position: Tensor, n_knots: int) -> Tensor:
    """Encode the position of λ in its range by piecewise linear functions of it.

    Function ``i`` is 1 at the knot ``i`` of ``n_knots`` equidistant ones and 0 at all others, so
    that a network can learn what differs between parts of the range.

    Parameters
    ----------
    position : Tensor of shape (...)
        From -1 (low end) to 1 (high end).
    n_knots : int
        1 returns the position itself, as in models of version 0.1.

    Returns
    -------
    Tensor of shape (..., n_knots)

    Examples
    --------
    >>> encode_position(torch.tensor([-1.0, 0.5]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    """
    position = position.unsqueeze(-1)
    if n_knots == 1:
        return position
    knots = torch.linspace(-1.0, 1.0, n_knots, device=position.device)
    return (1.0 - (position - knots).abs() * ((n_knots - 1) / 2)).clamp_min(0.0)


def uncertainty_features(probability: Tensor, mask: Tensor) -> Tensor:
    """Features of the predictive uncertainty for the stopping policy.

    Parameters
    ----------
    probability : Tensor of shape (..., n_classes)
        Class probabilities.
    mask : Tensor of shape (..., n_columns)
        Revealed columns.

    Returns
    -------
    Tensor of shape (..., 5)
        Normalised entropy, the two largest probabilities, the logarithm of the probability of all
        classes but the first, and the fraction of revealed columns. The logarithm resolves small
        differences between confident predictions, on which stopping at a small λ depends.
    """
    entropy = -(probability * probability.clamp_min(1e-9).log()).sum(dim=-1)
    entropy = entropy / math.log(probability.shape[-1])
    top = probability.topk(2, dim=-1)
    first, second = top.values.unbind(dim=-1)
    # Sum the other classes, since 1 - first cancels catastrophically for confident predictions.
    others = probability.scatter(-1, top.indices[..., :1], 0.0).sum(dim=-1)
    left = others.clamp_min(1e-4).log() / math.log(1e-4)
    revealed = mask.mean(dim=-1, dtype=probability.dtype)
    return torch.stack([entropy, first, second, left, revealed], dim=-1)


class UncertaintyStopPolicy(nn.Module):
    """A selection network, and a small stop network over `uncertainty_features`.

    With many units, each changes the prediction little, and the remaining gain shows best in the
    prediction itself; a large network that regresses it from the units overfits.
    """

    def __init__(self, select: nn.Module, stop: nn.Module) -> None:
        super().__init__()
        self.select, self.stop = select, stop


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
    groups : Tensor of bool, shape (n_units, n_columns), or None
        The columns of each unit; None if every unit is one column, in order.
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
    groups: Tensor | None = None
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
        groups = None
        if not units.single:
            # The matrix may be large: share its memory.
            groups = torch.from_numpy(np.require(units.membership, requirements="W")).to(device)
        costs = torch.tensor(units.costs, dtype=torch.float32, device=device)
        encoded = torch.tensor(column_of, dtype=torch.long, device=device)
        chance = known_masks = None
        if known is not None:
            chance = torch.tensor(known, dtype=torch.float32, device=device)
            if chance.dim() == 2:
                chance, known_masks = chance.mean(dim=0), chance > 0
        return cls(
            costs,
            encoded,
            groups,
            selectable=None if selectable is None else torch.tensor(selectable, device=device),
            known=chance,
            known_masks=known_masks,
            unrecorded=unrecorded,
            setups=None if units.setups is None else SetupCosts.build(units, device),
            function=None if units.function is None else MaskCosts(units.function),
            visit_cost=units.visit_cost,
            budgets=budgets,
            pieces=None if pieces is None else torch.tensor(pieces, device=device),
        )

    def subset(self, units: Tensor, columns: Tensor, values: Tensor) -> MaskedInputs:
        """The inputs of some units, of their ``columns`` and of the encoded ``values`` of these.

        Parameters
        ----------
        units : Tensor of bool, shape (n_units,)
        columns, values : Tensor of int
            In increasing order.
        """
        return replace(
            self,
            costs=self.costs[units],
            column_of=torch.searchsorted(columns, self.column_of[values]),
            groups=None if self.groups is None else self.groups[units][:, columns],
            selectable=None,
            known=None if self.known is None else self.known[columns],
            known_masks=None if self.known_masks is None else self.known_masks[:, columns],
            setups=None if self.setups is None else self.setups.subset(units, columns),
            function=None if self.function is None else self.function.subset(units, columns),
            pieces=None if self.pieces is None else self.pieces[values],
        )

    @cached_property
    def plain(self) -> bool:
        """Whether every column is encoded by one value, in order."""
        return torch.equal(self.column_of, torch.arange(self.n_columns, device=self.device))

    @cached_property
    def members(self) -> Tensor | None:
        """The columns of each unit, repeated to equal length, ``(length, n_units)``.

        None unless units are small and the device is a CPU.
        """
        if self.groups is None or self.device.type != "cpu":
            return None
        # The sum of torch would convert the whole matrix to integers.
        groups = self.groups.numpy()
        largest = int(groups.sum(axis=1).max())
        if largest > SMALL_UNIT_FRACTION * self.n_columns:
            return None
        columns = [np.resize(np.flatnonzero(row), largest) for row in groups]
        return torch.from_numpy(np.stack(columns, axis=1))

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

    def reveal_all(self, values: Tensor) -> Tensor:
        """`reveal` with all columns revealed."""
        shape = (*values.shape[:-1], self.n_columns)
        return self.reveal(values, torch.ones(shape, dtype=torch.bool, device=values.device))

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
        self, units: Tensor, mask: Tensor, known: Tensor | None = None, costs: Tensor | None = None
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
        mask = self.union(chosen)
        return mask if self.known is None else mask | (self.known == 1)

    def union(self, units: Tensor) -> Tensor:
        """Masks of the columns of sets of units, bool ``(..., n_units)``."""
        if self.single:
            return units
        return units.to(torch.float32) @ self.membership.to(torch.float32) > 0


def gumbel(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise: the arg max of logits plus noise is a sample from their softmax."""
    noise = torch.empty(shape, device=generator.device).exponential_(generator=generator)
    # In place, since memory traffic dominates a step on a GPU.
    return noise.clamp_(min=1e-20).log_().neg_()


def gumbel_softmax(
    logits: Tensor,
    temperature: float | Tensor,
    generator: torch.Generator,
    shape: tuple[int, ...] | None = None,
) -> Tensor:
    """Differentiable relaxations of draws from the softmax of ``logits``.

    Their ``shape`` is that of the logits by default; the logits are broadcast to any other.
    """
    noise = gumbel(tuple(logits.shape) if shape is None else shape, generator)
    return ((logits.log_softmax(dim=-1) + noise) / temperature).softmax(dim=-1)


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
