"""The networks of a model: a policy with two heads, and an ensemble of predictors.

All they see of a row is ``[x ⊙ h, h]``, or the output of a network with that input. No layer mixes
rows, so the output for a row does not depend on its batch.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from suwr.nn.distributed import ProcessGroup
from suwr.nn.ensembles import Ensemble, EnsembleConv, EnsembleMLP
from suwr.nn.inputs import (
    N_UNCERTAINTY_FEATURES,
    UncertaintyStopPolicy,
    encode_position,
    uncertainty_features,
)
from suwr.nn.losses import Loss

#: The k-th group of predictors is not trained on the fold k + HELD_OUT, counted cyclically.
HELD_OUT = 1
# Width of the stop network that reads the `uncertainty_features`.
STOP_HIDDEN = 32
# Logit of a probability that is 1 in single precision.
_CERTAIN = 20.0


@dataclass(frozen=True)
class Architecture:
    """The shapes of the networks, as stored in model files.

    Attributes
    ----------
    n_values : int
        Width of an encoded row; a categorical column is encoded by several values.
    n_columns : int
        Number of columns, *d*.
    n_units, n_outputs : int
        Outputs of the selection head and of the predictor.
    hidden_size, n_layers : int
        Width and number of the hidden layers of each network.
    n_members : int
        Predictors in the ensemble.
    shared : bool
        One encoder for all three heads, as in Appendix F of the paper.
    conditioned : bool
        The policy takes the position of λ in its range as additional inputs, so that one model
        covers the range.
    n_knots : int
        Number of these inputs; see `suwr.nn.inputs.encode_position`.
    image_shape : tuple of int, optional
        ``(height, width)``: policy and predictors start with convolutions over the masked image
        and its mask.
    informed : bool
        The stopping policy reads the uncertainty of the predictors; classification only.
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
    n_knots: int = 1
    image_shape: tuple[int, int] | None = None
    informed: bool = False

    @property
    def n_inputs(self) -> int:
        """Width of ``[x ⊙ h, h]``."""
        return self.n_values + self.n_columns

    @property
    def n_conditions(self) -> int:
        """Inputs of the policy that encode λ."""
        return self.n_knots if self.conditioned else 0

    @property
    def n_weights(self) -> int:
        """Weights that one row is multiplied by; those of convolutions count for every pixel."""
        n_heads = self.n_members * self.n_outputs + self.n_units + 1
        n_networks, n_inner = self.n_members + 1, (self.n_layers - 1) * self.hidden_size**2
        of_network = self.n_inputs * self.hidden_size + n_inner
        if self.image_shape is not None:
            of_network = (7488 + 4 * self.hidden_size) * math.prod(self.image_shape)
        return n_networks * of_network + self.hidden_size * n_heads

    @property
    def row_values(self) -> int:
        """Estimate of the values that one row takes while the networks are evaluated."""
        members = self.n_members + 1
        # Inputs are padded and repeated for the members; outputs become probabilities and a mean.
        dense = (members + 3) * self.n_inputs + 2 * members * self.hidden_size
        heads = 3 * members * self.n_outputs + 3 * self.n_units
        if self.image_shape is None:
            return dense + heads
        # Convolutions have up to 32 channels of the size of the image, before and after activation.
        return dense + heads + (96 + 4 * members) * math.prod(self.image_shape)

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict that JSON can store."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Architecture:
        """Inverse of `to_dict`; missing fields of older files take their defaults."""
        shape = stored.get("image_shape")
        found = cls(**{**stored, "image_shape": None if shape is None else tuple(shape)})
        for name, kind in ((f.name, f.type) for f in fields(cls)):
            if kind in ("int", "bool") and type(getattr(found, name)).__name__ != kind:
                raise TypeError(f"{name} must be of the type {kind}.")
        if shape and ([type(v) for v in shape], math.prod(shape)) != ([int] * 2, found.n_columns):
            raise ValueError("image_shape must be the numbers of rows and columns of the pixels.")
        return found


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
    """Base class of the networks of a model; `build` makes one.

    The buffer ``stop_temperature`` scales the expected gain of continuing:
    ζ_stop = sigmoid(-gain / temperature). Its shape is ``()``, or ``(2,)`` for the two ends of a
    range of λ.
    """

    stop_temperature: Tensor

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.register_buffer(
            "stop_temperature", torch.ones((2,) if architecture.conditioned else ())
        )

    def set_process_group(self, process_group: ProcessGroup | None) -> None:
        """Distribute evaluation over the processes of a group; None evaluates locally."""
        for part in self.modules():
            if isinstance(part, Ensemble):
                part.process_group = process_group

    @abstractmethod
    def policy_outputs(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> PolicyOutputs:
        """Evaluate the policy heads on masked inputs.

        Parameters
        ----------
        inputs : Tensor of shape (n, n_inputs)
        condition : Tensor of shape (n,), optional
            Position of λ in its range, from -1 (low end) to 1 (high end).
        prediction : Tensor of shape (n, n_outputs), optional
            Class probabilities for a policy that stops by predictive uncertainty.
        """

    def temperature(self, condition: Tensor | None) -> Tensor:
        """The stop temperature; interpolated geometrically between the ends of a range of λ."""
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
        """Outputs of every predictor for the same rows, ``(n_members, n, n_outputs)``."""


class SeparateNetwork(Network):
    """A policy network (selection and stop head) and an ensemble of predictors.

    Parameters
    ----------
    architecture : Architecture
    dropout : float, default=0.0
        Dropout rate of the predictors.
    policy_dropout : float, default=0.0
        Dropout rate of the policy.
    n_folds : int, default=2
        Folds of the training rows, among which the predictors of a model are divided.
    """

    def __init__(
        self,
        architecture: Architecture,
        dropout: float = 0.0,
        policy_dropout: float = 0.0,
        n_folds: int = 2,
    ) -> None:
        super().__init__(architecture)
        a, self.n_folds = architecture, n_folds

        def stack(members: int, extra: int, n_out: int, rate: float) -> EnsembleMLP | EnsembleConv:
            if a.image_shape is not None:
                return EnsembleConv(members, a.image_shape, extra, a.hidden_size, n_out, rate)
            return EnsembleMLP(members, a.n_inputs + extra, a.hidden_size, a.n_layers, n_out, rate)

        extra = a.n_conditions
        self.policy: nn.Module
        if a.informed:
            stop = EnsembleMLP(1, N_UNCERTAINTY_FEATURES + extra, STOP_HIDDEN, 2, 1)
            select = stack(1, extra, a.n_units, policy_dropout)
            self.policy = UncertaintyStopPolicy(select, stop)
        else:
            self.policy = stack(1, extra, a.n_units + 1, policy_dropout)
        self.predictor: Ensemble = stack(a.n_members, 0, a.n_outputs, dropout)

    @property
    def group(self) -> int:
        """Predictors of each model that are trained on the same folds."""
        return max(1, self.architecture.n_members // self.n_folds)

    def cross_fitted(self, inputs: Tensor, loss: Loss) -> Tensor:
        """Mean prediction of the predictors that were not trained on the rows' fold.

        Maps ``(n_folds, n, n_inputs)`` to ``(n_folds, n, n_outputs)``.
        """
        return self._of_groups(inputs, loss, HELD_OUT)

    def in_fold(self, inputs: Tensor, loss: Loss) -> Tensor:
        """Mean prediction of all other predictors; the shapes are those of `cross_fitted`."""
        places = [p for p in range(self.n_folds) if p != HELD_OUT]
        return torch.stack([self._of_groups(inputs, loss, p) for p in places]).mean(dim=0)

    def _of_groups(self, inputs: Tensor, loss: Loss, place: int) -> Tensor:
        """Mean prediction of each group of predictors for the fold ``place`` after its own."""
        folds = (-1, self.n_folds)
        moved = inputs.unflatten(0, folds).roll(-place, 1).flatten(0, 1)
        outputs = self.predictor(moved.repeat_interleave(self.group, dim=0)).float()
        found = loss.predict(outputs).unflatten(0, (-1, self.group)).mean(dim=1)
        return found.unflatten(0, folds).roll(place, 1).flatten(0, 1)

    def policy_outputs(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> PolicyOutputs:
        """See `Network`."""
        a = self.architecture
        extra = [] if condition is None else [encode_position(condition, a.n_knots)]
        seen = torch.cat([inputs, *extra], dim=-1).unsqueeze(0) if extra else inputs.unsqueeze(0)
        if not isinstance(self.policy, UncertaintyStopPolicy):
            out = self.policy(seen)[0]
            return PolicyOutputs(out[:, 0], out[:, 1:])
        if prediction is None:
            prediction = self.predict(inputs).softmax(dim=-1).mean(dim=0)
        features = uncertainty_features(prediction, inputs[:, -a.n_columns :])
        gain = self.policy.stop(torch.cat([features, *extra], dim=-1).unsqueeze(0))[0]
        return PolicyOutputs(gain[:, 0], self.policy.select(seen)[0])

    def predict(self, inputs: Tensor) -> Tensor:
        """See `Network`."""
        return self.predictor(inputs.unsqueeze(0).expand(self.architecture.n_members, -1, -1))

    def with_modules(self, **modules: nn.Module) -> SeparateNetwork:
        """A network that shares all modules with this one except those given by name."""
        twin = copy.copy(self)
        twin._modules = {**self._modules, **modules}
        return twin

    @property
    def gain_layers(self) -> EnsembleMLP:
        """The layers whose first output is the expected gain of continuing."""
        policy = self.policy.stop if isinstance(self.policy, UncertaintyStopPolicy) else self.policy
        layers = policy.dense if isinstance(policy, EnsembleConv) else policy
        assert isinstance(layers, EnsembleMLP)
        return layers

    @torch.no_grad()
    def stop_at_once(self) -> None:
        """Set the policy to stop before the first step."""
        # ζ_stop = sigmoid(-gain / temperature).
        self.gain_layers.weights[-1][..., 0] = 0.0
        self.gain_layers.biases[-1][..., 0] = -_CERTAIN * float(self.stop_temperature.max())


class SharedNetwork(Network):
    """The network of the paper: one encoder with three linear heads (Appendix F).

    Parameters
    ----------
    architecture : Architecture
    dropout : float, default=0.0
    """

    def __init__(self, architecture: Architecture, dropout: float = 0.0) -> None:
        super().__init__(architecture)
        a = architecture
        n_out = 1 + a.n_units + a.n_outputs
        self.encoder = EnsembleMLP(1, a.n_inputs, a.hidden_size, a.n_layers, n_out, dropout)

    @property
    def gain_layers(self) -> EnsembleMLP:
        """See `SeparateNetwork`."""
        return self.encoder

    def policy_outputs(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> PolicyOutputs:
        """See `Network`; one pass of the encoder computes all three heads."""
        gain, logits, outputs = self._heads(inputs)
        return PolicyOutputs(gain[..., 0], logits, outputs)

    def _heads(self, inputs: Tensor) -> tuple[Tensor, ...]:
        a = self.architecture
        return self.encoder(inputs.unsqueeze(0))[0].split([1, a.n_units, a.n_outputs], dim=-1)

    def predict(self, inputs: Tensor) -> Tensor:
        """See `Network`."""
        return self._heads(inputs)[2].unsqueeze(0)


def build(architecture: Architecture, dropout: float = 0.0) -> Network:
    """Build the network of an architecture."""
    kind = SharedNetwork if architecture.shared else SeparateNetwork
    # Whatever the default type of torch is.
    return kind(architecture, dropout).float()
