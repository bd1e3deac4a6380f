"""The network of SEFA: encoders of columns, a predictor of latent samples, scores of units."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from suwr.baselines.stopping import Stopping
from suwr.nn.ensembles import EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy, Loss
from suwr.nn.networks import Architecture, Network, PolicyOutputs

__all__ = ["SEFANetwork", "bottleneck", "vjp"]

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
        available = self.units.available(inputs[:, self.architecture.n_values :] > 0.5)
        stop = self.stopping.applies(scores, available, self.units.costs, prediction)
        stop_logit = torch.where(stop, torch.inf, -torch.inf)
        return stop_logit, PolicyOutputs(-stop_logit, scores.clamp_min(MIN_SCORE).log())

    def for_validation(self) -> SEFANetwork:
        """A network that shares the weights, spends the whole budget and takes fewer samples."""
        twin = copy.copy(self)
        twin.stopping = Stopping()
        twin._buffers = {**self._buffers, "noise": self.noise[:VALIDATION_SAMPLES]}
        twin.architecture = replace(self.architecture, n_members=len(twin.noise))
        return twin
