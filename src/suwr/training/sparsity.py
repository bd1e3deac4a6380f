"""λ during training: one number for each model, or a range of which every row draws its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from suwr.nn.networks import Network
from suwr.training.config import Settings

__all__ = ["Prices", "condition_of"]


def condition_of(weight: float, low: float, high: float) -> float:
    """Where λ lies in its range: -1 at the low end, 1 at the high one, by its logarithm.

    Examples
    --------
    >>> condition_of(0.1, 0.01, 1.0)
    0.0
    """
    return 2.0 * math.log(weight / low) / math.log(high / low) - 1.0


@dataclass(frozen=True)
class Prices:
    """The price of one unit of cost for every row.

    Attributes
    ----------
    weight : Tensor of shape (n_models,)
        λ of each model; the low end where there is a range.
    ratio : float or None
        High end over low end of the range.
    """

    weight: Tensor
    ratio: float | None = None

    @classmethod
    def of(cls, settings: Settings, n_models: int, device: torch.device) -> Prices:
        """Read them from the settings."""
        given = settings.sparsity_weight
        if isinstance(given, tuple):
            low, high = (torch.as_tensor(end, device=device).expand(n_models) for end in given)
            return cls(low, float(high[0] / low[0]))
        return cls(torch.as_tensor(given, device=device).expand(n_models))

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """λ of ``n`` rows of every model, and the condition that says it to the policy."""
        if self.ratio is None:
            return self._fixed(n), None
        uniform = torch.rand(len(self.weight), n, generator=generator, device=self.weight.device)
        return self._at(uniform)

    def spread(self, n: int, turn: int = 0) -> tuple[Tensor, Tensor | None]:
        """As `draw`, but evenly over the range and the same in every ``turn`` of one number."""
        if self.ratio is None:
            return self._fixed(n), None
        # Multiples of the golden section fill an interval evenly in any order of the rows.
        number = torch.arange(n, dtype=torch.float64, device=self.weight.device) + n * turn
        share = (number * 0.6180339887498949 % 1.0).to(torch.float32)
        return self._at(share.expand(len(self.weight), n))

    def importance(self, weight: Tensor) -> Tensor:
        """How much a difference of losses counts where λ is ``weight``.

        What matters at a low price is small; without this the dear end of a range would drown it.
        """
        if self.ratio is None:
            return torch.ones_like(weight)
        middle = self.weight.unsqueeze(-1) * self.ratio**0.5
        return (middle / weight).sqrt()

    def set_temperature(
        self, network: Network, settings: Settings, mean_cost: float, share: float = 0.0
    ) -> None:
        """Make the stop decisions as soft as the prices ask for after a share of the training."""
        ratio = 1.0 if self.ratio is None else self.ratio
        # In the scale that `importance` gives the gains at the two ends.
        ends = [
            [
                settings.stop_temperature(w * mean_cost, share) * ratio**0.25,
                settings.stop_temperature(w * ratio * mean_cost, share) / ratio**0.25,
            ]
            for w in self.weight.tolist()
        ]
        value = torch.tensor(ends, device=self.weight.device).unsqueeze(1)
        if self.ratio is None:
            value = value[..., 0]
        value = value if len(ends) > 1 else value.flatten(0, 1)[0]
        if network.stop_temperature.shape != value.shape:
            network.stop_temperature.data = torch.empty_like(value)
        # In place: a recorded step reads it where it was.
        network.stop_temperature.copy_(value)

    def _fixed(self, n: int) -> Tensor:
        return self.weight.unsqueeze(1).expand(-1, n)

    def _at(self, share: Tensor) -> tuple[Tensor, Tensor]:
        assert self.ratio is not None
        return self.weight.unsqueeze(1) * self.ratio**share, 2.0 * share - 1.0
