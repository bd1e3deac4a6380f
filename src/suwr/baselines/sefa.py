"""SEFA: acquisition by gradients in a stochastic latent space (Norcliffe et al. 2025).

Each column has its own encoder, which maps its value, or that it is hidden, to a normal
distribution of a few latent components. A predictor reads samples of the components of all columns,
and the prediction is the mean over the samples. Both are trained on random masks, by the loss of
that mean and a small weight β of the information bottleneck, the divergence of the latent
distributions from a standard normal one.

No selection policy is trained. In a state, the gradient of the probability of each class with
respect to the latent components of a feature is normalised over the features and averaged over the
latent samples and, with the predicted probabilities as weights, over the classes. The feature of
largest score is revealed next: latent samples of hidden features stand for the values that they
might have, so that features which are informative only jointly can have a large gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from suwr._utils.validation import Interval, Options, parameter_error
from suwr.baselines.base import SELECTOR_CONSTRAINTS
from suwr.baselines.greedy import SEQUENTIAL_CONSTRAINTS, BaseSequentialBaseline, mean_step_loss
from suwr.baselines.sefa_network import SEFANetwork, bottleneck
from suwr.baselines.stopping import Stopping
from suwr.baselines.training import Schedule, SelectorPhase, make_adamw
from suwr.estimators.table import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.losses import CrossEntropy
from suwr.nn.networks import Architecture
from suwr.nn.rollout import Policy, block_size
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase, optimizer_step

__all__ = ["SEFAClassifier", "SEFARegressor"]


@dataclass(kw_only=True, eq=False, repr=False)
class BaseSEFA(BaseSequentialBaseline):
    """SEFA for classes and values."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SELECTOR_CONSTRAINTS,
        **SEQUENTIAL_CONSTRAINTS,
        "stopping": [Options("budget", "confidence")],
        "max_cost": [None, Interval(Real, 0)],
        "confidence": [Interval(Real, 0, 1, closed="both")],
        "bottleneck_weight": [Interval(Real, 0)],
        "latent_size": [Interval(Integral, 1)],
        "encoder_size": [Interval(Integral, 1)],
        "n_samples": [Interval(Integral, 1)],
        "n_training_samples": [Interval(Integral, 1)],
    }

    max_steps: int | None = 5
    stopping: Literal["budget", "confidence"] = "budget"
    max_cost: float | None = None
    confidence: float = 0.95
    bottleneck_weight: float = 5e-4
    latent_size: int = 4
    encoder_size: int = 20
    n_samples: int = 200
    n_training_samples: int = 20
    n_layers: int = 2
    learning_rate: float = 3e-3
    patience: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.stopping == "confidence" and not hasattr(self, "predict_proba"):
            raise parameter_error(
                "stopping", type(self).__name__, "'budget' for regression", self.stopping
            )

    def _phases(
        self, data: TrainingData, generator: torch.Generator
    ) -> Sequence[Callable[[], Phase]]:
        self.max_steps_ = self._resolve_max_steps()
        architecture = Architecture(**self._network_sizes(data), n_members=self.n_samples)
        rule = {
            "confidence": Stopping(confidence=self.confidence),
            "budget": Stopping(max_cost=self.max_cost),
        }[self.stopping]
        network = SEFANetwork(
            architecture, data.inputs, data.loss, self.latent_size, self.encoder_size, rule
        ).to(self.device_)
        self.policy_ = Policy(network, data.inputs, data.loss, self.max_steps_)
        schedule = Schedule(
            self.max_epochs, self._batch_size(len(data.rows)), self.learning_rate, self.patience
        )
        return [lambda: self._phase(network, data, Folds(data.rows, generator), schedule)]

    def _phase(
        self, network: SEFANetwork, data: TrainingData, folds: Folds, schedule: Schedule
    ) -> SelectorPhase:
        """Training on random masks; the best epoch is that of the policy which it implies."""
        optimizer = make_adamw(network, schedule)
        twin = network.for_validation()
        policy = Policy(
            twin, data.inputs, data.loss, self.max_steps_,
            block=min(block_size(twin.architecture, data.inputs.device), len(data.validation)),
        )  # fmt: skip

        def update(index: Tensor, progress: float) -> Tensor:
            mask = data.inputs.random_masks(tuple(index.shape), folds.generator)
            loss = self._loss(network, data, folds.rows[index], mask, folds.generator)
            optimizer_step(optimizer, loss)
            return loss

        def validate() -> Metrics:
            objective = mean_step_loss(policy, data)
            return Metrics(
                validation_objective=float(objective.value), mean_cost=float(objective.mean_cost)
            )

        return SelectorPhase(
            self._method_name(), network, folds, schedule, [optimizer], update, validate
        )

    def _loss(
        self,
        network: SEFANetwork,
        data: TrainingData,
        rows: Rows,
        mask: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """Loss of the mean prediction over new latent samples, and the information bottleneck."""
        mean, std = network.encode(data.inputs.reveal(rows.values, mask))
        shape = (self.n_training_samples, *mean.shape)
        noise = torch.randn(shape, generator=generator, device=generator.device)
        samples = data.loss.predict(network.outputs(mean + std * noise))
        losses = data.loss.of_prediction(samples.mean(dim=0), rows.targets)
        # β is published for a cross-entropy in nats; losses are relative to the best constant's.
        unit = data.loss.unit if isinstance(data.loss, CrossEntropy) else 1.0
        losses = losses + self.bottleneck_weight / unit * bottleneck(mean, std)
        return (losses * rows.weight).mean()


class SEFAClassifier(ClassificationTarget, BaseSEFA):
    """SEFA: units in decreasing order of the gradients in a stochastic latent space.

    Like SUWR it decides from what is revealed. It does not estimate the gain of the next unit but
    how much the probable classes depend on a hidden unit, over many latent samples of all hidden
    units. `select`, `explain`, `acquire`, `predict_masked` and `mask_probability` are those of
    `suwr.SUWRClassifier`.

    Parameters
    ----------
    max_steps : int or None, default=5
        Maximum number of units revealed in a row. None means all units, but at most 32.
    stopping : {'budget', 'confidence'}, default='budget'
        'budget' stops after ``max_steps``, or if the next unit would exceed ``max_cost``;
        'confidence' if a class has at least the probability ``confidence``. The publication has no
        rule.
    max_cost : float or None, default=None
        Maximum total cost of the units of a row, for ``stopping='budget'``. A unit that is covered
        by other, overlapping units counts as paid for.
    confidence : float, default=0.95
        Probability at which to stop, for ``stopping='confidence'``.
    bottleneck_weight : float, default=0.0005
        Weight β of the information bottleneck, relative to the cross-entropy in nats.
    latent_size : int, default=4
        Number of latent components of each column.
    encoder_size : int, default=20
        Width of the two hidden layers of the encoder of each column.
    n_samples : int, default=200
        Number of latent samples of a state in selection and prediction.
    n_training_samples : int, default=20
        Number of latent samples of a row in training.
    n_layers : int, default=2
        Number of hidden layers of the predictor.
    learning_rate : float, default=0.003
        Initial learning rate.
    patience : int or None, default=None
        Number of epochs without improvement on the validation rows after which training stops.
    groups, costs
        As in `suwr.SUWRClassifier`; the costs only affect `cost` and ``max_cost``.
    hidden_size, max_epochs, batch_size, validation_fraction, device, random_state, verbose
        As in `suwr.SUWRClassifier`.

    Attributes
    ----------
    policy_ : Policy
        The trained networks.
    max_steps_ : int
        The maximum number of units revealed in a row.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import SEFAClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SEFAClassifier(max_steps=2, max_epochs=3, n_samples=10, random_state=0).fit(X, y)
    >>> set(clf.select(X).sum(axis=1).tolist())
    {2}
    """


class SEFARegressor(RegressionTarget, BaseSEFA):
    """SEFA for squared error; see `SEFAClassifier`. ``stopping='confidence'`` is not available.

    The publication is about classes. Here the gradient is that of the predicted value.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import SEFARegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = SEFARegressor(max_steps=2, max_epochs=1, n_samples=10, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
