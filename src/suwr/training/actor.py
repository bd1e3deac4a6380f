"""Actor training: the policy gradient of sampled rollouts with a value baseline.

A rollout of a row visits the states ``s_0 = ∅, s_1, …``. With ``l_t`` the loss of the cross-fitted
predictor in state ``s_t`` and ``c_t`` the weighted cost of the units revealed in step ``t``,

    value of continuing    C_t = c_t + J_{t+1}
    value of the state     J_t = ζ_stop(s_t) l_t + (1 - ζ_stop(s_t)) C_t
    gain of continuing     D_t = l_t - C_t

Both terms of ``D_t`` come from the same row and label, so that most of the label noise cancels. The
network regresses ``E[D_t | s_t]``, which is the baseline of the policy gradient; the policy stops
where it is not positive. Rollouts are sampled without gradients; a single pass over all visited
states then computes those of the policy.

Early in training, rewards are too noisy to tell apart units of similar value. The gradient of the
policy therefore starts as the sum of the policy gradient and of a look-ahead: the choice of the
next unit is relaxed with Gumbel-softmax, and the loss after it is differentiated through the
predictors. The look-ahead alone would be greedy; its weight decreases to 0 at half of the phase.

λ grows to its value in the first half of the phase. Units that pay off only together are given up
at once if they are expensive from the beginning, before the policy has learned to combine them.

The losses are those of the predictors that were not trained on the row. Without a teacher, their
targets are a mixture of the label and of what the other predictors predict from all features. An
effect that only one of the two has learned is noise, and revealing it is not rewarded. With
predictions and targets from the same predictors, every effect in which they believe would be.

`FixedPredictorTrainer` trains a policy for a predictor that is given and stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from suwr.nn.ensembles import ExternalPredictor
from suwr.nn.inputs import MaskedInputs, soft_columns, soft_reveal
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, SeparateNetwork
from suwr.nn.step import Decision, Sample, Starts, decide
from suwr.training.config import Settings, linear_decay
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase, State
from suwr.training.predictor import fold_loss
from suwr.training.rollouts import SampledSteps, VisitedStates, sample_rollouts
from suwr.training.screening import informative, interactions
from suwr.training.trainer import PolicyPhase, PolicyTrainer, relaxation_temperature
from suwr.training.validation import Task

__all__ = ["ActorPhase", "ActorTrainer", "FixedPredictorTrainer"]

# Training ends after this fraction of the epochs without a better validation objective, counted
# from the end of the exploration at the earliest.
PATIENCE = 0.15
# Rows of each fold per evaluation of the soft targets.
SOFT_TARGET_ROWS = 4096
# Rollouts sampled at once, of several batches if these are small: the steps of few rows take little
# less time than those of many. The inputs of all their states take at most 128 MB.
ROLLOUTS_AT_ONCE, INPUTS_AT_ONCE = 2048, 2**25
# Visited states of each fold per evaluation of the predictors on a CPU. The memory of larger
# evaluations is returned to the system after each of them, and requesting it again takes time.
STATES_AT_ONCE = 512
# Share of the visited states on which the policy is trained: those of one rollout are so similar
# that every other one suffices.
STATE_SHARE = 0.5
# Weight of the entropy bonus of the selection policy at the start; it decreases to 0.
ENTROPY_WEIGHT = 0.02
# Weight of the look-ahead, and the point of the phase at which it has decreased to 0.
LOOKAHEAD_WEIGHT, LOOKAHEAD_UNTIL = 1.0, 0.5
# λ at the start of a phase of `WEIGHT_EPOCHS`, relative to its value, which it reaches at the point
# `WEIGHT_UNTIL` of the phase. In a shorter phase it starts nearer to its value, which takes time to
# adapt to.
WEIGHT_START, WEIGHT_UNTIL, WEIGHT_EPOCHS = 0.01, 0.5, 100
# Share of the states of the look-ahead in which nothing is revealed yet.
FIRST_STATES = 1 / 8


class ActorPhase(PolicyPhase):
    """Train policy and predictors jointly on sampled rollouts."""

    name = "actor"
    policy_weight_decay = 0.1

    def prepare(self) -> State:
        """See `PolicyPhase`."""
        network, inputs, loss, folds = self.network, self.inputs, self.loss, self.folds
        return {
            "informative": informative(network, inputs, loss, folds),
            "interactions": interactions(network, inputs, loss, folds, self._label_weight),
        }

    @property
    def done(self) -> bool:
        """Whether all epochs are over, the objective has settled, or nothing is informative."""
        explored = max(self.best.epoch, self.settings.exploration_fraction * self.epochs)
        settled = self.epoch > explored + max(1, PATIENCE * self.epochs)
        return super().done or settled or not bool(self.tensors["informative"])

    def finish(self) -> None:
        """See `PolicyPhase`; without evidence of informative features, nothing is revealed."""
        super().finish()
        if not bool(self.tensors["informative"]):
            self.network.stop_at_once()

    @property
    def _label_weight(self) -> float:
        if not self.loss.linear_in_targets:
            return 1.0
        return self.settings.target_weight(len(self.folds.rows))

    def train_epoch(self) -> Metrics:
        """See `PolicyPhase`."""
        self.targets = self.folds.rows.targets
        if self._label_weight < 1.0:
            soft = soft_targets(self.network, self.inputs, self.loss, self.folds)
            self.targets = soft.lerp(self.targets, self._label_weight)
        return super().train_epoch()

    @property
    def batches_at_once(self) -> int:
        """See `PolicyPhase`."""
        settings, folds = self.settings, self.folds
        row = settings.max_steps * self.network.architecture.n_inputs
        most = min(ROLLOUTS_AT_ONCE, INPUTS_AT_ONCE // row)
        batch = folds.n_folds * folds.rows_per_batch(settings.batch_size) * settings.rollouts
        return max(1, most // batch)

    def train_batches(self, index: Tensor, progress: float) -> None:
        """See `PolicyPhase`."""
        settings, network, inputs = self.settings, self.network, self.inputs
        generator, (n_batches, _, size) = self.folds.generator, index.shape
        repeated = torch.cat([*index], dim=1).repeat(1, settings.rollouts)
        rows, targets = self.folds.rows[repeated], self.targets[repeated]
        n_folds, fold_size = repeated.shape
        values, prices = rows.values.flatten(0, 1), rows.costs
        weight, condition = self.weights.draw(len(values), generator)
        importance = self.weights.importance(weight)
        growth = min(1.0, self.epochs / WEIGHT_EPOCHS) * linear_decay(progress, 0.0, WEIGHT_UNTIL)
        weight = weight * WEIGHT_START**growth
        budget = None
        if inputs.budgets is not None:
            uniform = torch.rand(weight.shape, generator=generator, device=weight.device)
            budget = inputs.budgets.at(uniform, float(inputs.costs.mean()))
            condition = inputs.budgets.position(budget)
        starts = Starts(
            inputs.first_masks((len(values),), generator), inputs.recorded_units(values), budget,
            costs=None if prices is None else prices.flatten(0, 1),
        )  # fmt: skip
        epsilon = settings.exploration(progress)
        network.eval()
        steps = sample_rollouts(
            network, inputs, values, weight, condition, settings, epsilon, generator,
            self.tensors["interactions"], starts,
        )  # fmt: skip
        states = None
        if steps:
            visited = SampledSteps.join(steps)
            states, place = VisitedStates.of(visited, fold_size, n_folds)
            first, later = _cross_fitted_losses(
                network, inputs, self.loss, rows.values, targets, states, starts.known
            )
            losses = later.flatten()[place].split([len(s) for s in steps])
            gains = _gains(steps, first, losses, settings.reward_scale)
            order = torch.randperm(len(visited), generator=generator, device=values.device)
            order = order[: math.ceil(STATE_SHARE * len(order))]
        network.train()
        for number in range(n_batches):
            if states is not None:
                part = order[number::n_batches]
                value = _policy_loss(
                    network, inputs, values, rows.weight.flatten(), visited[part], gains[part],
                    importance, condition, epsilon, ENTROPY_WEIGHT * (1.0 - progress),
                )  # fmt: skip
                value = value + self._lookahead_loss(
                    rows, targets, states, size * settings.rollouts, starts, weight, condition,
                    progress,
                )  # fmt: skip
                self.update_policy(value)
            self._train_predictors(rows, slice(number * size, (number + 1) * size), states)

    def _lookahead_loss(
        self,
        rows: Rows,
        targets: Tensor,
        states: VisitedStates,
        n_states: int,
        starts: Starts,
        weight: Tensor,
        condition: Tensor | None,
        progress: float,
    ) -> Tensor:
        """Weighted mean objective after a relaxed choice of the next unit, in visited states."""
        network, inputs = self.network, self.inputs
        ahead = linear_decay(progress, 0.0, LOOKAHEAD_UNTIL)
        if ahead == 0.0 or not network.predictor.differentiable:
            return torch.zeros((), device=weight.device)
        generator, (n_folds, fold_size) = self.folds.generator, rows.weight.shape
        first = None if starts.known is None else starts.known.unflatten(0, (n_folds, -1))
        states = states.sample(n_states, round(FIRST_STATES * n_states), first, generator)
        fold = torch.arange(n_folds, device=weight.device).unsqueeze(1)
        row = (states.position + fold * fold_size).flatten()
        values, mask = rows.values.flatten(0, 1)[row], states.mask.flatten(0, 1)
        here = starts[row]
        decision = decide(
            network.decide, inputs, inputs.reveal(values, mask), mask,
            None if condition is None else condition[row],
            allowed=here.allowed(inputs, mask, states.spent.flatten().double()),
        )  # fmt: skip
        chosen = decision.relaxed(relaxation_temperature(ahead), generator)
        shown = soft_reveal(inputs, values, torch.where(mask, 1.0, soft_columns(inputs, chosen)))
        network.predictor.requires_grad_(False).eval()
        prediction = network.cross_fitted(shown.unflatten(0, (n_folds, -1)), self.loss)
        network.predictor.requires_grad_(True).train()
        losses = self.loss.of_prediction(prediction, targets[fold, states.position]).flatten()
        costs = inputs.unit_costs(mask, here.known, here.costs)
        each = losses + weight[row] * (chosen * costs).sum(dim=-1)
        each = each * rows.weight.flatten()[row] * states.valid.flatten()
        mean = each.sum() / states.valid.sum().clamp_min(1)
        return LOOKAHEAD_WEIGHT * ahead * self.settings.reward_scale * mean

    def _train_predictors(self, rows: Rows, batch: slice, states: VisitedStates | None) -> None:
        settings, inputs = self.settings, self.inputs
        joined, mask = _predictor_batch(inputs, rows, batch, states, settings, self.folds.generator)
        seen = inputs.reveal(joined.values, mask)
        self.update_predictors(fold_loss(self.network, self.loss, self.folds, seen, joined))


class ActorTrainer(PolicyTrainer):
    """Sampled rollouts with a value baseline."""

    name = "actor"
    policy_phase = ActorPhase
    screens = True


@torch.no_grad()
def soft_targets(
    network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds
) -> Tensor:
    """Predictions of all training rows from all features, by predictors trained on them."""
    network.eval()
    targets = folds.rows.targets.clone()
    for start in range(0, folds.size, SOFT_TARGET_ROWS):
        index = folds.indices[:, start : start + SOFT_TARGET_ROWS]
        values = folds.rows[index].values
        mask = torch.ones((*index.shape, inputs.n_columns), dtype=torch.bool, device=values.device)
        targets[index] = network.in_fold(inputs.reveal(values, mask), loss)
    return targets


@torch.no_grad()
def _cross_fitted_losses(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    values: Tensor,
    targets: Tensor,
    states: VisitedStates,
    known: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Losses of the cross-fitted predictor before the first step ``(n,)`` and in every state.

    ``values``, ``targets`` and the losses of the states are grouped by fold.
    """
    n_folds, size = values.shape[:2]
    if known is None:
        empty = torch.zeros(n_folds, 1, inputs.n_columns, dtype=torch.bool, device=values.device)
        seen = inputs.reveal(values[:, :1], empty)
    else:
        seen = inputs.reveal(values, known.unflatten(0, (n_folds, -1)))
    prediction = network.cross_fitted(seen, loss).expand(-1, size, -1)
    first = loss.of_prediction(prediction, targets).flatten()
    fold = torch.arange(n_folds, device=values.device).unsqueeze(1)
    at_once = STATES_AT_ONCE if values.device.type == "cpu" else states.position.shape[1]
    parts = zip(
        states.position.split(at_once, dim=1), states.mask.split(at_once, dim=1), strict=True
    )
    found = [
        network.cross_fitted(inputs.reveal(values[fold, position], mask), loss)
        for position, mask in parts
    ]
    later = loss.of_prediction(torch.cat(found, dim=1), targets[fold, states.position])
    return first, later


