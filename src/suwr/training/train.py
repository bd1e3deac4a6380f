"""Training from start to finish: pretraining, policy, fine-tuning."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from suwr.nn.distributed import Team
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.nn.rollout import Policy, rollout_together
from suwr.training.actor import PolicyTraining
from suwr.training.config import Progress, Settings
from suwr.training.data import Folds, Rows
from suwr.training.lookahead import LookAhead
from suwr.training.loop import Checkpoint, Phase, run_phases
from suwr.training.policy import PolicyPhase
from suwr.training.predictor import FineTuning, Pretraining
from suwr.training.sparsity import Prices

__all__ = ["POLICY_PHASES", "final_masks", "train"]

POLICY_PHASES: dict[str, type[PolicyPhase]] = {"actor": PolicyTraining, "lookahead": LookAhead}


def train(
    architecture: Architecture,
    inputs: MaskedInputs,
    loss: Loss,
    rows: Rows,
    validation: Rows,
    settings: Settings,
    generator: torch.Generator,
    progress: Progress,
    *,
    trainer: str = "actor",
    n_models: int = 1,
    checkpoint: Checkpoint | None = None,
    team: Team | None = None,
) -> Network:
    """Train a SUWR model, or several of one shape together.

    Predictors learn from random masks; then the policy explores and is rewarded by predictors that
    never saw the row; then the predictors learn the masks that the finished policy ends with.

    Parameters
    ----------
    architecture : Architecture
    inputs : MaskedInputs
    loss : Loss
    rows, validation : Rows
        Validation rows choose the epoch and are never trained on. Those of several models lie one
        after the other, equally many of each.
    settings : Settings
    generator : torch.Generator
        On the device of the rows.
    progress : callable
    trainer : {'actor', 'lookahead'}, default='actor'
    n_models : int, default=1
    checkpoint : Checkpoint, optional
        Where to go on from, and to leave the state after every epoch.
    team : Team, optional
        The processes that train this model together.
    """
    network = SeparateNetwork(architecture, settings.dropout, n_models).to(rows.device)
    network.join(team)
    folds = Folds(rows, generator, n_models)
    prices = Prices.of(settings, n_models, rows.device)

    final = final_masks(network, inputs, loss, rows, settings, prices)
    policy_phase = POLICY_PHASES[trainer]
    phases: list[Callable[[], Phase]] = [
        lambda: Pretraining(network, inputs, loss, folds, settings),
        lambda: policy_phase(network, inputs, loss, folds, validation, settings, prices),
        lambda: FineTuning(network, inputs, loss, folds, final, settings),
    ]
    run_phases(phases, generator, progress, checkpoint, team)
    network.join(None)
    return network.eval()


def final_masks(
    network: SeparateNetwork,
    inputs: MaskedInputs,
    loss: Loss,
    rows: Rows,
    settings: Settings,
    prices: Prices,
) -> Callable[[int], Tensor]:
    """The masks that the finished policy ends with, as a function of the epoch of fine-tuning.

    They change with the epoch only where the policy is told λ: each epoch then tells it others.
    """

    @lru_cache(maxsize=1)
    def masks(turn: int) -> Tensor:
        if network.n_models > 1:
            values = rows.values.unflatten(0, (network.n_models, -1))
            condition = prices.spread(values.shape[1], turn)[1]
            mask, _ = rollout_together(
                network, inputs, loss, values, settings.max_steps, settings.units_per_step,
                condition,
            )  # fmt: skip
            return mask.flatten(0, 1)
        policy = Policy(network, inputs, loss, settings.max_steps, settings.units_per_step)
        condition = prices.spread(len(rows), turn)[1]
        mask = torch.empty(len(rows), inputs.n_columns, dtype=torch.bool, device=policy.device)
        for place, part in rows.blocks():
            told = None if condition is None else condition[0, place]
            trace = policy.rollout(part.values, condition=told)
            mask[place] = torch.as_tensor(trace.mask, device=policy.device)
        return mask

    return lambda epoch: masks(0 if prices.ratio is None else epoch)
