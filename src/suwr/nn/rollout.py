"""Algorithm 1 at inference: the rollout of a trained policy.

Every step goes through `suwr.nn.step`. Networks are evaluated in blocks of a fixed number of rows:
matrix products of different shapes may round differently, and a row must get the same decisions in
every batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from suwr._utils.draws import RowDraws
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, PolicyOutputs
from suwr.nn.starts import Starts, acquire_units
from suwr.nn.step import Decision, Revealed, best_units, decide, reveal_units

__all__ = [
    "BLOCK", "Decision", "Policy", "Revealed", "Trace", "best_units", "block_size",
    "confidence_parts", "decide", "reveal_units", "row_work",
]  # fmt: skip

# Rows per network evaluation at inference. Smaller blocks for CPU convolutions: same throughput,
# less padding.
BLOCK, SMALL_BLOCK = 1024, 64
# Blocks of wide networks are smaller, so that their activations take at most 64 MB.
MAX_BLOCK_VALUES = 2**24
# Blocks of large networks are smaller on a CPU, since a single row is padded to a block: a step of
# it takes milliseconds, and the throughput of many rows hardly changes.
MAX_BLOCK_WORK = 10**8


@dataclass(frozen=True)
class Trace:
    """The course of inference for every row.

    Attributes
    ----------
    mask : ndarray of bool, shape (n, d)
        The final *h*.
    order : ndarray of int, shape (n, n_steps, units_per_step)
        Units in the order in which they were revealed; -1 where nothing was revealed.
    cost : ndarray of shape (n,)
        Cost of these units.
    stop_probability : ndarray, shape (n, n_steps + 1), or None
        ζ_stop in every visited state; NaN after the row stopped.
    prediction : ndarray, shape (n, n_steps + 1, n_outputs), or None
        *f* in every visited state; NaN after the row stopped.
    margin : ndarray, shape (n, n_steps + 1), or None
        `Decision.margin` in every visited state; NaN after the row stopped.
    gain : ndarray, shape (n, n_steps + 1), or None
        `Decision.gain` in every visited state, in the units of training; NaN after the row stopped
        and after the last possible step.
    """

    mask: NDArray[np.bool_]
    order: NDArray[np.intp]
    cost: NDArray[np.float64]
    stop_probability: NDArray[np.float32] | None = None
    prediction: NDArray[np.float32] | None = None
    margin: NDArray[np.float32] | None = None
    gain: NDArray[np.float32] | None = None

    @property
    def n_steps(self) -> NDArray[np.intp]:
        """Number of steps of each row."""
        return (self.order[:, :, 0] >= 0).sum(axis=1)


def confidence_parts(probability: Tensor) -> tuple[Tensor, Tensor]:
    """The probability of the most probable class, and that of all others together.

    The others are summed, since one minus the first cancels for confident predictions.
    """
    first, place = probability.max(dim=-1)
    return first, probability.scatter(-1, place.unsqueeze(-1), 0.0).sum(dim=-1)


def block_size(architecture: Architecture, device: torch.device) -> int:
    """Return the number of rows per network evaluation, a constant of the network."""
    largest = min(BLOCK, MAX_BLOCK_VALUES // architecture.row_values)
    if device.type == "cpu":
        convolutional = architecture.image_shape is not None
        fast = MAX_BLOCK_WORK // row_work(architecture)
        largest = min(largest, fast, SMALL_BLOCK if convolutional else BLOCK)
    return max(1, largest)


def row_work(architecture: Architecture) -> int:
    """Estimate the time of a row in one step, in multiplications."""
    return architecture.n_weights + 8 * architecture.row_values


class Policy:
    """A trained SUWR model: selects, stops and predicts for encoded rows.

    Parameters
    ----------
    network : Network
    inputs : MaskedInputs
    loss : Loss
        Maps network outputs to predictions.
    max_steps : int
        *T*.
    units_per_step : int, default=1
    block : int, optional
        Rows per network evaluation. Batches of any size round alike only with the default.
    condition : float, optional
        Position of λ in its range, for a network trained for a range; see
        `suwr.training.sparsity.condition_of`.
    stop_odds : float, optional
        Stop by confidence instead of the expected gain: where the odds of all other classes against
        the predicted one are at most this. Classification only.
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
        stop_odds: float | None = None,
    ) -> None:
        self.network = network
        self.stop_odds = stop_odds
        self.block = block or block_size(network.architecture, inputs.device)
        self.condition = condition
        self.inputs = inputs
        self.loss = loss
        self.max_steps = max_steps
        self.units_per_step = units_per_step

    @property
    def device(self) -> torch.device:
        """The device of the networks."""
        return self.inputs.device

    def at(self, condition: float, block: int | None = None) -> Policy:
        """The same policy at another λ of its range, optionally with another block size."""
        return Policy(
            self.network, self.inputs, self.loss, self.max_steps, self.units_per_step,
            block or self.block, condition, self.stop_odds,
        )  # fmt: skip

    @property
    def stops_by_gain(self) -> bool:
        """Whether stopping follows from an estimate of the gain of continuing.

        Not if the policy stops by confidence, nor for the shared network, whose stop head is
        trained by REINFORCE.
        """
        return self.stop_odds is None and not self.network.architecture.shared

    def complete(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which masks ``(n, d)`` have no unit left to reveal."""
        available = self.inputs.available(torch.as_tensor(mask, device=self.device))
        return ~available.any(dim=1).cpu().numpy()

    def _in_blocks(self, evaluate: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Evaluate rows in blocks of one size; the last block is padded with zeros."""
        results = []
        for start in range(0, len(tensors[0]), self.block):
            block = [tensor[start : start + self.block] for tensor in tensors]
            n_rows = len(block[0])
            if n_rows < self.block:
                block = [F.pad(part, (0, 0, 0, self.block - n_rows)) for part in block]
            results.append(evaluate(*block)[:n_rows])
        return results[0] if len(results) == 1 else torch.cat(results)

    def _heads(
        self, seen: Tensor, condition: Tensor | None, prediction: Tensor | None
    ) -> tuple[Tensor, PolicyOutputs]:
        """`Network.decide` in blocks."""

        def joined_heads(seen: Tensor, *condition: Tensor) -> Tensor:
            stop_logit, found = self.network.decide(seen, condition[0][:, 0] if condition else None)
            return torch.cat(
                [stop_logit.unsqueeze(1), found.gain.unsqueeze(1), found.logits], dim=1
            )

        conditions = [] if condition is None else [condition.unsqueeze(1)]
        joined = self._in_blocks(joined_heads, seen, *conditions)
        return joined[:, 0], PolicyOutputs(joined[:, 1], joined[:, 2:])

    def decide(
        self,
        values: Tensor,
        mask: Tensor,
        condition: Tensor | None = None,
        starts: Starts | None = None,
        spent: Tensor | None = None,
    ) -> Decision:
        """Decide for encoded rows under their masks; see the function `decide`.

        ``condition`` ``(n,)`` overrides that of the policy. ``starts`` restricts the units, given
        the cost ``spent`` ``(n,)`` so far.
        """
        if starts is not None and condition is None:
            condition = starts.condition(self.inputs)
        if condition is None and self.condition is not None:
            condition = torch.full((len(values),), self.condition, device=self.device)
        seen = self.inputs.reveal(values, mask)
        allowed = None
        if starts is not None and spent is not None:
            allowed = starts.allowed(self.inputs, mask, spent)
        decision = decide(self._heads, self.inputs, seen, mask, condition, allowed=allowed)
        stop = decision.stop_probability
        if starts is not None and starts.spend_all:
            stop = 0.0 * stop  # NaN stays NaN
        elif self.stop_odds is not None:
            first, others = confidence_parts(self.predict(values, mask))
            stop = self.stop_odds * first / (self.stop_odds * first + others)
        stop = torch.where(decision.available.any(dim=-1), stop, 1.0)
        return replace(decision, stop_probability=stop)

    @torch.inference_mode()
    def predict(self, values: Tensor, mask: Tensor) -> Tensor:
        """*f(x ⊙ h)*: the mean prediction of the ensemble, ``(n, n_outputs)``."""

        def mean(values: Tensor, mask: Tensor) -> Tensor:
            outputs = self.network.predict(self.inputs.reveal(values, mask))
            return self.loss.predict(outputs).mean(dim=0)

        if len(values) == 0:
            return mean(values, mask)
        return self._in_blocks(mean, values, mask)

    @torch.inference_mode()
    def rollout(
        self,
        values: Tensor,
        *,
        draws: RowDraws | None = None,
        record: bool = False,
        condition: Tensor | None = None,
        starts: Starts | None = None,
    ) -> Trace:
        """Run Algorithm 1 on every row.

        Parameters
        ----------
        values : Tensor of shape (n, n_values)
            Encoded rows. A value is read only after its column was revealed.
        draws : RowDraws, optional
            Sample both decisions by the random numbers of each row. By default, take the unit of
            largest logit and stop where the stop probability is at least one half.
        record : bool, default=False
            Record stop probability, prediction, margin and gain in every visited state.
        condition : Tensor of shape (n,), optional
            Position of λ in its range for every row; overrides that of the policy.
        starts : Starts, optional
            Known columns, available units and budgets; by default, every row starts from nothing
            and may acquire every unit.
        """
        n, width = len(values), self.units_per_step
        mask = (starts or Starts()).first_masks(n, self.inputs)
        spent = torch.zeros(n, dtype=torch.float64, device=self.device)
        active = torch.arange(n, device=self.device)
        chosen, stops, predictions, margins, gains = [], [], [], [], []
        for step in range(self.max_steps + 1):
            last = step == self.max_steps
            if last and not record:
                break
            here, seen = (values, mask) if step == 0 else (values[active], mask[active])
            decision = None
            if not last:
                decision = self._decide_active(here, seen, active, condition, step, starts, spent)
            if record:
                stop = torch.ones(len(active), device=self.device)
                margin, gain = stop * torch.inf, stop * torch.nan
                if decision is not None:
                    stop, margin = decision.stop_probability, decision.margin(width)
                    gain = decision.gain
                stops.append(_spread(stop, active, n))
                margins.append(_spread(margin, active, n))
                gains.append(_spread(gain, active, n))
                # The first state without known columns is the same for every row: evaluate it once.
                first = step == 0 and n > 0 and starts is None
                found = self.predict(here[:1], seen[:1]) if first else self.predict(here, seen)
                predictions.append(_spread(found, active, n))
            if decision is None:
                break
            stop = decision.stop_probability
            if draws is None:
                going = torch.nonzero(stop < 0.5).squeeze(1)
            else:
                drawn = torch.from_numpy(draws[active.cpu().numpy()].uniform(2 * step, 1)[:, 0])
                going = torch.nonzero(drawn.to(self.device) >= stop).squeeze(1)
            if len(going) == 0:
                break
            active, noise = active[going], None
            if draws is not None:
                gumbel = draws[active.cpu().numpy()].gumbel(2 * step + 1, self.inputs.n_units)
                noise = torch.from_numpy(gumbel).to(self.device)
            units, revealed = acquire_units(
                self.inputs, decision[going], seen[going], width, noise,
                None if starts is None else starts[active], spent[active],
            )  # fmt: skip
            mask[active] = revealed.mask
            spent[active] += revealed.cost.double()
            chosen.append(_spread(units, active, n, fill=-1))
        order = torch.full((n, 0, width), -1, dtype=torch.long)
        order = torch.stack(chosen, dim=1) if chosen else order
        return Trace(
            mask.cpu().numpy(),
            order.cpu().numpy(),
            spent.cpu().numpy(),
            torch.stack(stops, dim=1).cpu().numpy() if record else None,
            torch.stack(predictions, dim=1).cpu().numpy() if record else None,
            torch.stack(margins, dim=1).cpu().numpy() if record else None,
            torch.stack(gains, dim=1).cpu().numpy() if record else None,
        )

    def _decide_active(
        self,
        values: Tensor,
        mask: Tensor,
        active: Tensor,
        condition: Tensor | None,
        step: int,
        starts: Starts | None,
        spent: Tensor,
    ) -> Decision:
        """Decide for the rows ``active`` that have not stopped."""
        if step == 0 and condition is None and starts is None:
            # The first state is the same for every row: evaluate it once.
            empty = mask.new_zeros(1, mask.shape[1])
            return self.decide(values.new_zeros(1, values.shape[1]), empty).expand(len(values))
        return self.decide(
            values, mask, None if condition is None else condition[active],
            None if starts is None else starts[active], spent[active],
        )  # fmt: skip


def _spread(part: Tensor, rows: Tensor, n: int, fill: float = float("nan")) -> Tensor:
    """Scatter the results of some rows into a tensor of all ``n`` rows."""
    whole = torch.full((n, *part.shape[1:]), fill, dtype=part.dtype, device=part.device)
    whole[rows] = part
    return whole
