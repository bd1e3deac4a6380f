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

The losses are those of the predictors trained on the other fold. Their targets are a mixture of the
label and of what the predictors of the row's own fold predict from all features. The two groups of
predictors are trained on disjoint rows: an effect that only one of them has learned is noise, and
revealing it is not rewarded. With predictions and targets from the same predictors, every effect in
which they believe would be.

Units that are informative only jointly are rarely drawn together by chance. Half of the exploration
therefore follows `interactions`: after a unit, it prefers units that interact with it.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.nn.step import Decision, Sample, decide, reveal_units, uniform
from suwr.training.config import Settings
from suwr.training.data import Folds, Rows, to_folds, to_models
from suwr.training.evidence import informative, interactions
from suwr.training.loop import Metrics, State
from suwr.training.policy import PolicyPhase, PolicyTrainer
from suwr.training.predictor import weighted_loss
from suwr.training.rollouts import SampledSteps, VisitedStates

__all__ = ["ActorPhase", "ActorTrainer", "soft_targets"]

# Training ends after this fraction of the epochs without a better validation objective, counted
# from the end of the exploration at the earliest.
PATIENCE = 0.15
# Rows of each fold per evaluation of the soft targets.
SOFT_TARGET_ROWS = 4096
# Rollouts sampled at once, of several batches if these are small: the steps of few rows take little
# less time than those of many. The inputs of all their states take at most 128 MB.
ROLLOUTS_AT_ONCE, INPUTS_AT_ONCE = 4096, 2**25
# Share of the visited states on which the policy is trained: those of one rollout are so similar
# that every other one suffices.
STATE_SHARE = 0.5
# Share of the exploration that follows the interactions.
GUIDED_SHARE = 0.5


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
        """Whether all epochs are over, the objective has settled, or nothing is informative."""
        explored = self.settings.exploration_fraction * self.epochs
        settled = max(int(self.best.epoch.max()), explored) + max(1, PATIENCE * self.epochs)
        return super().done or self.epoch > settled or not bool(self.tensors["informative"].any())

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
        batch = 2 * folds.rows_per_batch(settings.batch_size) * settings.rollouts
        return max(1, min(most // batch, folds.n_batches(settings.batch_size)))

    def train_batches(self, index: Tensor, progress: float) -> None:
        """See `PolicyPhase`."""
        settings, network, inputs = self.settings, self.network, self.inputs
        generator = self.folds.generator
        repeated = torch.cat([*index], dim=1).repeat(1, settings.rollouts)
        rows = self.folds.rows[repeated]
        targets = self.soft_targets[repeated].lerp(rows.targets, self._label_weight)
        fold_size = repeated.shape[1]
        weight, condition = self.weights.draw(2 * fold_size, generator)
        first = inputs.first_masks((network.n_models, 2 * fold_size), generator)
        epsilon = settings.exploration(progress)
        network.eval()
        with settings.precision(index.device):
            steps = _explore(
                network, inputs, to_models(rows.values), weight, condition, settings, epsilon,
                generator, self.tensors["interactions"], first,
                None if rows.costs is None else to_models(rows.costs),
            )  # fmt: skip
            states = VisitedStates.of(steps, fold_size) if steps else None
            if states is not None:
                losses = _cross_fitted_losses(
                    network, inputs, self.loss, rows.values, targets, states, len(steps),
                    None if first is None else to_folds(first),
                )  # fmt: skip
                scale = settings.reward_scale * self.weights.importance(weight)
                gains = _gains(steps, losses, scale)
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
                        network, inputs, rows, visited[part], gains[:, part], condition, epsilon,
                        settings.entropy_weight * (1.0 - progress),
                    )  # fmt: skip
                self.update_policy(value)
            batch = slice(number * size, (number + 1) * size)
            self._train_predictors(rows, batch, states)

    def _train_predictors(self, rows: Rows, batch: slice, states: VisitedStates | None) -> None:
        settings, inputs = self.settings, self.inputs
        joined, mask = _predictor_batch(inputs, rows, batch, states, settings, self.folds.generator)
        with settings.precision(mask.device):
            value = weighted_loss(self.network, inputs, self.loss, joined, mask)
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
    """Predictions of all training rows from all features, by the predictors of their own fold."""
    network.eval()
    targets = folds.rows.targets.clone()
    for start in range(0, folds.size, SOFT_TARGET_ROWS):
        index = folds.indices[:, start : start + SOFT_TARGET_ROWS]
        values = folds.rows[index].values
        mask = torch.ones((*index.shape, inputs.n_columns), dtype=torch.bool, device=values.device)
        targets[index] = network.in_fold(inputs.reveal(values, mask), loss)
    return targets


@torch.no_grad()
def _explore(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    values: Tensor,
    weight: Tensor,
    condition: Tensor | None,
    settings: Settings,
    epsilon: float,
    generator: torch.Generator,
    interaction: Tensor,
    first: Tensor | None = None,
    costs: Tensor | None = None,
) -> list[SampledSteps]:
    """Sample one rollout per row ``(n_models, n)``, from the masks ``first``.

    A share ``epsilon`` of the choices of units is random.

    Stopped rows are removed from the batch of a single model on a CPU. Otherwise they stay in it as
    inactive: models keep batches of one size, and a GPU needs no synchronisation per step.
    """
    continuation = min(max(epsilon, settings.min_continuation), settings.max_continuation)
    (m, n), device = values.shape[:2], values.device
    remove = m == 1 and device.type == "cpu"
    row = torch.arange(n, device=device).expand(m, n)
    active = torch.ones(m, n, dtype=torch.bool, device=device)
    empty = torch.zeros(m, n, inputs.n_columns, dtype=torch.bool, device=device)
    mask, allowed = empty if first is None else first, inputs.recorded_units(values)
    shared = condition is None and first is None and allowed is None
    model = torch.arange(m, device=device).unsqueeze(1)
    last: Tensor | None = None
    steps: list[SampledSteps] = []
    for number in range(settings.max_steps):
        if number == 0 and shared:
            # The first state is the same for every row: evaluate it once.
            seen = inputs.reveal(values[:, :1], mask[:, :1])
            decision = decide(network.decide, inputs, seen, mask[:, :1]).expand(m, n)
        else:
            seen = inputs.reveal(values, mask)
            decision = decide(network.decide, inputs, seen, mask, condition, allowed=allowed)
        stop = decision.stop_probability
        draw = torch.rand(active.shape, generator=generator, device=device)
        open_row = decision.available.any(dim=-1)
        active = active & (draw >= stop * (1 - continuation)) & open_row
        if remove:
            going = torch.nonzero(active[0])[:, 0]
            if len(going) == 0:
                break
            row, active, mask = row[:, going], active[:, going], mask[:, going]
            decision, values, weight = decision[:, going], values[:, going], weight[:, going]
            condition = None if condition is None else condition[:, going]
            allowed = None if allowed is None else allowed[:, going]
            first = None if first is None else first[:, going]
            last = None if last is None else last[:, going]
            costs = None if costs is None else costs[:, going]
        units, exploration = decision.sample(
            settings.units_per_step, epsilon, generator, active,
            None if last is None else partial(_guided, interaction[model, last]),
        )  # fmt: skip
        last, before = units[..., -1].clamp_min(0), mask
        mask, cost = reveal_units(inputs, mask, units, weight=weight, known=first, costs=costs)
        stop = decision.stop_probability
        steps.append(
            SampledSteps(
                row, active, before, decision.available, stop, units, exploration, mask, cost
            )
        )
    return steps


def _guided(interaction: Tensor, available: Tensor) -> Tensor:
    """Exploration that prefers units which interact with the last revealed one."""
    weight = interaction * available
    total = weight.sum(dim=-1, keepdim=True)
    guided = torch.where(total > 0, weight / total.clamp_min(1e-12), uniform(available))
    return (1 - GUIDED_SHARE) * uniform(available) + GUIDED_SHARE * guided


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
    seen = inputs.reveal(values[fold, states.position], states.mask)
    prediction = network.cross_fitted(seen, loss)
    column = torch.where(states.active, states.position, size)
    losses[states.step, fold, column] = loss.of_prediction(
        prediction, targets[fold, states.position]
    )
    return losses[..., :size].unflatten(1, (-1, 2)).flatten(2, 3)


@torch.no_grad()
def _gains(steps: list[SampledSteps], losses: Tensor, scale: Tensor) -> Tensor:
    """The gain of continuing ``D_t`` of every step, joined along the rows.

    ``scale`` ``(n_models, n)`` is the factor of the gains of each row.
    """
    ahead = losses[0].clone()
    for number, s in enumerate(steps):
        reached = losses[number + 1].gather(1, s.row)
        ahead = ahead.scatter(1, s.row, torch.where(s.active, reached, ahead.gather(1, s.row)))
    gains: list[Tensor] = []
    for number in range(len(steps) - 1, -1, -1):
        s = steps[number]
        now, later = losses[number].gather(1, s.row), ahead.gather(1, s.row)
        continuing = s.cost + later
        gains.append((now - continuing) * scale.gather(1, s.row))
        value = s.stop * now + (1 - s.stop) * continuing
        ahead = ahead.scatter(1, s.row, torch.where(s.active, value, later))
    return torch.cat(gains[::-1], dim=1)


def _policy_loss(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    rows: Rows,
    steps: SampledSteps,
    gains: Tensor,
    condition: Tensor | None,
    epsilon: float,
    bonus: float,
) -> Tensor:
    """Policy gradient, regression of the gain, and entropy bonus.

    The mean over the states of a model, summed over models. ``rows`` are grouped by fold, and
    ``condition`` ``(n_models, n)`` is the position of λ of each.
    """
    model = torch.arange(len(steps.row), device=steps.row.device).unsqueeze(1)
    seen = inputs.reveal(to_models(rows.values)[model, steps.row], steps.before)
    _, found = network.decide(seen, None if condition is None else condition[model, steps.row])
    decision = Decision(steps.stop, found.logits, steps.available, found.gain)
    probability = decision.probability
    entropy = -(probability * probability.clamp_min(1e-9).log()).sum(dim=-1)
    log_prob = decision.log_prob(Sample(steps.units, steps.exploration), epsilon)
    advantage = gains - found.gain.detach()
    each = 0.5 * (found.gain - gains).square() - advantage * log_prob - bonus * entropy
    each = each * to_models(rows.weight)[model, steps.row] * steps.active
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