@torch.no_grad()
def _gains(
    steps: list[SampledSteps], first: Tensor, later: tuple[Tensor, ...], scale: float
) -> Tensor:
    """The gain of continuing ``D_t`` of every step times ``scale``, joined.

    ``first`` ``(n,)`` are the losses before the first step, ``later`` those after each step.
    """
    before, now = [], first.clone()
    for s, losses in zip(steps, later, strict=True):
        before.append(now[s.row])
        now[s.row] = losses
    ahead, gains = now, []
    for s, loss in zip(steps[::-1], before[::-1], strict=True):
        continuing = s.cost + ahead[s.row]
        gains.append((loss - continuing) * scale)
        ahead[s.row] = s.stop * loss + (1 - s.stop) * continuing
    return torch.cat(gains[::-1])


def _policy_loss(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    values: Tensor,
    weight: Tensor,
    steps: SampledSteps,
    gains: Tensor,
    importance: Tensor,
    condition: Tensor | None,
    epsilon: float,
    bonus: float,
) -> Tensor:
    """Policy gradient, regression of the gain, and entropy bonus: the mean over states.

    ``importance`` and ``condition`` ``(n,)`` are the factor of the gain that the network outputs
    and the position of λ of each row. The loss does not contain the factor: rows of small λ
    would dominate the gradient, and those of large λ would have to follow their first steps.
    """
    seen = inputs.reveal(values[steps.row], steps.before)
    _, found = network.decide(seen, None if condition is None else condition[steps.row])
    decision = Decision(steps.stop, found.logits, steps.available, found.gain)
    probability = decision.probability
    entropy = -(probability * probability.clamp_min(1e-9).log()).sum(dim=-1)
    log_prob = decision.log_prob(Sample(steps.units, steps.exploration), epsilon)
    gain = found.gain / importance[steps.row]
    advantage = gains - gain.detach()
    each = 0.5 * (gain - gains).square() - advantage * log_prob - bonus * entropy
    return (each * weight[steps.row]).mean()


