"""Training of the policy for many units: a differentiable look one step ahead.

A sampled actor cannot explore hundreds of units. Here the choice of the next unit is relaxed by
Gumbel noise, and the loss after it is differentiated through the predictor. That is greedy; when to
stop is not: as in `suwr.training.actor`, the gain of continuing is regressed on the
cost of the rest of the rollout; for classes, from how sure the predictors are
(`suwr.nn.networks.InformedPolicy`).

A batch walks *T* steps without gradients and keeps one small number per column, the step that
revealed it. Then a few states of each row are rebuilt from it and trained on, so memory is that of
one step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from suwr.nn.relaxed import gumbel, soft_columns, soft_reveal
from suwr.nn.rollout import decide, reveal_units
from suwr.training.data import Rows, by_half, by_model
from suwr.training.graphs import Recorded
from suwr.training.loop import State
from suwr.training.optim import cosine, set_rate, step
from suwr.training.policy import PolicyPhase
from suwr.training.predictor import member_loss

__all__ = ["LookAhead"]


@dataclass
class _Walk:
    """Where a batch went; leading dimensions ``(n_models, n)``."""

    revealed_at: Tensor  # step that revealed each column; *T* where none did
    gain: Tensor  # target of the gain in every state, one more dimension of *T* states
    said: Tensor  # what the other half's predictors say in every state, (n_models, n, T, n_outputs)


class LookAhead(PolicyPhase):
    """Train the select head by one soft step, the stop head by whole rollouts."""

    name = "look-ahead"

    def prepare(self) -> State:
        """See `PolicyPhase`."""
        device = self.folds.rows.device
        self.temperature = torch.ones((), device=device)  # of the Gumbel noise
        # A batch is thousands of small kernels, which take longer to launch than to run.
        alone = device.type == "cuda" and self.network.predictor.team is None
        self._learn = Recorded(self.learn, self.folds.generator) if alone else self.learn
        return {}

    def train_batch(self, index: Tensor, share: float) -> None:
        """See `PolicyPhase`."""
        settings = self.settings
        rate = settings.predictor_rate * settings.joint_rate
        set_rate(self.predictor_optimizer, rate * cosine(share, floor=0.1))
        start, end = settings.start_temperature, settings.end_temperature
        self.temperature.fill_(start * (end / start) ** share)
        self._learn(*vars(self.folds.rows[index]).values())

    def learn(self, *parts: Tensor) -> None:
        """Walk with a batch and learn from where it went; ``parts`` are those of its `Rows`."""
        settings, rows = self.settings, Rows(*parts)
        rows = Rows(settings.rounded(rows.values), rows.targets, rows.weight)
        weight, condition = self.prices.draw(2 * rows.weight.shape[1], self.folds.generator)
        with settings.precision(rows.device):
            walk = self._walk(rows, weight, condition)
        # A walk costs as much as several updates: learn from it more than once.
        for _ in range(settings.updates_per_walk):
            with settings.precision(rows.device):
                value, states, soft = self._policy_loss(rows, walk, condition)
            self.improve_policy(value)
            with settings.precision(rows.device):
                value = self._predictor_loss(rows, states, soft)
            step(self.predictor_optimizer, value)

    @torch.no_grad()
    def _walk(self, rows: Rows, weight: Tensor, condition: Tensor | None) -> _Walk:
        """Sample a rollout of *T* steps for every row."""
        network, inputs, steps = self.network, self.inputs, self.settings.max_steps
        network.eval()
        values = by_model(rows.values)
        shape, device = values.shape[:2], values.device
        revealed_at = torch.full(
            (*shape, inputs.n_columns), steps, dtype=torch.int16, device=device
        )
        heard, lost, stops, prices = [], [], [], []
        for number in range(steps + 1):
            mask = revealed_at < number
            seen = inputs.reveal(values, mask)
            said = network.other_half(by_half(seen), self.loss)
            lost.append(by_model(self.loss.of_prediction(said, rows.targets)))
            if number == steps:
                break
            heard.append(by_model(said))
            decision = decide(network.decide, inputs, seen, mask, condition, heard[-1])
            stops.append(decision.stop_probability)
            noise = gumbel((*shape, inputs.n_units), self.folds.generator)
            units = decision.best(self.settings.units_per_step, noise)
            after, paid = reveal_units(inputs, mask, units, decision.available.any(dim=-1), weight)
            revealed_at.masked_fill_(after & ~mask, number)
            prices.append(paid)
        network.train()
        scale = self.settings.reward_scale * self.prices.importance(weight)
        ahead, gains = lost[-1], []
        for now, stop, paid in zip(lost[-2::-1], stops[::-1], prices[::-1], strict=True):
            going_on = paid + ahead
            gains.append((now - going_on) * scale)
            ahead = stop * now + (1 - stop) * going_on
        return _Walk(revealed_at, torch.stack(gains[::-1], dim=-1), torch.stack(heard, dim=2))

    def _policy_loss(
        self, rows: Rows, walk: _Walk, condition: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss of the policy in some states of each row; their masks, and the soft inputs after."""
        settings, inputs, network = self.settings, self.inputs, self.network
        generator, k = self.folds.generator, settings.states_per_row
        n = walk.gain.shape[1]
        which = torch.rand((len(walk.gain), n, k), generator=generator, device=walk.gain.device)
        which = (which**settings.early_states * settings.max_steps).long()
        target = walk.gain.gather(-1, which).flatten(1, 2)
        mask = (walk.revealed_at.unsqueeze(2) < which.unsqueeze(-1)).flatten(1, 2)
        values = by_model(rows.values).repeat_interleave(k, dim=1)
        told = None if condition is None else condition.repeat_interleave(k, dim=1)
        there = which.unsqueeze(-1).expand(-1, -1, -1, walk.said.shape[-1])
        said = walk.said.gather(2, there).flatten(1, 2)
        decision = decide(network.decide, inputs, inputs.reveal(values, mask), mask, told, said)
        gain, noisy = decision.gain, decision.finite_logits.log_softmax(dim=-1)
        noisy = noisy + gumbel(tuple(noisy.shape), generator)
        chosen = (noisy / self.temperature).softmax(dim=-1)
        shown = torch.where(mask, 1.0, soft_columns(inputs, chosen))
        soft = by_half(soft_reveal(inputs, values, shown))
        # The predictor of the other half judges: it never saw the row.
        network.predictor.requires_grad_(False)
        said = network.other_half(soft, self.loss)
        network.predictor.requires_grad_(True)
        targets = rows.targets.repeat_interleave(k, dim=1)
        lost = by_model(self.loss.of_prediction(said, targets))
        w = by_model(rows.weight).repeat_interleave(k, dim=1)
        each = w * (
            0.5 * settings.gain_weight * (gain - target).square() + settings.reward_scale * lost
        )
        return each.mean(dim=1).sum(), by_half(mask), soft.detach()

    def _predictor_loss(self, rows: Rows, mask: Tensor, soft: Tensor) -> Tensor:
        """Loss of the predictors on visited states, on soft states and on random masks."""
        settings, inputs = self.settings, self.inputs
        k = settings.states_per_row
        random = inputs.random_masks(
            tuple(rows.weight.shape), self.folds.generator, settings.most_units
        )
        several = Rows(*(part.repeat_interleave(k, dim=1) for part in vars(rows).values()))
        seen = [
            inputs.reveal(rows.values, random),
            inputs.reveal(several.values, mask),
            soft,
        ]
        joined = Rows(
            rows.values,
            torch.cat([rows.targets, several.targets, several.targets], dim=1),
            torch.cat([rows.weight, several.weight, several.weight], dim=1),
        )
        return member_loss(self.network, self.loss, torch.cat(seen, dim=1), joined)
