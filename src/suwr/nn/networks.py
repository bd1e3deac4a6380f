"""The networks: a policy with two heads beside an ensemble of predictors.

Each reads ``[x ⊙ h, h]`` and nothing else, or what such a network says. No layer mixes rows, so a
row's output does not depend on its batch.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from suwr.nn.distributed import Team
from suwr.nn.ensembles import Ensemble, EnsembleConv, EnsembleMLP
from suwr.nn.losses import Loss

__all__ = [
    "Architecture", "InformedPolicy", "Network", "PolicyOutputs", "SeparateNetwork",
    "SharedNetwork", "build", "doubts",
]  # fmt: skip

# Numbers that `doubts` says, and hidden units of the network that reads them.
N_DOUBTS, STOP_HIDDEN = 5, 32


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
        Predictors in the ensemble; half of them learn from each half of the rows.
    shared : bool
        One encoder under all three heads, as in the paper's Appendix F.
    conditioned : bool
        The policy is told λ by one more input, so that one model serves a range of it.
    image_shape : tuple of int, optional
        ``(height, width)``: policy and predictors begin with convolutions over the masked image and
        its mask.
    informed : bool
        Whether to stop is decided by how sure the predictors are. Classes only.
    """

    n_values: int
    n_columns: int
    n_units: int
    n_outputs: int
    hidden_size: int
    n_layers: int
    n_members: int = 2
    shared: bool = False
    conditioned: bool = False
    image_shape: tuple[int, int] | None = None
    informed: bool = False

    @property
    def n_inputs(self) -> int:
        """Width of ``[x ⊙ h, h]``."""
        return self.n_values + self.n_columns

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for model files."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Architecture:
        """Undo `to_dict`; fields that older files lack have their defaults."""
        shape = stored.get("image_shape")
        return cls(**{**stored, "image_shape": None if shape is None else tuple(shape)})


def doubts(said: Tensor, mask: Tensor) -> Tensor:
    """How sure class probabilities are ``(..., n_classes)``, in five numbers ``(..., 5)``.

    Entropy, the two largest probabilities, and what the first leaves over on a logarithmic scale:
    at a low price a stop turns on the third decimal. Last the share of the columns that are
    revealed, ``mask`` ``(..., n_columns)``.
    """
    entropy = -(said * said.clamp_min(1e-9).log()).sum(dim=-1) / math.log(said.shape[-1])
    top = said.topk(2, dim=-1)
    first, second = top.values.unbind(dim=-1)
    # The sum of the others: 1 - first would be all rounding where first is nearly 1.
    others = said.scatter(-1, top.indices[..., :1], 0.0).sum(dim=-1)
    left = others.clamp_min(1e-4).log() / math.log(1e-4)
    shown = mask.mean(dim=-1, dtype=said.dtype)
    return torch.stack([entropy, first, second, left, shown], dim=-1)


class InformedPolicy(nn.Module):
    """A network that selects, and a small one beside it that sees `doubts` and tells the gain.

    Many units one by one change a prediction little. How much is left to gain then shows best in
    the prediction itself; a large network that regresses it from the units overfits instead.
    """

    def __init__(self, select: nn.Module, stop: nn.Module) -> None:
        super().__init__()
        self.select, self.stop = select, stop


class PolicyOutputs(NamedTuple):
    """Outputs of the policy heads for masked inputs.

    Attributes
    ----------
    gain : Tensor of shape (...)
        Expected gain of continuing.
    logits : Tensor of shape (..., n_units)
        Selection logits, units that are already revealed included.
    outputs : Tensor of shape (..., n_outputs), or None
        Predictor outputs, for networks that compute them in the same pass.
    """

    gain: Tensor
    logits: Tensor
    outputs: Tensor | None = None


