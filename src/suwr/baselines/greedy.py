"""What GDFS and DIME share: the core's networks, rollout and predictor training.

Both look one step ahead from what is revealed, so both run through `suwr.nn.rollout` and are
leak-free by construction. They differ in how the next unit is learned and when to stop.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import torch
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval
from torch import Tensor

from suwr.baselines.base import COMMON_CONSTRAINTS
from suwr.estimators.progress import training_progress
from suwr.estimators.sequential import SequentialModel
from suwr.estimators.table_model import TrainingData, seeded
from suwr.masking import Patches
from suwr.nn.judge import objective
from suwr.nn.networks import Architecture, SeparateNetwork
from suwr.nn.phases import run_phases
from suwr.nn.predictor import FineTuning, Pretraining, weighted_loss
from suwr.nn.rollout import BLOCK, Policy
from suwr.nn.rows import Folds, Rows
from suwr.nn.schedule import cosine, fade, set_rate, step, update_average
from suwr.nn.settings import Epoch, Progress, Settings

__all__ = ["GREEDY_CONSTRAINTS", "BaseGreedy", "greedy_settings"]

GREEDY_CONSTRAINTS: dict[str, Any] = {
    **{k: v for k, v in COMMON_CONSTRAINTS.items() if k not in ("patience", "learning_rate")},
    "max_steps": [None, Interval(Integral, 1, None, closed="left")],
}
# Without `max_steps`, no more than this many: a longer story is no explanation.
DEFAULT_MOST_STEPS = 32


def greedy_settings(
    sparsity_weight: float, max_steps: int, max_epochs: int, batch_size: int
) -> Settings:
    """The core's settings, as far as these methods read them."""
    return Settings(
        sparsity_weight=sparsity_weight,
        max_steps=max_steps,
        max_epochs=max_epochs,
        batch_size=batch_size,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class BaseGreedy(SequentialModel):
    """Parameters and life cycle of a greedy sequential method."""

    _parameter_constraints: ClassVar[dict[str, Any]] = GREEDY_CONSTRAINTS

    max_steps: int | None = None
    groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None
    costs: Mapping[str, float] | ArrayLike | None = None
    hidden_size: int = 128
    n_layers: int = 3
    max_epochs: int = 100
    batch_size: int | Literal["auto"] = "auto"
    validation_fraction: float = 0.1
    device: str = "auto"
    random_state: Any = None
    verbose: int = 0

    # What the methods differ in.

    @abstractmethod
    def _make_network(self, architecture: Architecture, data: TrainingData) -> SeparateNetwork:
        """The network, with its own `decide`."""

    @abstractmethod
    def _improve(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        rows: Rows,
        share: float,
        generator: torch.Generator,
    ) -> tuple[Tensor, list[Tensor]]:
        """Loss of the select head on a batch ``(2, b)``, and the masks that it passed through."""

    def _check_params(self) -> None:
        """Refuse what single constraints cannot express."""

    def _objective_weight(self) -> float:
        """λ by which validation judges, in units of the best constant prediction's loss."""
        return 0.0

    # Fitting.

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Train policy and predictor.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Numbers, or the columns of a pandas or polars frame: numbers, text, categories,
            booleans. NaN means 'missing', which is a value like any other.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        self
        """
        self._validate_params()
        self._check_params()
        data = self._training_data(X, y, sample_weight)
        limit = DEFAULT_MOST_STEPS if self.max_steps is None else self.max_steps
        self.max_steps_ = min(limit, len(self.units_))
        settings = greedy_settings(
            self._objective_weight(),
            self.max_steps_,
            self.max_epochs,
            self._batch_size(len(data.rows)),
        )
        epochs = settings.pretrain_epochs + settings.max_epochs + settings.finetune_epochs
        with (
            seeded(self.device_, data.seed) as generator,
            training_progress(epochs, self.verbose) as progress,
        ):
            network = self._train(data, settings, generator, progress)
        self.policy_ = Policy(network, data.inputs, data.loss, self.max_steps_)
        return self

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
        final = torch.as_tensor(policy.rollout(data.rows.values).mask, device=policy.device)
        tuning = FineTuning(network, inputs, loss, folds, lambda epoch: final, settings)
        run_phases([lambda: tuning], generator, progress)
        return network

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
        phase = type(self).__name__.removesuffix("Classifier").removesuffix("Regressor")
        total, done = settings.max_epochs * folds.n_batches(settings.batch_size), 0
        best, best_state = float("inf"), copy.deepcopy(network.state_dict())
        for epoch in range(settings.max_epochs):
            network.train()
            for index in folds.batches(settings.batch_size):
                share = done / total
                done += 1
                rows = folds.rows[index]
                set_rate(select, settings.policy_rate * cosine(share, floor=0.05))
                softness = fade(share, settings.soft_until, settings.hard_from)
                judged = _softened(network, data, rows, softness)
                value, passed = self._improve(network, data, judged, share, folds.generator)
                step(select, value)
                update_average(average, network.policy, settings.average_decay)
                masks = [inputs.random_masks(tuple(index.shape), folds.generator)]
                masks.append(_one_of(passed, folds.generator))
                twice = Rows(*(torch.cat([part, part], dim=1) for part in vars(rows).values()))
                step(
                    predictor,
                    weighted_loss(network, inputs, loss, twice, torch.cat(masks, dim=1)),
                )
            current, network.policy = network.policy, average
            network.eval()
            now = objective(judge, loss, data.validation, self._objective_weight())
            # While temperature or exploration is high, a good epoch is a lucky one.
            if now < best and share >= 0.5:
                best, best_state = now, copy.deepcopy(network.state_dict())
            progress(Epoch(phase, epoch + 1, settings.max_epochs, now, judge))
            network.policy = current
        if best < float("inf"):
            network.load_state_dict(best_state)
        network.eval()


def _one_of(passed: list[Tensor], generator: torch.Generator) -> Tensor:
    """For each row one of the masks that it passed through, ``(2, b, n_columns)``."""
    stacked = torch.stack(passed)
    shape = (1, *stacked.shape[1:3])
    pick = torch.randint(0, len(passed), shape, generator=generator, device=stacked.device)
    return stacked.gather(0, pick.unsqueeze(-1).expand(-1, -1, -1, stacked.shape[-1]))[0]


@torch.no_grad()
def _softened(network: SeparateNetwork, data: TrainingData, rows: Rows, softness: float) -> Rows:
    """Targets mixed with what the other half's predictor says of the whole row.

    As in the core: early in training a label's noise drowns the small difference between units.
    """
    if softness == 0.0:
        return rows
    shape = (*rows.weight.shape, data.inputs.n_columns)
    everything = torch.ones(shape, dtype=torch.bool, device=rows.values.device)
    network.eval()
    outputs = network.predictor(data.inputs.reveal(rows.values, everything), flip=True)
    network.train()
    return Rows(rows.values, rows.targets.lerp(data.loss.predict(outputs), softness), rows.weight)
