"""Training from start to finish: pretraining, policy, fine-tuning."""

from __future__ import annotations

import torch

from suwr.nn.actor import train_policy
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, SeparateNetwork
from suwr.nn.predictor import finetune, pretrain
from suwr.nn.rollout import Policy
from suwr.nn.rows import Folds, Rows
from suwr.nn.settings import Progress, Settings

__all__ = ["train"]


def train(
    architecture: Architecture,
    inputs: MaskedInputs,
    loss: Loss,
    rows: Rows,
    validation: Rows,
    settings: Settings,
    generator: torch.Generator,
    progress: Progress,
) -> Network:
    """Train a SUWR model.

    Predictors learn from random masks; then the policy explores and is rewarded by predictors that
    never saw the row; then the predictors learn the masks that the finished policy ends with.

    Parameters
    ----------
    architecture : Architecture
    inputs : MaskedInputs
    loss : Loss
    rows, validation : Rows
        Validation rows choose the epoch and are never trained on.
    settings : Settings
    generator : torch.Generator
        On the device of the rows.
    progress : callable
    """
    network = SeparateNetwork(architecture, settings.dropout).to(rows.values.device)
    folds = Folds(rows, generator)
    pretrain(network, inputs, loss, folds, settings, progress)
    train_policy(network, inputs, loss, folds, validation, settings, progress)
    policy = Policy(network, inputs, loss, settings.max_steps, settings.units_per_step)
    finetune(network, policy, loss, folds, settings, progress)
    return network
