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

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from suwr._utils.validation import Interval, Options, parameter
from suwr.baselines.base import PhaseBuilders, Schedule, SelectorPhase, make_adamw
from suwr.baselines.greedy import RuleStopping, Stopping, mean_step_loss
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.nn.ensembles import EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy, Loss
from suwr.nn.networks import Architecture, Network, PolicyOutputs
from suwr.nn.rollout import Policy, block_size
from suwr.training.data import Folds

# Latent samples in the validation of an epoch, which would otherwise take longer than its training.
VALIDATION_SAMPLES = 32
# Hidden layers of the encoders, and least standard deviation of a latent component.
ENCODER_LAYERS, MIN_STD = 2, 1e-3
# Gradients much smaller than this, where the prediction is saturated, do not count.
MIN_GRADIENT = 1e-6
# Scores have at least this logarithm.
MIN_SCORE = 1e-30


def bottleneck(mean: Tensor, std: Tensor) -> Tensor:
    """Divergence of normal distributions from standard normal ones, summed over the components.

    Parameters
    ----------
    mean, std : Tensor of shape (..., n_components)

    Returns
    -------
    Tensor of shape (...)

    Examples
    --------
    >>> bottleneck(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.ones(2, 2)).tolist()
    [0.0, 2.0]
    """
    return 0.5 * (mean.square() + std.square() - 2.0 * std.log() - 1.0).sum(dim=-1)


