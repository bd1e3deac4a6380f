"""The networks: a policy with two heads beside an ensemble of predictors.

Each reads ``[x ⊙ h, h]`` and nothing else. No layer mixes rows, so a row's output does not depend
on its batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Architecture", "EnsembleMLP", "Network", "SeparateNetwork", "SharedNetwork", "build"]


@dataclass(frozen=True)
class Architecture:
    """Everything that fixes the shapes of the networks.

    Attributes
    ----------
    n_values : int
        Encoded numbers per row (a categorical column has several).
    n_columns : int
        Columns of the table, *d*.
    n_units, n_outputs : int
        Choices of the select head; outputs of the predictor.
    hidden_size, n_layers : int
        Width and number of hidden layers of each network.
    n_members : int
        Predictors in the ensemble.
    shared : bool
        One encoder under all three heads, as in the paper's Appendix F.
    """

    n_values: int
    n_columns: int
    n_units: int
    n_outputs: int
    hidden_size: int
    n_layers: int
    n_members: int = 2
    shared: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for model files."""
        return asdict(self)


class EnsembleMLP(nn.Module):
    """``n_members`` feed-forward networks of one shape, evaluated by one batched product a layer.

    Input ``(n_members, n, n_in)`` gives ``(n_members, n, n_out)``.
    """

    def __init__(
        self,
        n_members: int,
        n_in: int,
        hidden_size: int,
        n_layers: int,
        n_out: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [n_in] + [hidden_size] * n_layers + [n_out]
        self.dropout = dropout
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for layer, (fan_in, fan_out) in enumerate(pairwise(widths)):
            # He's scale keeps the signal through the layers: with the usual smaller one the
            # product of two features is found several times later.
            small = 1.0 / math.sqrt(fan_in)
            bound = small if layer == n_layers else math.sqrt(6.0) * small
            weight = torch.empty(n_members, fan_in, fan_out).uniform_(-bound, bound)
            bias = torch.empty(n_members, 1, fan_out).uniform_(-small, small)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(bias))

    def forward(self, x: Tensor, flip: bool = False) -> Tensor:
        """Evaluate every member on its own rows; with ``flip``, on those of its counterpart."""
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if flip:
                weight, bias = weight.flip(0), bias.flip(0)
            x = torch.baddbmm(bias, x, weight)
            if layer < last:
                x = F.hardswish(x)
                if self.dropout and self.training:
                    x = F.dropout(x, self.dropout)
        return x


class Network(nn.Module, ABC):
    """What every SUWR network can do; `build` makes one.

    ``stop_temperature`` divides the expected gain of going on, so that
    ζ_stop = sigmoid(-gain / temperature).
    """

    stop_temperature: Tensor

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.register_buffer("stop_temperature", torch.ones(()))

    @abstractmethod
    def policy_outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Expected gain of going on ``(n,)`` and the select logits ``(n, n_units)``."""

    def decide(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logit of ζ_stop ``(n,)`` and logits of ζ_select ``(n, n_units)``."""
        gain, logits = self.policy_outputs(inputs)
        return -gain / self.stop_temperature, logits

    @abstractmethod
    def predict(self, inputs: Tensor) -> Tensor:
        """Outputs of every predictor on the same rows, ``(n_members, n, n_outputs)``."""


class SeparateNetwork(Network):
    """A policy network (select and stop heads) beside an ensemble of predictors."""

    def __init__(self, architecture: Architecture, dropout: float = 0.0) -> None:
        super().__init__(architecture)
        a = architecture
        n_in = a.n_values + a.n_columns
        self.policy = EnsembleMLP(1, n_in, a.hidden_size, a.n_layers, a.n_units + 1)
        self.predictor = EnsembleMLP(
            a.n_members, n_in, a.hidden_size, a.n_layers, a.n_outputs, dropout
        )

    def policy_outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network`."""
        out = self.policy(inputs.unsqueeze(0))[0]
        return out[:, 0], out[:, 1:]

    def predict(self, inputs: Tensor) -> Tensor:
        """See `Network`."""
        return self.predictor(inputs.unsqueeze(0).expand(self.architecture.n_members, -1, -1))


class SharedNetwork(Network):
    """The paper's network: one encoder with three linear heads (Appendix F)."""

    def __init__(self, architecture: Architecture, dropout: float = 0.0) -> None:
        super().__init__(architecture)
        a = architecture
        n_in = a.n_values + a.n_columns
        n_out = 1 + a.n_units + a.n_outputs
        self.encoder = EnsembleMLP(1, n_in, a.hidden_size, a.n_layers, n_out, dropout)

    def heads(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gain, select logits and prediction from one pass of the encoder."""
        a = self.architecture
        gain, logits, outputs = self.encoder(inputs.unsqueeze(0))[0].split(
            [1, a.n_units, a.n_outputs], dim=1
        )
        return gain[:, 0], logits, outputs

    def policy_outputs(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network`."""
        gain, logits, _ = self.heads(inputs)
        return gain, logits

    def predict(self, inputs: Tensor) -> Tensor:
        """See `Network`."""
        return self.heads(inputs)[2].unsqueeze(0)


def build(architecture: Architecture, dropout: float = 0.0) -> Network:
    """Make the network that an architecture describes."""
    kind = SharedNetwork if architecture.shared else SeparateNetwork
    return kind(architecture, dropout)
