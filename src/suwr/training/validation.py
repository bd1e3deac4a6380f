"""The validation objective, by which training chooses its best epoch."""

from __future__ import annotations

import torch
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Network, SeparateNetwork
from suwr.nn.rollout import BLOCK, Policy, rollout_together
from suwr.training.config import Settings
from suwr.training.data import Rows
from suwr.training.sparsity import Prices

__all__ = ["BestState", "Judge", "objective"]


@torch.no_grad()
def objective(
    policy: Policy,
    loss: Loss,
    rows: Rows,
    sparsity_weight: float | Tensor,
    condition: Tensor | None = None,
) -> float:
    """Weighted mean of ``L(f(x ⊙ h), y) + λ ‖h‖`` under greedy inference."""
    lost, price = torch.empty_like(rows.weight), torch.empty_like(rows.weight)
    for place, part in rows.blocks():
        told = None if condition is None else condition[place]
        trace = policy.rollout(part.values, condition=told)
        mask = torch.as_tensor(trace.mask, device=policy.device)
        order = torch.as_tensor(trace.order, device=policy.device).flatten(1)
        paid = torch.where(order >= 0, policy.inputs.costs[order.clamp_min(0)], 0.0)
        price[place] = paid.sum(dim=1)
        lost[place] = loss.of_prediction(policy.predict(part.values, mask), part.targets)
    return float(((lost + sparsity_weight * price) * rows.weight).mean())


class Judge:
    """Scores the models of a network on rows that they were not trained on.

    Parameters
    ----------
    network : Network
    inputs : MaskedInputs
    loss : Loss
    rows : Rows
        Validation rows; those of several models one after the other.
    settings : Settings
    prices : Prices
    """

    def __init__(
        self,
        network: Network,
        inputs: MaskedInputs,
        loss: Loss,
        rows: Rows,
        settings: Settings,
        prices: Prices,
    ) -> None:
        self.network, self.inputs, self.loss, self.rows = network, inputs, loss, rows
        self.settings, self.prices = settings, prices
        self.n_models = network.n_models if isinstance(network, SeparateNetwork) else 1
        middle = None if prices.ratio is None else 0.0
        self.policy = Policy(
            network, inputs, loss, settings.max_steps, settings.units_per_step,
            min(BLOCK, len(rows)), middle,
        )  # fmt: skip

    def __call__(self) -> Tensor:
        """The objective of every model, ``(n_models,)``."""
        if self.n_models == 1:
            weight, condition = self.prices.spread(len(self.rows))
            value = objective(
                self.policy, self.loss, self.rows, weight[0],
                None if condition is None else condition[0],
            )  # fmt: skip
            return torch.tensor([value])
        return self._together().cpu()

    @torch.no_grad()
    def _together(self) -> Tensor:
        assert isinstance(self.network, SeparateNetwork)
        m, settings = self.n_models, self.settings
        values = self.rows.values.unflatten(0, (m, -1))
        weight, condition = self.prices.spread(values.shape[1])
        mask, cost = rollout_together(
            self.network, self.inputs, self.loss, values, settings.max_steps,
            settings.units_per_step, condition,
        )  # fmt: skip
        seen = self.inputs.reveal(values, mask)
        prediction = self.network.consensus(seen, self.loss)
        lost = self.loss.of_prediction(prediction, self.rows.targets.unflatten(0, (m, -1)))
        return ((lost + weight * cost) * self.rows.weight.unflatten(0, (m, -1))).mean(dim=1)


class BestState:
    """Keeps the weights of each model's best epoch as named tensors.

    Parameters
    ----------
    network : Network
    n_models : int
    """

    def __init__(self, network: Network, n_models: int = 1) -> None:
        self.network = network
        self.value = torch.full((n_models,), torch.inf)
        self.state = {k: v.clone() for k, v in network.state_dict().items()}

    def offer(self, value: Tensor) -> None:
        """Take the network's present weights for the models that became better."""
        better = value < self.value
        self.value = torch.where(better, value, self.value)
        if not bool(better.any()):
            return
        for name, tensor in self.network.state_dict().items():
            if len(better) == 1:
                self.state[name] = tensor.clone()
                continue
            # Weights of several models lie one after the other in the first dimension.
            chosen = better.to(tensor.device).repeat_interleave(len(tensor) // len(better))
            shape = (-1,) + (1,) * (tensor.dim() - 1)
            self.state[name] = torch.where(chosen.view(shape), tensor, self.state[name])

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {"best": self.value} | {f"best/{k}": v for k, v in self.state.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Undo `tensors`."""
        self.value = tensors["best"].cpu()
        self.state = {
            k.removeprefix("best/"): v for k, v in tensors.items() if k.startswith("best/")
        }

    def install(self) -> None:
        """Put the best weights into the network."""
        self.network.load_state_dict(self.state)
