"""The sparsity weight λ during training: fixed per model, or sampled from a range per row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from suwr.nn.networks import Network
from suwr.nn.step import evenly_spread
from suwr.training.config import Settings

__all__ = ["SparsityWeights", "condition_of"]


def condition_of(weight: float, low: float, high: float) -> float:
    """Position of λ in its range on a logarithmic scale: -1 is ``low``, 1 is ``high``.

    Examples
    --------
    >>> condition_of(0.1, 0.01, 1.0)
    0.0
    """
    return 2.0 * math.log(weight / low) / math.log(high / low) - 1.0


@dataclass(frozen=True)
class SparsityWeights:
    """λ of every row.

    Attributes
    ----------
    weight : Tensor of shape (n_models,)
        λ of each model, or the low end of its range.
    ratio : float or None
        High end of the range divided by the low end; None if λ is fixed.
    """

    weight: Tensor
    ratio: float | None = None

    @classmethod
    def of(cls, settings: Settings, n_models: int, device: torch.device) -> SparsityWeights:
        """The sparsity weights of the settings."""
        given = settings.sparsity_weight
        if isinstance(given, tuple):
            low, high = (torch.as_tensor(end, device=device).expand(n_models) for end in given)
            return cls(low, float(high[0] / low[0]))
        return cls(torch.as_tensor(given, device=device).expand(n_models))

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """λ of ``n`` rows of every model, log-uniform in a range, and its position in the range.

        Both are ``(n_models, n)``; the position is None if λ is fixed.
        """
        if self.ratio is None:
            return self._fixed(n), None
        uniform = torch.rand(len(self.weight), n, generator=generator, device=self.weight.device)
        return self._at(uniform)

    def spread(self, n: int, turn: int = 0) -> tuple[Tensor, Tensor | None]:
        """As `draw`, but deterministic and evenly spread over the range in every ``turn``."""
        if self.ratio is None:
            return self._fixed(n), None
        uniform = evenly_spread(n, turn, self.weight.device).to(torch.float32)
        return self._at(uniform.expand(len(self.weight), n))

    def importance(self, weight: Tensor) -> Tensor:
        """Factors ∝ 1/√λ of the gain that a network outputs, whose errors matter relative to λ."""
        if self.ratio is None:
            return torch.ones_like(weight)
        middle = self.weight.unsqueeze(-1) * self.ratio**0.5
        return (middle / weight).sqrt()

    def set_temperature(
        self, network: Network, settings: Settings, mean_cost: float, progress: float = 0.0
    ) -> None:
        """Set the stop temperature of the network, which is proportional to λ.

        Parameters
        ----------
        network : Network
        settings : Settings
        mean_cost : float
            Mean cost of a unit.
        progress : float, default=0.0
            Point of the policy phase.
        """
        ratio = 1.0 if self.ratio is None else self.ratio
        # Gains at the two ends of a range are scaled by `importance`, hence the fourth roots.
        ends = [
            [
                settings.stop_temperature(w * mean_cost, progress) * ratio**0.25,
                settings.stop_temperature(w * ratio * mean_cost, progress) / ratio**0.25,
            ]
            for w in self.weight.tolist()
        ]
        value = torch.tensor(ends, device=self.weight.device).unsqueeze(1)
        if not network.architecture.conditioned:
            value = value[..., 0]
        value = value if len(ends) > 1 else value.flatten(0, 1)[0]
        if network.stop_temperature.shape != value.shape:
            network.stop_temperature.data = torch.empty_like(value)
        # In place, because captured CUDA graphs hold its address.
        network.stop_temperature.copy_(value)

    def _fixed(self, n: int) -> Tensor:
        return self.weight.unsqueeze(1).expand(-1, n)

    def _at(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        assert self.ratio is not None
        return self.weight.unsqueeze(1) * self.ratio**uniform, 2.0 * uniform - 1.0
