"""The network of SEFA: encoders of columns, a predictor of latent samples, scores of units."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from suwr.baselines.stopping import Stopping
from suwr.nn.ensembles import EnsembleMLP
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy, Loss
from suwr.nn.networks import Architecture, Network, PolicyOutputs

__all__ = ["SEFANetwork", "bottleneck", "input_gradients"]

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


def input_gradients(network: EnsembleMLP, x: Tensor, of_outputs: Tensor) -> Tensor:
    """Gradients of weighted outputs with respect to the inputs.

    By hand, since rollouts run in `torch.inference_mode`, without automatic differentiation.

    Parameters
    ----------
    network : EnsembleMLP
        With a single member, without dropout.
    x : Tensor of shape (n, n_in)
    of_outputs : Tensor of shape (k, n, n_out)
        Weights of the outputs of each row; one gradient is computed for each of the ``k``.

    Returns
    -------
    Tensor of shape (k, n, n_in)
    """
    weights, biases = [w[0] for w in network.weights], [b[0] for b in network.biases]
    before = []
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        before.append(torch.addmm(bias, x, weight))
        x = F.hardswish(before[-1])
    gradient = of_outputs @ weights[-1].T.contiguous()
    for activation, weight in zip(reversed(before), reversed(weights[:-1]), strict=True):
        inner = torch.where(activation < 3.0, activation / 3.0 + 0.5, 1.0)
        slope = torch.where(activation > -3.0, inner, 0.0)
        gradient = (gradient * slope) @ weight.T.contiguous()
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
        samples = self.loss.predict(self.outputs(latent))
        prediction = samples.mean(dim=0)
        classes = samples.shape[-1]
        if not isinstance(self.loss, CrossEntropy):
            return self._gradient_shares(latent, torch.ones_like(samples), inputs), prediction
        # The gradients of two classes are opposite.
        if classes == 2:
            return self._gradient_shares(latent, self._slopes(samples, 0), inputs), prediction
        scores = torch.zeros(len(inputs), self.units.n_units, device=inputs.device)
        for number in range(classes):
            shares = self._gradient_shares(latent, self._slopes(samples, number), inputs)
            scores = scores + prediction[:, number : number + 1] * shares
        return scores, prediction

    @staticmethod
    def _slopes(probability: Tensor, number: int) -> Tensor:
        """Gradient of the probability of a class with respect to the logits."""
        own = probability[..., number : number + 1]
        slopes = -own * probability
        slopes[..., number] += own[..., 0]
        return slopes

    def _gradient_shares(self, latent: Tensor, of_outputs: Tensor, inputs: Tensor) -> Tensor:
        """Mean over the samples of the share of each unit in the length of the gradient."""
        flat = input_gradients(
            self.predictor, latent.flatten(0, 1), of_outputs.flatten(0, 1).unsqueeze(0)
        )
        # Squared lengths, (n_samples, n, n_columns).
        squares = flat[0].unflatten(1, (-1, self.latent_size)).square().sum(dim=-1)
        squares = squares.unflatten(0, latent.shape[:2])
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
