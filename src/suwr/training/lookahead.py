"""Look-ahead training: a differentiable choice of the next unit, for many units.

A sampled actor cannot explore hundreds of units. Here the choice of the next unit is relaxed with
Gumbel-softmax, and the loss after it, plus λ times its cost, is differentiated through the
cross-fitted predictor. The selection is therefore greedy; the stopping policy is not: as in
`suwr.training.actor`, the gain of continuing is regressed on the cost of the rest of the rollout,
for classification from the uncertainty of the predictors
(`suwr.nn.inputs.UncertaintyStopPolicy`).

A batch is first rolled out for *T* steps without gradients, storing for each column the step that
revealed it. Then one state per row is reconstructed and trained on in each update, so that the
memory is that of a single step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from suwr.nn.inputs import gumbel, soft_columns, soft_reveal
from suwr.nn.step import decide, reveal_units
from suwr.training.data import Rows
from suwr.training.loop import State, cosine_decay, set_rate
from suwr.training.predictor import fold_loss, joint_rate
from suwr.training.trainer import PolicyPhase, PolicyTrainer, relaxation_temperature

__all__ = ["CapturedFunction", "LookaheadPhase", "LookaheadTrainer"]

# Calls before a function is captured, in which optimizers allocate state and libraries workspace.
WARM_UP_CALLS = 3
# Step t of a rollout is sampled with density ∝ t^(1/EARLY_STATES − 1).
EARLY_STATES = 2.0
# Updates per rollout of a batch, which takes as long as several of them.
UPDATES_PER_ROLLOUT = 8
# Weight of the regression of the gain in the objective.
GAIN_WEIGHT = 0.02


class CapturedFunction:
    """A function of tensors that is captured as a CUDA graph and then replayed.

    A training step consists of thousands of small kernels, which take longer to launch than to run.
    The function must execute the same kernels in every call, read no changing Python state, change
    tensors only in place, and return nothing. All calls need arguments of the same shapes.

    Parameters
    ----------
    function : callable
    generator : torch.Generator
        The generator that the function draws from, besides the default one.
    """

    def __init__(self, function: Callable[..., None], generator: torch.Generator) -> None:
        self.function, self.generator = function, generator
        self.stream = torch.cuda.Stream(generator.device)
        self.calls = 0
        self.graph = torch.cuda.CUDAGraph()
        self.arguments: list[Tensor] = []

    def __call__(self, *arguments: Tensor) -> None:
        """Call the function, or replay it."""
        self.calls += 1
        if self.calls <= WARM_UP_CALLS:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.function(*arguments)
            torch.cuda.current_stream().wait_stream(self.stream)
            return
        if not self.arguments:
            self.arguments = [argument.clone() for argument in arguments]
            self.graph.register_generator_state(self.generator)
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.function(*self.arguments)
        for static, argument in zip(self.arguments, arguments, strict=True):
            static.copy_(argument)
        self.graph.replay()


@dataclass
class _Rollout:
    """The rollout of a batch, ``(n, …)``, whose rows are in the order of the folds."""

    revealed_at: Tensor  # step that revealed each column; *T* where none did
    gain: Tensor  # regression target of the gain in each of the *T* states
    prediction: Tensor  # cross-fitted prediction in each state, (n, T, n_outputs)
    weight: Tensor  # λ


class LookaheadPhase(PolicyPhase):
    """Train the selection head by a relaxed step, the stop head by whole rollouts."""

    name = "look-ahead"
    updates_per_batch = UPDATES_PER_ROLLOUT

    def prepare(self) -> State:
        """See `PolicyPhase`."""
        device = self.folds.rows.device
        self.temperature = torch.ones((), device=device)  # of the Gumbel-softmax
        capture = device.type == "cuda" and self.network.predictor.process_group is None
        # A cost function is evaluated on the host.
        capture = capture and self.inputs.function is None
        self._train = CapturedFunction(self.train, self.folds.generator) if capture else self.train
        return {}

    def train_batches(self, index: Tensor, progress: float) -> None:
        """See `PolicyPhase`."""
        settings = self.settings
        rate = joint_rate(self.network.predictor, settings)
        set_rate(self.predictor_optimizer, rate * cosine_decay(progress, floor=0.1))
        self.temperature.fill_(relaxation_temperature(1.0 - progress))
        self._train(*self.folds.rows[index[0]].tensors())

    def train(self, *parts: Tensor) -> None:
        """Roll out a batch and update several times on it; ``parts`` are the fields of `Rows`."""
        settings, rows = self.settings, Rows(*parts)
        if settings.mixed_precision and rows.values.is_cuda:
            # Half of the memory traffic.
            rows = replace(rows, values=rows.values.to(torch.bfloat16))
        weight, condition = self.weights.draw(rows.weight.numel(), self.folds.generator)
        with settings.precision(rows.device):
            rollout = self._roll_out(rows, weight, condition)
        for _ in range(UPDATES_PER_ROLLOUT):
            with settings.precision(rows.device):
                value, mask, soft = self._policy_loss(rows, rollout, condition)
            self.update_policy(value)
            with settings.precision(rows.device):
                value = self._predictor_loss(rows, mask, soft)
            self.update_predictors(value)

    @torch.no_grad()
    def _roll_out(self, rows: Rows, weight: Tensor, condition: Tensor | None) -> _Rollout:
        """Sample a rollout of *T* steps for every row."""
        network, inputs, n_steps = self.network, self.inputs, self.settings.max_steps
        by_fold = rows.weight.shape
        network.eval()
        values = rows.values.flatten(0, 1)
        n, device = len(values), values.device
        revealed_at = torch.full((n, inputs.n_columns), n_steps, dtype=torch.int16, device=device)
        first = inputs.first_masks((n,), self.folds.generator)
        if first is not None:
            revealed_at.masked_fill_(first, -1)
        allowed = inputs.recorded_units(values)
        prices = None if rows.costs is None else rows.costs.flatten(0, 1)
        predictions, losses, stops, costs = [], [], [], []
        for number in range(n_steps + 1):
            mask = revealed_at < number
            seen = inputs.reveal(values, mask)
            prediction = network.cross_fitted(seen.unflatten(0, by_fold), self.loss)
            losses.append(self.loss.of_prediction(prediction, rows.targets).flatten())
            if number == n_steps:
                break
            predictions.append(prediction.flatten(0, 1))
            decision = decide(
                network.decide, inputs, seen, mask, condition, predictions[-1], allowed
            )
            stops.append(decision.stop_probability)
            noise = gumbel((n, inputs.n_units), self.folds.generator)
            units = decision.best(self.settings.units_per_step, noise)
            open_row = decision.available.any(dim=-1)
            after, cost = reveal_units(inputs, mask, units, open_row, weight, first, prices)
            revealed_at.masked_fill_(after & ~mask, number)
            costs.append(cost)
        network.train()
        scale = self.settings.reward_scale * self.weights.importance(weight)
        ahead, gains = losses[-1], []
        for now, stop, cost in zip(losses[-2::-1], stops[::-1], costs[::-1], strict=True):
            continuing = cost + ahead
            gains.append((now - continuing) * scale)
            ahead = stop * now + (1 - stop) * continuing
        return _Rollout(
            revealed_at, torch.stack(gains[::-1], dim=-1), torch.stack(predictions, dim=1), weight
        )

    def _policy_loss(
        self, rows: Rows, rollout: _Rollout, condition: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss of the policy in one state per row, its mask, and the relaxed input after it."""
        settings, inputs, network = self.settings, self.inputs, self.network
        generator, by_fold = self.folds.generator, rows.weight.shape
        n, device = len(rollout.gain), rollout.gain.device
        step = torch.rand(n, generator=generator, device=device) ** EARLY_STATES
        step = (step * settings.max_steps).long().unsqueeze(-1)
        target = rollout.gain.gather(-1, step)[..., 0]
        mask = rollout.revealed_at < step
        values = rows.values.flatten(0, 1)
        index = step.unsqueeze(-1).expand(-1, -1, rollout.prediction.shape[-1])
        prediction = rollout.prediction.gather(1, index)[:, 0]
        seen = inputs.reveal(values, mask)
        allowed = inputs.recorded_units(values)
        decision = decide(network.decide, inputs, seen, mask, condition, prediction, allowed)
        chosen = decision.relaxed(self.temperature, generator)
        revealed = torch.where(mask, 1.0, soft_columns(inputs, chosen))
        soft = soft_reveal(inputs, values, revealed).unflatten(0, by_fold)
        network.predictor.requires_grad_(False)
        prediction = network.cross_fitted(soft, self.loss)
        network.predictor.requires_grad_(True)
        prices = None if rows.costs is None else rows.costs.flatten(0, 1)
        costs = inputs.unit_costs(mask, rollout.revealed_at < 0, prices)
        losses = self.loss.of_prediction(prediction, rows.targets).flatten()
        losses = losses + rollout.weight * (chosen * costs).sum(dim=-1)
        regression = 0.5 * GAIN_WEIGHT * (decision.gain - target).square()
        each = rows.weight.flatten() * (regression + settings.reward_scale * losses)
        return each.mean(), mask.unflatten(0, by_fold), soft.detach()

    def _predictor_loss(self, rows: Rows, mask: Tensor, soft: Tensor) -> Tensor:
        """Loss of the predictors under random masks, visited states and relaxed inputs."""
        inputs = self.inputs
        random = inputs.random_masks(
            tuple(rows.weight.shape), self.folds.generator, self.settings.max_random_units
        )
        seen = [inputs.reveal(rows.values, random), inputs.reveal(rows.values, mask), soft]
        joined = Rows(
            rows.values,
            torch.cat([rows.targets] * len(seen), dim=1),
            torch.cat([rows.weight] * len(seen), dim=1),
        )
        return fold_loss(self.network, self.loss, self.folds, torch.cat(seen, dim=1), joined)


class LookaheadTrainer(PolicyTrainer):
    """One-step look-ahead with Gumbel-softmax."""

    name = "lookahead"
    informed = True
    policy_phase = LookaheadPhase
    policy_dropout = False

    def defaults(self, max_units: int) -> dict[str, Any]:
        """See `Trainer`."""
        return {
            # Masks far larger than those of the policy are of little use to the predictors.
            "max_random_units": 2 * max_units,
            "mixed_precision": True,
            "joint_rate": 0.3,
            "pretrain_fraction": 0.3,
            "pretrain_masks": 2,
            "finetune_fraction": 0.2,
            "finetune_random": 0.3,
        }
