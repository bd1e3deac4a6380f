"""The steps of sampled rollouts, and the states that they visit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from suwr.training.data import group_by_fold, to_folds

__all__ = ["SampledSteps", "VisitedStates"]


@dataclass
class SampledSteps:
    """One step of the rows of a batch, ``(n_models, n)``; or several, joined along the rows."""

    row: Tensor  # position in the batch
    active: Tensor  # whether the row had not stopped
    before: Tensor  # state before the step
    available: Tensor  # units before the step
    stop: Tensor  # ζ_stop before the step
    units: Tensor  # revealed in the step
    exploration: Tensor  # their probability under the exploration distribution
    mask: Tensor  # state after the step
    cost: Tensor  # of the revealed units, multiplied by λ

    @classmethod
    def join(cls, steps: list[SampledSteps]) -> SampledSteps:
        """Concatenate the rows of all steps."""
        parts = zip(*(vars(s).values() for s in steps), strict=True)
        return cls(*(torch.cat(part, dim=1) for part in parts))

    def __getitem__(self, index: Tensor) -> SampledSteps:
        """Some of the rows."""
        return SampledSteps(*(part[:, index] for part in vars(self).values()))


@dataclass
class VisitedStates:
    """All states visited by a batch, grouped by fold ``(2 · n_models, m)``."""

    position: Tensor  # of the row within its fold
    step: Tensor  # number of steps taken
    mask: Tensor
    active: Tensor

    @classmethod
    def of(cls, steps: list[SampledSteps], fold_size: int) -> VisitedStates:
        """Group the states after all steps by the fold of their row."""
        if steps[-1].row.shape[1] < 2 * fold_size:
            # Stopped rows were removed from the batch of a single model.
            row = torch.cat([s.row[0] for s in steps])
            number = torch.cat([torch.full_like(s.row[0], t + 1) for t, s in enumerate(steps)])
            index, valid = group_by_fold(row, fold_size)
            mask = torch.cat([s.mask[0] for s in steps])[index]
            active = torch.cat([s.active[0] for s in steps])[index] & valid
            return cls(row[index] % fold_size, number[index], mask, active)
        mask, active = (
            torch.cat([to_folds(x) for x in part], dim=1)
            for part in ([s.mask for s in steps], [s.active for s in steps])
        )
        device = mask.device
        position = torch.arange(fold_size, device=device).repeat(len(steps)).expand(active.shape)
        number = torch.arange(1, len(steps) + 1, device=device).repeat_interleave(fold_size)
        return cls(position, number.expand(active.shape), mask, active)