class Network(nn.Module, ABC):
    """What every SUWR network can do; `build` makes one.

    ``stop_temperature`` divides the expected gain of going on, so that
    ζ_stop = sigmoid(-gain / temperature). It is one number ``()``, or for a network that is told λ
    the two at the ends of its range, ``(2,)``; of several models ``(n_models, 1, …)``.
    """

    stop_temperature: Tensor

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        ends = torch.ones(2) if architecture.conditioned else torch.ones(())
        self.register_buffer("stop_temperature", ends)

    def join(self, team: Team | None) -> None:
        """Let the processes of a team evaluate the network together; None ends that."""
        for part in self.modules():
            if isinstance(part, Ensemble):
                part.team = team

    @abstractmethod
    def policy_outputs(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> PolicyOutputs:
        """Evaluate the policy heads on masked inputs.

        Parameters
        ----------
        inputs : Tensor of shape (n, n_inputs) or (n_models, n, n_inputs)
        condition : Tensor of shape (n,) or (n_models, n), optional
            Position of λ in its range, from -1 (low end) to 1 (high end).
        prediction : Tensor of shape (n, n_outputs) or (n_models, n, n_outputs), optional
            Class probabilities for a policy that stops by predictive uncertainty.
        """

    def temperature(self, condition: Tensor | None) -> Tensor:
        """The stop temperature; between the ends of a range it is interpolated geometrically."""
        if condition is None:
            return self.stop_temperature
        low, high = self.stop_temperature.log().unbind(dim=-1)
        return torch.exp(low + (high - low) * (condition + 1) / 2)

    def decide(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> tuple[Tensor, PolicyOutputs]:
        """Logit of ζ_stop and the outputs it follows from; see `policy_outputs`."""
        found = self.policy_outputs(inputs, condition, prediction)
        gain = found.gain.float()
        logit = -gain / self.temperature(condition)
        return logit, PolicyOutputs(gain, found.logits.float(), found.outputs)

    @abstractmethod
    def predict(self, inputs: Tensor) -> Tensor:
        """Outputs of every predictor on the same rows, ``(n_members, n, n_outputs)``."""


class SeparateNetwork(Network):
    """A policy network (select and stop heads) beside an ensemble of predictors.

    Parameters
    ----------
    architecture : Architecture
    dropout : float, default=0.0
        Of the predictors.
    n_models : int, default=1
        Models of this architecture that are trained together, each with a policy and ``n_members``
        predictors of its own. Only one of them can decide and predict; see `split`.
    """

    def __init__(self, architecture: Architecture, dropout: float = 0.0, n_models: int = 1) -> None:
        super().__init__(architecture)
        a = architecture
        self.n_models = n_models

        half = max(1, a.n_members // 2)

        def stack(members: int, extra: int, n_out: int, rate: float) -> EnsembleMLP | EnsembleConv:
            if a.image_shape is not None:
                return EnsembleConv(members, a.image_shape, extra, a.hidden_size, n_out, rate, half)
            n_in = a.n_inputs + extra
            return EnsembleMLP(members, n_in, a.hidden_size, a.n_layers, n_out, rate, half)

        told = int(a.conditioned)
        self.policy: nn.Module
        if a.informed:
            stop = EnsembleMLP(n_models, N_DOUBTS + told, STOP_HIDDEN, 2, 1)
            self.policy = InformedPolicy(stack(n_models, told, a.n_units, 0.0), stop)
        else:
            self.policy = stack(n_models, told, a.n_units + 1, 0.0)
        self.predictor = stack(n_models * a.n_members, 0, a.n_outputs, dropout)

    def other_half(self, inputs: Tensor, loss: Loss) -> Tensor:
        """What the predictors of the other half say, which never saw the rows.

        ``(2 · n_models, n, …)`` gives the mean prediction ``(2 · n_models, n, n_outputs)``.
        """
        group = self.predictor.group
        outputs = self.predictor(inputs.repeat_interleave(group, dim=0), flip=True).float()
        return loss.predict(outputs).unflatten(0, (-1, group)).mean(dim=1)

    def consensus(self, inputs: Tensor, loss: Loss) -> Tensor:
        """The mean prediction of each model's predictors, ``(n_models, n, n_outputs)``."""
        members = self.architecture.n_members
        outputs = self.predictor(inputs.repeat_interleave(members, dim=0))
        return loss.predict(outputs).unflatten(0, (-1, members)).mean(dim=1)

    def policy_outputs(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> PolicyOutputs:
        """See `Network`; several models are evaluated each on its own rows."""
        if inputs.dim() == 2:
            if self.architecture.informed and prediction is None:
                prediction = self.predict(inputs).softmax(dim=-1).mean(dim=0)
            found = self.policy_outputs(
                inputs.unsqueeze(0),
                None if condition is None else condition.unsqueeze(0),
                None if prediction is None else prediction.unsqueeze(0),
            )
            return PolicyOutputs(found.gain[0], found.logits[0])
        extra = [] if condition is None else [condition.unsqueeze(-1)]
        seen = torch.cat([inputs, *extra], dim=-1) if extra else inputs
        if isinstance(self.policy, InformedPolicy):
            assert prediction is not None
            features = doubts(prediction, inputs[..., -self.architecture.n_columns :])
            gain = self.policy.stop(torch.cat([features, *extra], dim=-1))
            return PolicyOutputs(gain[..., 0], self.policy.select(seen))
        out = self.policy(seen)
        return PolicyOutputs(out[..., 0], out[..., 1:])

    def predict(self, inputs: Tensor) -> Tensor:
        """See `Network`."""
        return self.predictor(inputs.unsqueeze(0).expand(self.architecture.n_members, -1, -1))

    def with_policy(self, policy: nn.Module) -> SeparateNetwork:
        """A network that shares everything with this one but the policy."""
        twin = copy.copy(self)
        twin._modules = {**self._modules, "policy": policy}
        return twin

    def split(self) -> list[SeparateNetwork]:
        """The models that were trained together, each as a network of its own."""
        if self.n_models == 1:
            return [self]
        parts = []
        for number in range(self.n_models):
            part = SeparateNetwork(self.architecture).to(self.stop_temperature.device)
            state = {
                name: tensor.unflatten(0, (self.n_models, -1))[number]
                for name, tensor in self.state_dict().items()
            }
            ends = part.stop_temperature.shape
            state["stop_temperature"] = state["stop_temperature"].reshape(ends)
            part.load_state_dict(state)
            parts.append(part)
        return parts


class SharedNetwork(Network):
    """The paper's network: one encoder with three linear heads (Appendix F)."""

    def __init__(self, architecture: Architecture, dropout: float = 0.0) -> None:
        super().__init__(architecture)
        a = architecture
        n_out = 1 + a.n_units + a.n_outputs
        self.encoder = EnsembleMLP(1, a.n_inputs, a.hidden_size, a.n_layers, n_out, dropout)

    def policy_outputs(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> PolicyOutputs:
        """See `Network`; one pass of the encoder gives all three heads, for a single λ."""
        a = self.architecture
        gain, logits, outputs = self.encoder(inputs.unsqueeze(0))[0].split(
            [1, a.n_units, a.n_outputs], dim=1
        )
        return PolicyOutputs(gain[:, 0], logits, outputs)

    def predict(self, inputs: Tensor) -> Tensor:
        """See `Network`."""
        outputs = self.policy_outputs(inputs).outputs
        assert outputs is not None
        return outputs.unsqueeze(0)


def build(architecture: Architecture, dropout: float = 0.0) -> Network:
    """Make the network that an architecture describes."""
    kind = SharedNetwork if architecture.shared else SeparateNetwork
    return kind(architecture, dropout)
