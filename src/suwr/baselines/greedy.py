"""What GDFS and DIME share: the core's networks, rollout and predictor training.

Both look one step ahead from what is revealed, so both run through `suwr.nn.rollout` and are
leak-free by construction. They differ in how the next unit is learned and when to stop.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval
from torch import Tensor

from suwr.baselines.finetuning import finetune_along
from suwr.baselines.method import METHOD_CONSTRAINTS, BaseMethod
from suwr.estimators.sequential import SequentialModel
from suwr.estimators.table_model import TrainingData
from suwr.nn.networks import Architecture, SeparateNetwork
from suwr.nn.rollout import BLOCK, Policy
from suwr.training.config import Settings, linear_decay
from suwr.training.data import Folds, Rows
from suwr.training.loop import (
    Epoch,
    Metrics,
    Progress,
    cosine_decay,
    optimizer_step,
    run_phases,
    set_rate,
    update_average,
)
from suwr.training.predictor import Pretraining, weighted_loss
from suwr.training.validation import validation_objective

__all__ = ["GREEDY_CONSTRAINTS", "BaseGreedy", "Step"]

GREEDY_CONSTRAINTS: dict[str, Any] = {
    **METHOD_CONSTRAINTS,
    "max_steps": [None, Interval(Integral, 1, None, closed="left")],
}
# Without `max_steps`, no more than this many: a longer story is no explanation.
DEFAULT_MOST_STEPS = 32
# Steps of a row that one update learns from.
STEPS_PER_ROW = 4


class Step(NamedTuple):
    """Steps of rows: the masks before, the units that were revealed, the masks after."""

    before: Tensor
    unit: Tensor
    after: Tensor


def _draw_step(steps: Step, generator: torch.Generator) -> Step:
    """For each row one of its steps."""
    n, *shape = steps.unit.shape
    pick = torch.randint(0, n, (1, *shape), generator=generator, device=steps.unit.device)

    def take(mask: Tensor) -> Tensor:
        return mask.gather(0, pick.unsqueeze(-1).expand(1, *mask.shape[1:]))[0]

    return Step(take(steps.before), steps.unit.gather(0, pick)[0], take(steps.after))


@dataclass(kw_only=True, eq=False, repr=False)
class BaseGreedy(BaseMethod, SequentialModel):
    """Parameters and training of a greedy sequential method."""

    _parameter_constraints: ClassVar[dict[str, Any]] = GREEDY_CONSTRAINTS

    max_steps: int | None = None

    # What the methods differ in.

    @abstractmethod
    def _make_network(self, architecture: Architecture, data: TrainingData) -> SeparateNetwork:
        """The network, with its own `decide`."""

    @abstractmethod
    def _pick(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        shown: Tensor,
        free: Tensor,
        share: float,
        generator: torch.Generator,
    ) -> Tensor:
        """The next unit of each row while training, ``(n,)``; one of those that are ``free``."""

    @abstractmethod
    def _step_loss(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        rows: Rows,
        step: Step,
        share: float,
        generator: torch.Generator,
    ) -> Tensor:
        """What the select head minimises on single steps of rows ``(2, m)``."""

    def _objective_weight(self) -> float:
        """λ by which validation judges, in units of the best constant prediction's loss."""
        return 0.0

    # Fitting.

    def _n_epochs(self) -> int:
        plan = Settings(sparsity_weight=0.0, max_steps=1, max_epochs=self.max_epochs)
        return plan.pretrain_epochs + plan.max_epochs + plan.finetune_epochs

    def _settings(self, data: TrainingData) -> Settings:
        return Settings(
            sparsity_weight=self._objective_weight(),
            max_steps=self.max_steps_,
            max_epochs=self.max_epochs,
            batch_size=self._batch_size(len(data.rows)),
        )

    def _learn(self, data: TrainingData, generator: torch.Generator, progress: Progress) -> None:
        limit = DEFAULT_MOST_STEPS if self.max_steps is None else self.max_steps
        self.max_steps_ = min(limit, len(self.units_))
        network = self._train(data, self._settings(data), generator, progress)
        self.policy_ = Policy(network, data.inputs, data.loss, self.max_steps_)

    def predict_steps(self, X: Any) -> NDArray[np.float64]:
        """Predictions after no unit, one unit, … up to ``max_steps_``: the curve of one model.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n, max_steps_ + 1, n_classes), or (n, max_steps_ + 1) for values
            A row that stopped keeps its last prediction.
        """
        parts = []
        for values in self._chunks(self._read(X)):
            prediction = self.policy_.rollout(values, record=True).prediction
            assert prediction is not None
            steps = np.minimum(np.arange(self.max_steps_ + 1), prediction.shape[1] - 1)
            taken = (~np.isnan(prediction[:, :, 0])).sum(axis=1, keepdims=True) - 1
            rows = np.arange(len(prediction))[:, None]
            parts.append(self._in_user_units(prediction[rows, np.minimum(steps, taken)]))
        result = np.concatenate(parts)
        return result if self._class_labels() is not None else result[:, :, 0]

    def _train(
        self,
        data: TrainingData,
        settings: Settings,
        generator: torch.Generator,
        progress: Progress,
    ) -> SeparateNetwork:
        """Predictors on random masks; select head and predictors; predictors on final masks."""
        architecture = Architecture(
            n_values=data.rows.values.shape[1],
            n_columns=data.inputs.n_columns,
            n_units=data.inputs.n_units,
            n_outputs=self._n_outputs(),
            hidden_size=self.hidden_size,
            n_layers=self.n_layers,
        )
        network = self._make_network(architecture, data).to(self.device_)
        network.predictor.dropout = settings.dropout
        folds = Folds(data.rows, generator)
        inputs, loss = data.inputs, data.loss
        pretraining = Pretraining(network, inputs, loss, folds, settings)
        run_phases([lambda: pretraining], generator, progress)
        self._train_select(network, data, folds, settings, progress)
        policy = Policy(network, inputs, loss, settings.max_steps)
        finetune_along(network, policy, loss, folds, settings, progress)
        return network

    def _validation_value(self, judge: Policy, data: TrainingData, settings: Settings) -> float:
        """What the best epoch is chosen by: ``L(f(x ⊙ h), y) + λ ‖h‖`` on validation rows."""
        found = validation_objective(judge, data.loss, data.validation, self._objective_weight())
        return float(found.value)

    def _improve(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        rows: Rows,
        share: float,
        optimizer: torch.optim.AdamW,
        generator: torch.Generator,
    ) -> Tensor:
        """One update of the select head; returns one of the masks that each row passed through.

        Every row walks all steps, but learns from a few of them, drawn at random: steps of one row
        are much alike, and looking back at each would cost most of the time.
        """
        # The predictors judge here: they do not learn, and drop nothing out.
        network.predictor.requires_grad_(False).eval()
        steps = self._walk(network, data, rows, share, generator)
        drawn = [_draw_step(steps, generator) for _ in range(min(STEPS_PER_ROW, self.max_steps_))]
        joined = Step(*(torch.cat(parts, dim=1) for parts in zip(*drawn, strict=True)))
        repeated = Rows(*(torch.cat([part] * len(drawn), dim=1) for part in vars(rows).values()))
        optimizer_step(
            optimizer, self._step_loss(network, data, repeated, joined, share, generator)
        )
        network.predictor.requires_grad_(True).train()
        return drawn[0].after

    @torch.no_grad()
    def _walk(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        rows: Rows,
        share: float,
        generator: torch.Generator,
    ) -> Step:
        """All steps of rows ``(2, b)``; the steps are a further, first dimension."""
        inputs, shape = data.inputs, rows.weight.shape
        values = rows.values.flatten(0, 1)
        mask = torch.zeros(len(values), inputs.n_columns, dtype=torch.bool, device=values.device)
        masks, units = [mask], []
        for _ in range(self.max_steps_):
            free = inputs.available(mask)
            # A row that has everything may draw any unit: nothing comes of it.
            free = free | ~free.any(dim=1, keepdim=True)
            shown = inputs.reveal(values, mask)
            units.append(self._pick(network, data, shown, free, share, generator))
            mask = inputs.add(mask, units[-1])
            masks.append(mask)
        seen = torch.stack(masks).unflatten(1, shape)
        return Step(seen[:-1], torch.stack(units).unflatten(1, shape), seen[1:])

    def _train_select(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        folds: Folds,
        settings: Settings,
        progress: Progress,
    ) -> None:
        """Train the select head; leave the best epoch by validation in ``network``."""
        inputs, loss = data.inputs, data.loss
        judge = Policy(
            network, inputs, loss, settings.max_steps, block=min(BLOCK, len(data.validation))
        )
        average = copy.deepcopy(network.policy)
        select = torch.optim.AdamW(network.policy.parameters(), weight_decay=0.0)
        predictor = torch.optim.AdamW(
            network.predictor.parameters(),
            lr=settings.predictor_rate * 0.1,
            weight_decay=settings.weight_decay,
        )
        phase = self._method_name()
        total, done = settings.max_epochs * folds.n_batches(settings.batch_size), 0
        best, best_state = float("inf"), copy.deepcopy(network.state_dict())
        for epoch in range(settings.max_epochs):
            network.train()
            for index in folds.batches(settings.batch_size):
                share = done / total
                done += 1
                rows = folds.rows[index]
                set_rate(select, settings.policy_rate * cosine_decay(share, floor=0.05))
                softness = linear_decay(share, settings.soft_until, settings.hard_from)
                judged = _softened(network, data, rows, softness)
                visited = self._improve(network, data, judged, share, select, folds.generator)
                update_average(average, network.policy, settings.average_decay)
                masks = [inputs.random_masks(tuple(index.shape), folds.generator)]
                masks.append(visited)
                twice = Rows(*(torch.cat([part, part], dim=1) for part in vars(rows).values()))
                optimizer_step(
                    predictor,
                    weighted_loss(network, inputs, loss, twice, torch.cat(masks, dim=1)),
                )
            current, network.policy = network.policy, average
            network.eval()
            now = self._validation_value(judge, data, settings)
            # While temperature or exploration is high, a good epoch is a lucky one.
            if now < best and share >= 0.5:
                best, best_state = now, copy.deepcopy(network.state_dict())
            progress(Epoch(phase, epoch + 1, settings.max_epochs, Metrics(None, now, policy=judge)))
            network.policy = current
        if best < float("inf"):
            network.load_state_dict(best_state)
        network.eval()


@torch.no_grad()
def _softened(network: SeparateNetwork, data: TrainingData, rows: Rows, softness: float) -> Rows:
    """Targets mixed with what the other half's predictor says of the whole row.

    As in the core: early in training a label's noise drowns the small difference between units.
    """
    if softness == 0.0:
        return rows
    shape = (*rows.weight.shape, data.inputs.n_columns)
    everything = torch.ones(shape, dtype=torch.bool, device=rows.values.device)
    network.predictor.eval()
    outputs = network.predictor(data.inputs.reveal(rows.values, everything), flip=True)
    network.predictor.train()
    return Rows(rows.values, rows.targets.lerp(data.loss.predict(outputs), softness), rows.weight)
