"""Algorithm 1: the only code that reads rows in order to decide about them.

Everything a network sees here went through `MaskedInputs.reveal`. Networks are evaluated in blocks
of one fixed number of rows: matrix products of different shapes may round differently, and a row
must get the same decisions alone as in any batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Network, SeparateNetwork

__all__ = ["BLOCK", "Policy", "Trace", "best_units", "rollout_together"]

# Rows of one evaluation. Of convolutions on a CPU fewer are as fast by row, and a single image need
# not wait for a thousand empty ones.
BLOCK, SMALL_BLOCK = 1024, 64


@dataclass(frozen=True)
class Trace:
    """What happened to every row.

    Attributes
    ----------
    mask : ndarray of bool, shape (n, d)
        The final *h*.
    order : ndarray of int, shape (n, n_steps, units_per_step)
        Units in the order of their revealing; -1 where nothing was revealed.
    stop_probability : ndarray, shape (n, n_steps + 1), or None
        ζ_stop in every state that was passed; NaN after the end.
    prediction : ndarray, shape (n, n_steps + 1, n_outputs), or None
        *f* in every state that was passed; NaN after the end.
    """

    mask: NDArray[np.bool_]
    order: NDArray[np.intp]
    stop_probability: NDArray[np.float32] | None = None
    prediction: NDArray[np.float32] | None = None

    @property
    def n_steps(self) -> NDArray[np.intp]:
        """Steps that each row took."""
        return (self.order[:, :, 0] >= 0).sum(axis=1)


class Policy:
    """A trained SUWR model as a policy over rows: select, stop and predict.

    Parameters
    ----------
    network : Network
    inputs : MaskedInputs
    loss : Loss
        Turns outputs into predictions.
    max_steps : int
        *T*.
    units_per_step : int
    block : int, optional
        Rows of one network evaluation. Only the usual number gives the same rounding in every
        batch.
    condition : float, optional
        Where in its range λ lies, for a network that is told; see `suwr.training.sparsity`.
    """

    def __init__(
        self,
        network: Network,
        inputs: MaskedInputs,
        loss: Loss,
        max_steps: int,
        units_per_step: int = 1,
        block: int | None = None,
        condition: float | None = None,
    ) -> None:
        self.network = network
        slow = (
            network.architecture.image_shape is not None and inputs.membership.device.type == "cpu"
        )
        self.block = block or (SMALL_BLOCK if slow else BLOCK)
        self.condition = condition
        self.inputs = inputs
        self.loss = loss
        self.max_steps = max_steps
        self.units_per_step = units_per_step

    @property
    def device(self) -> torch.device:
        """Where the networks live."""
        return self.inputs.membership.device

    def at(self, condition: float, block: int | None = None) -> Policy:
        """The same policy at another λ of its range, perhaps in larger blocks."""
        return Policy(
            self.network, self.inputs, self.loss, self.max_steps, self.units_per_step,
            block or self.block, condition,
        )  # fmt: skip

    def _in_blocks(self, evaluate: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Evaluate rows in blocks of one shape; the last block is padded with empty rows."""
        results = []
        for start in range(0, len(tensors[0]), self.block):
            block = [tensor[start : start + self.block] for tensor in tensors]
            n_rows = len(block[0])
            if n_rows < self.block:
                block = [F.pad(part, (0, 0, 0, self.block - n_rows)) for part in block]
            results.append(evaluate(*block)[:n_rows])
        return results[0] if len(results) == 1 else torch.cat(results)

    def decide(
        self, values: Tensor, mask: Tensor, condition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """ζ_stop ``(n,)`` and the logits of ζ_select ``(n, n_units)``; -inf where nothing is new.

        A state in which everything is revealed stops for certain. ``condition`` ``(n,)`` stands for
        the policy's own.
        """
        if condition is None and self.condition is not None:
            condition = torch.full((len(values),), self.condition, device=self.device)
        told = [] if condition is None else [condition.unsqueeze(1)]

        def both(seen: Tensor, shown: Tensor, *rest: Tensor) -> Tensor:
            where = rest[0][:, 0] if rest else None
            stop, logits = self.network.decide(self.inputs.reveal(seen, shown), where)
            return torch.cat([stop.unsqueeze(1), logits], dim=1)

        joined = self._in_blocks(both, values, mask, *told)
        available = self.inputs.available(mask)
        stop = torch.sigmoid(joined[:, 0])
        stop = torch.where(available.any(dim=1), stop, 1.0)
        return stop, joined[:, 1:].masked_fill(~available, -torch.inf)

    @torch.inference_mode()
    def predict(self, values: Tensor, mask: Tensor) -> Tensor:
        """*f(x ⊙ h)*: the mean of the ensemble, ``(n, n_outputs)``."""

        def mean(seen: Tensor, shown: Tensor) -> Tensor:
            outputs = self.network.predict(self.inputs.reveal(seen, shown))
            return self.loss.predict(outputs).mean(dim=0)

        if len(values) == 0:
            return mean(values, mask)
        return self._in_blocks(mean, values, mask)

    @torch.inference_mode()
    def rollout(
        self,
        values: Tensor,
        *,
        generator: torch.Generator | None = None,
        record: bool = False,
        condition: Tensor | None = None,
    ) -> Trace:
        """Run Algorithm 1 on every row.

        Parameters
        ----------
        values : Tensor of shape (n, n_values)
            Encoded rows. A value is read only after its column was revealed.
        generator : torch.Generator on the CPU, optional
            Sample both decisions. Without it take the most probable unit, and stop where the stop
            probability is at least one half.
        record : bool, default=False
            Keep stop probabilities and predictions of every state.
        condition : Tensor of shape (n,), optional
            Another place in the range of λ for every row; the policy's own otherwise.
        """
        n, width = len(values), self.units_per_step
        mask = torch.zeros(n, self.inputs.n_columns, dtype=torch.bool, device=self.device)
        active = torch.arange(n, device=self.device)
        chosen, stops, predictions = [], [], []
        for step in range(self.max_steps + 1):
            if step == self.max_steps and not record:
                break
            here, seen = (values, mask) if step == 0 else (values[active], mask[active])
            if step == 0 and condition is None:
                # The first state is empty and the same for every row: evaluate it once.
                empty = mask.new_zeros(1, mask.shape[1])
                stop, logits = self.decide(values.new_zeros(1, values.shape[1]), empty)
                stop, logits = stop.expand(n), logits.expand(n, -1)
            elif step < self.max_steps:
                told = None if condition is None else condition[active]
                stop, logits = self.decide(here, seen, told)
            else:
                stop, logits = torch.ones(len(active), device=self.device), None
            if record:
                stops.append(_spread(stop, active, n))
                predictions.append(_spread(self.predict(here, seen), active, n))
            if logits is None:
                break
            noise = None
            if generator is not None:
                # Drawn for all rows, so that a row's draws do not depend on who has stopped.
                noise = torch.rand(n, 1 + logits.shape[1], generator=generator)
                noise = noise.to(self.device)[active]
            going = torch.nonzero(stop < 0.5 if noise is None else noise[:, 0] >= stop).squeeze(1)
            if len(going) == 0:
                break
            scores = logits[going]
            if noise is not None:
                scores = scores - torch.log(-torch.log(noise[going, 1:].clamp_min(1e-38)))
            active = active[going]
            units = best_units(scores, width)
            mask[active] = self._reveal_units(seen[going], units)
            chosen.append(_spread(units, active, n, fill=-1))
        order = (
            torch.stack(chosen, dim=1)
            if chosen
            else torch.full((n, 0, width), -1, dtype=torch.long)
        )
        return Trace(
            mask.cpu().numpy(),
            order.cpu().numpy(),
            torch.stack(stops, dim=1).cpu().numpy() if record else None,
            torch.stack(predictions, dim=1).cpu().numpy() if record else None,
        )

    def _reveal_units(self, mask: Tensor, units: Tensor) -> Tensor:
        for slot in range(units.shape[1]):
            unit = units[:, slot]
            grown = self.inputs.add(mask, unit.clamp_min(0))
            mask = torch.where((unit >= 0).unsqueeze(1), grown, mask)
        return mask


@torch.no_grad()
def rollout_together(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    values: Tensor,
    max_steps: int,
    units_per_step: int = 1,
    condition: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Greedy inference of many models at once, each on its own rows: for use during training.

    Nobody waits for the rows that have stopped, which saves a GPU the many small decisions.
    Decisions are those of `Policy`, up to rounding.

    Parameters
    ----------
    network : SeparateNetwork
        Of several models.
    inputs : MaskedInputs
    loss : Loss
    values : Tensor of shape (n_models, n, n_values)
    max_steps, units_per_step : int
    condition : Tensor of shape (n_models, n), optional
        Place in the range of λ for every row.

    Returns
    -------
    mask : Tensor of bool, shape (n_models, n, n_columns)
    cost : Tensor of shape (n_models, n)
    """
    shape = values.shape[:2]
    mask = torch.zeros(*shape, inputs.n_columns, dtype=torch.bool, device=values.device)
    cost = torch.zeros(shape, device=values.device)
    going = torch.ones(shape, dtype=torch.bool, device=values.device)
    for _ in range(max_steps):
        seen = inputs.reveal(values, mask)
        said = network.consensus(seen, loss) if network.architecture.informed else None
        gain, logits = network.heads(seen, condition, said)
        free = inputs.available(mask)
        stop = torch.sigmoid(-gain / network.temperature(condition))
        going = going & (stop < 0.5) & free.any(dim=-1)
        units = best_units(logits.masked_fill(~free, -torch.inf).flatten(0, 1), units_per_step)
        for unit in units.T.unflatten(1, shape):
            taken = going & (unit >= 0)
            grown = inputs.add(mask, unit.clamp_min(0))
            mask = torch.where(taken.unsqueeze(-1), grown, mask)
            cost = cost + torch.where(taken, inputs.costs[unit.clamp_min(0)], 0.0)
    return mask, cost


def _spread(part: Tensor, rows: Tensor, n: int, fill: float = float("nan")) -> Tensor:
    """Put the results of some rows at their places among all ``n``."""
    whole = torch.full((n, *part.shape[1:]), fill, dtype=part.dtype, device=part.device)
    whole[rows] = part
    return whole


def best_units(scores: Tensor, width: int) -> Tensor:
    """The ``width`` best units of each row, best first; -1 where fewer are left."""
    if width == 1:
        return scores.argmax(dim=1, keepdim=True)
    top = scores.topk(min(width, scores.shape[1]), dim=1)
    units = torch.where(torch.isneginf(top.values), -1, top.indices)
    return F.pad(units, (0, width - units.shape[1]), value=-1)