def _predictor_batch(
    inputs: MaskedInputs,
    rows: Rows,
    batch: slice,
    states: VisitedStates | None,
    settings: Settings,
    generator: torch.Generator,
) -> tuple[Rows, Tensor]:
    """The rows ``batch`` of each fold under random masks, and as many in visited states."""
    first = Rows(rows.values[:, batch], rows.targets[:, batch], rows.weight[:, batch])
    n_folds, size = first.weight.shape
    random = inputs.random_masks((n_folds, size), generator, settings.max_random_units)
    if states is None:
        return first, random
    # A fold without states draws padding, which gets weight 0.
    chance = states.valid.to(torch.float32) + 1e-9
    pick = torch.multinomial(chance, size, replacement=True, generator=generator)
    fold = torch.arange(n_folds, device=pick.device).unsqueeze(1)
    position = states.position[fold, pick]
    joined = Rows(
        torch.cat([first.values, rows.values[fold, position]], dim=1),
        torch.cat([first.targets, rows.targets[fold, position]], dim=1),
        torch.cat([first.weight, rows.weight[fold, position] * states.valid[fold, pick]], dim=1),
    )
    return joined, torch.cat([random, states.mask[fold, pick]], dim=1)


class FixedPredictorPhase(ActorPhase):
    """Train the policy alone, by the losses of the predictor on the targets.

    The predictor is the same for all folds. Rewards by its own predictions from all features would
    therefore reward every effect in which it believes.
    """

    @property
    def _label_weight(self) -> float:
        return 1.0

    def _train_predictors(self, rows: Rows, batch: slice, states: VisitedStates | None) -> None:
        pass


class FixedPredictorTrainer(ActorTrainer):
    """Sampled rollouts with a value baseline, for a predictor that is given.

    Parameters
    ----------
    predictor : ExternalPredictor
    """

    name = "actor"
    policy_phase = FixedPredictorPhase
    screens = teaches = False

    def __init__(self, predictor: ExternalPredictor) -> None:
        self.predictor = predictor

    def n_epochs(self, task: Task) -> int:
        """See `Trainer`."""
        return task.settings.max_epochs

    def build(self, architecture: Architecture, settings: Settings) -> SeparateNetwork:
        """See `Trainer`."""
        network = super().build(architecture, settings)
        network.predictor = self.predictor
        return network

    def phases(
        self, network: SeparateNetwork, task: Task, folds: Folds
    ) -> list[Callable[[], Phase]]:
        """See `Trainer`; predictors are neither pretrained nor fine-tuned."""
        return [lambda: self.policy_phase(network, task, folds)]