def vjp(network: EnsembleMLP, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Outputs of a network, and the function for its vector-Jacobian products.

    As `torch.func.vjp`, but without automatic differentiation, which `torch.inference_mode`, the
    mode of rollouts, excludes.

    Parameters
    ----------
    network : EnsembleMLP
        Without dropout.
    x : Tensor of shape (n_members, n, n_in)

    Returns
    -------
    outputs : Tensor of shape (n_members, n, n_out)
    function : callable
        From weights of the outputs ``(n_members, n, n_out)`` to the gradients of the weighted
        outputs with respect to the inputs, ``(n_members, n, n_in)``.
    """
    *hidden, last = zip(network.weights, network.biases, strict=True)
    slopes = []
    for weight, bias in hidden:
        x = torch.baddbmm(bias, x, weight)
        # The derivative of hardswish.
        inner = torch.where(x < 3.0, x / 3.0 + 0.5, 1.0)
        slopes.append(torch.where(x > -3.0, inner, 0.0))
        x = F.hardswish(x)

    def gradients(of_outputs: Tensor) -> Tensor:
        found = torch.bmm(of_outputs, _transposed(last[0]))
        for slope, (weight, _) in zip(reversed(slopes), reversed(hidden), strict=True):
            found = torch.bmm(found * slope, _transposed(weight))
        return found

    return torch.baddbmm(last[1], x, last[0]), gradients


def _transposed(weight: Tensor) -> Tensor:
    # A copy, since OpenBLAS multiplies by a transposed matrix at less than half of its speed.
    return weight.transpose(1, 2).contiguous()


def _softmax_gradient(probability: Tensor, number: int) -> Tensor:
    """Gradient of the probability of a class with respect to the logits."""
    own = probability[..., number : number + 1]
    gradient = -own * probability
    gradient[..., number] += own[..., 0]
    return gradient


class SEFANetwork(Network):
    """One stochastic encoder per column, a predictor of latent samples, and a stopping rule.

    The noise of the latent samples is drawn once and is the same for all rows and states, so that
    decisions and predictions are functions of what is revealed. The samples take the place of the
    members of an ensemble.

    Parameters
    ----------
    architecture : Architecture
        ``n_members`` is the number of latent samples.
    inputs : MaskedInputs
        The units and their costs, and the columns of the encoded values.
    loss : Loss
    latent_size, encoder_size : int
        Latent components of a column, and width of the hidden layers of its encoder.
    stopping : Stopping
    """

    noise: Tensor
    places: Tensor

    def __init__(
        self,
        architecture: Architecture,
        inputs: MaskedInputs,
        loss: Loss,
        latent_size: int,
        encoder_size: int,
        stopping: Stopping,
    ) -> None:
        super().__init__(architecture)
        a = architecture
        self.units, self.loss, self.stopping = inputs, loss, stopping
        self.latent_size = latent_size
        n_latent = a.n_columns * latent_size
        # Positions of the encoded values of each column; the last position is a zero.
        columns = [torch.nonzero(inputs.column_of == c)[:, 0] for c in range(a.n_columns)]
        width = max(len(places) for places in columns)
        padded = [F.pad(p, (0, width - len(p)), value=a.n_values) for p in columns]
        self.register_buffer("places", torch.stack(padded))
        self.register_buffer("noise", torch.randn(a.n_members, n_latent))
        self.encoder = EnsembleMLP(
            a.n_columns, width + 1, encoder_size, ENCODER_LAYERS, 2 * latent_size
        )
        self.predictor = EnsembleMLP(1, n_latent, a.hidden_size, a.n_layers, a.n_outputs)

    def encode(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations of the latent components, ``(n, n_latent)`` each."""
        values, mask = inputs.split([self.architecture.n_values, self.architecture.n_columns], 1)
        own = F.pad(values, (0, 1))[:, self.places]
        own = torch.cat([own, mask.unsqueeze(-1)], dim=-1).transpose(0, 1).contiguous()
        mean, raw = self.encoder(own).transpose(0, 1).unflatten(-1, (2, -1)).unbind(dim=2)
        return mean.flatten(1), F.softplus(raw.flatten(1)) + MIN_STD

    def latent_samples(self, inputs: Tensor) -> Tensor:
        """Latent samples with the noise of the network, ``(n_samples, n, n_latent)``."""
        mean, std = self.encode(inputs)
        return mean + std * self.noise.unsqueeze(1)

    def outputs(self, latent: Tensor) -> Tensor:
        """Outputs of the predictor for latent samples, ``(n_samples, n, n_outputs)``."""
        return self.predictor(latent.flatten(0, 1).unsqueeze(0))[0].unflatten(0, latent.shape[:2])

    def predict(self, inputs: Tensor) -> Tensor:
        """See `suwr.nn.networks.Network`; the outputs for each latent sample."""
        return self.outputs(self.latent_samples(inputs))

    def scores(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the units, ``(n, n_units)``, and the prediction ``(n, n_outputs)``."""
        latent = self.latent_samples(inputs)
        outputs, gradients = vjp(self.predictor, latent.flatten(0, 1).unsqueeze(0))
        samples = self.loss.predict(outputs)
        prediction = samples[0].unflatten(0, latent.shape[:2]).mean(dim=0)

        def shares(of_outputs: Tensor) -> Tensor:
            gradient = gradients(of_outputs)[0].unflatten(0, latent.shape[:2])
            return self._gradient_shares(gradient, inputs)

        if not isinstance(self.loss, CrossEntropy):
            return shares(torch.ones_like(outputs)), prediction
        if self.loss.n_classes == 2:
            # The gradients of two classes are opposite.
            return shares(_softmax_gradient(samples, 0)), prediction
        scores = torch.zeros(len(inputs), self.units.n_units, device=inputs.device)
        for number, weight in enumerate(prediction.unbind(dim=1)):
            scores = scores + weight.unsqueeze(1) * shares(_softmax_gradient(samples, number))
        return scores, prediction

    def _gradient_shares(self, gradient: Tensor, inputs: Tensor) -> Tensor:
        """Share of each unit in the length of gradients ``(n_samples, n, n_latent)``.

        Averaged over the samples, ``(n, n_units)``.
        """
        squares = gradient.unflatten(-1, (-1, self.latent_size)).square().sum(dim=-1)
        if self.units.single:
            length = whole = squares.sqrt()
        else:
            # Only the hidden columns of a unit count, since others do not change if it is revealed.
            columns = self.units.membership.to(squares.dtype).T
            hidden = 1.0 - inputs[:, self.architecture.n_values :]
            length, whole = (squares * hidden @ columns).sqrt(), (squares @ columns).sqrt()
        return (length / (whole.sum(dim=-1, keepdim=True) + MIN_GRADIENT)).mean(dim=0)

    def policy_outputs(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> PolicyOutputs:
        """See `suwr.nn.networks.Network`."""
        return self.decide(inputs)[1]

    def decide(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> tuple[Tensor, PolicyOutputs]:
        """See `suwr.nn.networks.Network`; sampled policies draw units by their scores."""
        scores, prediction = self.scores(inputs)
        stop_logit = self.stopping.logit(self.units, inputs, scores, prediction)
        return stop_logit, PolicyOutputs(-stop_logit, scores.clamp_min(MIN_SCORE).log())

    def for_validation(self) -> SEFANetwork:
        """A network that shares the weights, spends the whole budget and takes fewer samples."""
        twin = copy.copy(self)
        twin.stopping = Stopping()
        twin._buffers = {**self._buffers, "noise": self.noise[:VALIDATION_SAMPLES]}
        twin.architecture = replace(self.architecture, n_members=len(twin.noise))
        return twin


@dataclass(kw_only=True, eq=False, repr=False)
class BaseSEFA(RuleStopping):
    """SEFA for classes and values."""

    max_steps: int | None = parameter(5, None, Interval(Integral, 1))
    stopping: Literal["budget", "confidence"] = parameter("budget", Options("budget", "confidence"))
    bottleneck_weight: float = parameter(5e-4, Interval(Real, 0))
    latent_size: int = parameter(4, Interval(Integral, 1))
    encoder_size: int = parameter(20, Interval(Integral, 1))
    n_samples: int = parameter(200, Interval(Integral, 1))
    n_training_samples: int = parameter(20, Interval(Integral, 1))
    n_layers: int = 2
    learning_rate: float = parameter(3e-3, Interval(Real, 0, closed="neither"))
    patience: int | None = parameter(None, None, Interval(Integral, 1))

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        self.max_steps_, inputs = self._resolve_max_steps(), data.inputs
        architecture = Architecture(**self._network_sizes(data), n_members=self.n_samples)
        sizes, rule = (self.latent_size, self.encoder_size), self._stopping_rule()
        network = SEFANetwork(architecture, inputs, data.loss, *sizes, rule).to(self.device_)
        self.policy_ = Policy(network, inputs, data.loss, self.max_steps_)
        batch_size = self._batch_size(len(data.rows))
        schedule = Schedule(self.max_epochs, batch_size, self.learning_rate, self.patience)
        optimizer = make_adamw(network, schedule)
        # The best epoch is that of the policy which the network implies.
        twin = network.for_validation()
        block = min(block_size(twin.architecture, inputs.device), len(data.validation))
        policy = Policy(twin, inputs, data.loss, self.max_steps_, block=block)

        # β is published for a cross-entropy in nats; losses are relative to the best constant's.
        unit = data.loss.unit if isinstance(data.loss, CrossEntropy) else 1.0
        weight, generator = self.bottleneck_weight / unit, folds.generator

        def of_rows(index: Tensor, progress: float) -> Tensor:
            """Loss of the mean prediction over new latent samples, and the bottleneck."""
            rows, mask = folds.rows[index], inputs.random_masks(tuple(index.shape), generator)
            mean, std = network.encode(inputs.reveal(rows.values, mask))
            shape = (self.n_training_samples, *mean.shape)
            noise = torch.randn(shape, generator=generator, device=generator.device)
            samples = data.loss.predict(network.outputs(mean + std * noise))
            losses = data.loss.of_prediction(samples.mean(dim=0), rows.targets)
            return ((losses + weight * bottleneck(mean, std)) * rows.weight).mean()

        steps, validate = [(optimizer, of_rows)], partial(mean_step_loss, policy, data)
        name = self._method_name()
        return [lambda: SelectorPhase(name, network, folds, schedule, steps, validate)]


class SEFAClassifier(TableClassifier, BaseSEFA):
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


class SEFARegressor(TableRegressor, BaseSEFA):
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
