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

The losses are those of the predictors that were not trained on the row. Their targets are a mixture
of the label and of what the other predictors predict from all features. An effect that only one of
the two has learned is noise, and revealing it is not rewarded. With predictions and targets from
the same predictors, every effect in which they believe would be.

`FixedPredictorTrainer` trains a policy for a predictor that is given and stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from suwr.nn.ensembles import ExternalPredictor
from suwr.nn.inputs import MaskedInputs, soft_columns, soft_reveal
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.nn.step import Decision, Sample, Starts, decide
from suwr.training.config import Settings, SparsityWeights, linear_decay
from suwr.training.data import Folds, Rows, to_folds, to_models
from suwr.training.loop import Metrics, Phase, State
from suwr.training.predictor import fold_loss
from suwr.training.rollouts import SampledSteps, VisitedStates, sample_rollouts
from suwr.training.screening import informative, interactions
from suwr.training.trainer import PolicyPhase, PolicyTrainer, Task, relaxation_temperature

__all__ = ["ActorPhase", "ActorTrainer", "FixedPredictorTrainer", "soft_targets"]

# Training ends after this fraction of the epochs without a better validation objective, counted
# from the end of the exploration at the earliest.
PATIENCE = 0.15
# Rows of each fold per evaluation of the soft targets.
SOFT_TARGET_ROWS = 4096
# Rollouts sampled at once, of several batches if these are small: the steps of few rows take little
# less time than those of many. The inputs of all their states take at most 128 MB.
ROLLOUTS_AT_ONCE, INPUTS_AT_ONCE = 4096, 2**25
# Visited states of each fold per evaluation of the predictors on a CPU. The memory of larger
# evaluations is returned to the system after each of them, and requesting it again takes time.
STATES_AT_ONCE = 512
# Share of the visited states on which the policy is trained: those of one rollout are so similar
# that every other one suffices.
STATE_SHARE = 0.5
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
    regularised = True

    def prepare(self) -> State:
        """See `PolicyPhase`."""
        network, inputs, loss, folds = self.network, self.inputs, self.loss, self.folds
        return {
            "informative": informative(network, inputs, loss, folds),
            "interactions": interactions(network, inputs, loss, folds, self._label_weight),
        }

    @property
    def done(self) -> bool:
        """Whether all epochs are over, all objectives have settled, or nothing is informative."""
        settled = bool(self.settled.all())
        return super().done or settled or not bool(self.tensors["informative"].any())

    @property
    def settled(self) -> Tensor:
        """See `PolicyPhase`."""
        explored = self.settings.exploration_fraction * self.epochs
        return self.epoch > self.best.epoch.clamp_min(explored) + max(1, PATIENCE * self.epochs)

    def finish(self) -> None:
        """See `PolicyPhase`; without evidence of informative features, nothing is revealed."""
        super().finish()
        self.network.stop_at_once(~self.tensors["informative"])

    @property
    def _label_weight(self) -> float:
        if not self.loss.linear_in_targets:
            return 1.0
        return self.settings.target_weight(len(self.folds.rows) // self.network.n_models)

    def train_epoch(self) -> Metrics:
        """See `PolicyPhase`."""
        self.soft_targets = soft_targets(self.network, self.inputs, self.loss, self.folds)
        return super().train_epoch()

    @property
    def batches_at_once(self) -> int:
        """See `PolicyPhase`."""
        settings, folds = self.settings, self.folds
        row = settings.max_steps * self.network.architecture.n_inputs
        most = min(ROLLOUTS_AT_ONCE, INPUTS_AT_ONCE // row)
        batch = folds.n_folds * folds.rows_per_batch(settings.batch_size) * settings.rollouts
        return max(1, min(most // batch, folds.n_batches(settings.batch_size)))

    def train_batches(self, index: Tensor, progress: float) -> None:
        """See `PolicyPhase`."""
        settings, network, inputs = self.settings, self.network, self.inputs
        generator, n_folds = self.folds.generator, self.folds.n_folds
        repeated = torch.cat([*index], dim=1).repeat(1, settings.rollouts)
        rows = self.folds.rows[repeated]
        targets = self.soft_targets[repeated].lerp(rows.targets, self._label_weight)
        fold_size = repeated.shape[1]
        weight, condition = self.weights.draw(n_folds * fold_size, generator)
        importance = self.weights.importance(weight)
        growth = min(1.0, self.epochs / WEIGHT_EPOCHS) * linear_decay(progress, 0.0, WEIGHT_UNTIL)
        weight = weight * WEIGHT_START**growth
        first = inputs.first_masks((network.n_models, n_folds * fold_size), generator)
        budget = None
        if inputs.budgets is not None:
            uniform = torch.rand(weight.shape, generator=generator, device=weight.device)
            budget = inputs.budgets.at(uniform, float(inputs.costs.mean()))
            condition = inputs.budgets.position(budget)
        epsilon = settings.exploration(progress)
        network.eval()
        with settings.precision(index.device):
            steps = sample_rollouts(
                network, inputs, to_models(rows.values, n_folds), weight, condition, settings,
                epsilon, generator, self.tensors["interactions"], first,
                None if rows.costs is None else to_models(rows.costs, n_folds), budget,
            )  # fmt: skip
            states = VisitedStates.of(steps, fold_size, n_folds) if steps else None
            if states is not None:
                losses = _cross_fitted_losses(
                    network, inputs, self.loss, rows.values, targets, states, len(steps),
                    None if first is None else to_folds(first, n_folds),
                )  # fmt: skip
                gains = _gains(steps, losses, settings.reward_scale)
                visited = SampledSteps.join(steps)
                order = torch.randperm(gains.shape[1], generator=generator, device=index.device)
                order = order[: math.ceil(STATE_SHARE * len(order))]
        network.train()
        n_batches, _, size = index.shape
        for number in range(n_batches):
            if states is not None:
                part = order[number::n_batches]
                with settings.precision(index.device):
                    value = _policy_loss(
                        network, inputs, rows, visited[part], gains[:, part], importance,
                        condition, epsilon, settings.entropy_weight * (1.0 - progress),
                    )  # fmt: skip
                    value = value + self._lookahead_loss(
                        rows, targets, states, size * settings.rollouts, weight, condition, first,
                        budget, progress,
                    )  # fmt: skip
                self.update_policy(value)
            batch = slice(number * size, (number + 1) * size)
            self._train_predictors(rows, batch, states)

    def _lookahead_loss(
        self,
        rows: Rows,
        targets: Tensor,
        states: VisitedStates,
        n_states: int,
        weight: Tensor,
        condition: Tensor | None,
        first: Tensor | None,
        budget: Tensor | None,
        progress: float,
    ) -> Tensor:
        """Weighted objective after a relaxed choice of the next unit, in states of each fold.

        The mean over the states of a model, summed over models.
        """
        network, inputs, n_folds = self.network, self.inputs, self.folds.n_folds
        ahead = linear_decay(progress, 0.0, LOOKAHEAD_UNTIL)
        if ahead == 0.0 or not network.predictor.differentiable:
            return torch.zeros((), device=weight.device)
        generator = self.folds.generator
        first = None if first is None else to_folds(first, n_folds)
        states = states.sample(n_states, round(FIRST_STATES * n_states), first, generator)
        fold = torch.arange(len(states.mask), device=weight.device).unsqueeze(1)

        def of_states(tensor: Tensor) -> Tensor:
            return tensor[fold, states.position]

        values = of_states(rows.values)
        raw, mask = to_models(values, n_folds), to_models(states.mask, n_folds)
        starts = Starts(
            None if first is None else of_states(first),
            inputs.recorded_units(values),
            None if budget is None else of_states(to_folds(budget, n_folds)),
            costs=None if rows.costs is None else of_states(rows.costs),
        )
        allowed = starts.allowed(inputs, states.mask, states.spent.double())
        if condition is not None:
            condition = to_models(of_states(to_folds(condition, n_folds)), n_folds)
        decision = decide(
            network.decide, inputs, inputs.reveal(raw, mask), mask, condition,
            allowed=None if allowed is None else to_models(allowed, n_folds),
        )  # fmt: skip
        chosen = to_folds(decision.relaxed(relaxation_temperature(ahead), generator), n_folds)
        shown = torch.where(states.mask, 1.0, soft_columns(inputs, chosen))
        network.predictor.requires_grad_(False).eval()
        prediction = network.cross_fitted(soft_reveal(inputs, values, shown), self.loss)
        network.predictor.requires_grad_(True).train()
        costs = inputs.unit_costs(states.mask, starts.known, starts.costs)
        cost = of_states(to_folds(weight, n_folds)) * (chosen * costs).sum(dim=-1)
        each = self.loss.of_prediction(prediction, of_states(targets)) + cost
        each = each * self.settings.reward_scale * of_states(rows.weight) * states.active
        n_active = to_models(states.active, n_folds).sum(dim=1).clamp_min(1)
        return LOOKAHEAD_WEIGHT * ahead * (to_models(each, n_folds).sum(dim=1) / n_active).sum()

    def _train_predictors(self, rows: Rows, batch: slice, states: VisitedStates | None) -> None:
        settings, inputs = self.settings, self.inputs
        joined, mask = _predictor_batch(inputs, rows, batch, states, settings, self.folds.generator)
        with settings.precision(mask.device):
            seen = inputs.reveal(joined.values, mask)
            value = fold_loss(self.network, self.loss, self.folds, seen, joined)
        self.update_predictors(value)


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
    n_steps: int,
    known: Tensor | None = None,
) -> Tensor:
    """Losses of the cross-fitted predictor in every visited state.

    ``values`` and ``targets`` are grouped by fold; the result is ``(n_steps + 1, n_models, n)``.
    """
    n_folds, size = values.shape[:2]
    # The last column collects inactive states and is dropped.
    losses = torch.zeros(n_steps + 1, n_folds, size + 1, device=values.device)
    empty = torch.zeros(n_folds, 1, inputs.n_columns, dtype=torch.bool, device=values.device)
    start = inputs.reveal(values[:, :1], empty) if known is None else inputs.reveal(values, known)
    first = network.cross_fitted(start, loss)
    losses[0, :, :size] = loss.of_prediction(first.expand(-1, size, -1), targets)
    fold = torch.arange(n_folds, device=values.device).unsqueeze(1)
    at_once = STATES_AT_ONCE if values.device.type == "cpu" else states.position.shape[1]
    prediction = torch.cat([
        network.cross_fitted(inputs.reveal(values[fold, position], mask), loss)
        for position, mask in zip(
            states.position.split(at_once, dim=1), states.mask.split(at_once, dim=1), strict=True
        )
    ], dim=1)  # fmt: skip
    column = torch.where(states.active, states.position, size)
    losses[states.step, fold, column] = loss.of_prediction(
        prediction, targets[fold, states.position]
    )
    return losses[..., :size].unflatten(1, (network.n_models, -1)).flatten(2, 3)


@torch.no_grad()
def _gains(steps: list[SampledSteps], losses: Tensor, scale: float) -> Tensor:
    """The gain of continuing ``D_t`` of every step times ``scale``, joined along the rows."""
    ahead = losses[0].clone()
    for number, s in enumerate(steps):
        reached = losses[number + 1].gather(1, s.row)
        ahead = ahead.scatter(1, s.row, torch.where(s.active, reached, ahead.gather(1, s.row)))
    gains: list[Tensor] = []
    for number in range(len(steps) - 1, -1, -1):
        s = steps[number]
        now, later = losses[number].gather(1, s.row), ahead.gather(1, s.row)
        continuing = s.cost + later
        gains.append((now - continuing) * scale)
        value = s.stop * now + (1 - s.stop) * continuing
        ahead = ahead.scatter(1, s.row, torch.where(s.active, value, later))
    return torch.cat(gains[::-1], dim=1)


def _policy_loss(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    rows: Rows,
    steps: SampledSteps,
    gains: Tensor,
    importance: Tensor,
    condition: Tensor | None,
    epsilon: float,
    bonus: float,
) -> Tensor:
    """Policy gradient, regression of the gain, and entropy bonus.

    The mean over the states of a model, summed over models. ``rows`` are grouped by fold;
    ``importance`` and ``condition`` ``(n_models, n)`` are the factor of the gain that the network
    outputs and the position of λ of each. The loss does not contain the factor: rows of small λ
    would dominate the gradient, and those of large λ would have to follow their first steps.
    """
    model = torch.arange(len(steps.row), device=steps.row.device).unsqueeze(1)
    n_folds = len(rows) // len(steps.row)
    values = to_models(rows.values, n_folds)[model, steps.row]
    seen = inputs.reveal(values, steps.before)
    _, found = network.decide(seen, None if condition is None else condition[model, steps.row])
    decision = Decision(steps.stop, found.logits, steps.available, found.gain)
    probability = decision.probability
    entropy = -(probability * probability.clamp_min(1e-9).log()).sum(dim=-1)
    log_prob = decision.log_prob(Sample(steps.units, steps.exploration), epsilon)
    gain = found.gain / importance[model, steps.row]
    advantage = gains - gain.detach()
    each = 0.5 * (gain - gains).square() - advantage * log_prob - bonus * entropy
    each = each * to_models(rows.weight, n_folds)[model, steps.row] * steps.active
    return (each.sum(dim=1) / steps.active.sum(dim=1).clamp_min(1)).sum()


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
    # A fold without active states draws inactive ones, which get weight 0.
    chance = states.active.to(torch.float32) + 1e-9
    pick = torch.multinomial(chance, size, replacement=True, generator=generator)
    fold = torch.arange(n_folds, device=pick.device).unsqueeze(1)
    position = states.position[fold, pick]
    joined = Rows(
        torch.cat([first.values, rows.values[fold, position]], dim=1),
        torch.cat([first.targets, rows.targets[fold, position]], dim=1),
        torch.cat([first.weight, rows.weight[fold, position] * states.active[fold, pick]], dim=1),
    )
    return joined, torch.cat([random, states.mask[fold, pick]], dim=1)


class FixedPredictorPhase(ActorPhase):
    """Train the policy alone, by the losses of the predictor on the labels.

    The predictor is the same for both folds. Rewards by its own predictions from all features would
    therefore reward every effect in which it believes; only labels are used.
    """

    def train_epoch(self) -> Metrics:
        """See `Phase`."""
        self.soft_targets = self.folds.rows.targets
        return PolicyPhase.train_epoch(self)

    @property
    def _label_weight(self) -> float:
        return 1.0

    def _train_predictors(self, rows: Rows, batch: slice, states: Any) -> None:
        pass


class FixedPredictorTrainer(ActorTrainer):
    """Sampled rollouts with a value baseline, for a predictor that is given.

    Parameters
    ----------
    predictor : ExternalPredictor
    """

    name = "actor"
    policy_phase = FixedPredictorPhase
    screens: ClassVar[bool] = False

    def __init__(self, predictor: ExternalPredictor) -> None:
        self.predictor = predictor

    def n_epochs(self, settings: Settings) -> int:
        """See `Trainer`."""
        return settings.max_epochs

    def build(self, architecture: Architecture, settings: Settings, n_models: int) -> Network:
        """See `Trainer`."""
        network = super().build(architecture, settings, n_models)
        assert isinstance(network, SeparateNetwork)
        network.predictor = self.predictor
        return network

    def phases(
        self, network: Any, task: Task, folds: Folds, weights: SparsityWeights
    ) -> list[Callable[[], Phase]]:
        """See `Trainer`; predictors are neither pretrained nor fine-tuned."""
        return [
            lambda: self.policy_phase(
                network, task.inputs, task.loss, folds, task.validation, task.settings, weights
            )
        ]
