"""Rollouts that never stop, and policies with a shifted stopping rule.

The selection policy does not depend on the stopping policy. One rollout that never stops therefore
visits every state that any stopping rule could end in.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from suwr.nn.ensembles import EnsembleConv, EnsembleMLP
from suwr.nn.features import UncertaintyStopPolicy
from suwr.nn.networks import Network, SeparateNetwork, SharedNetwork
from suwr.nn.rollout import Policy, confidence_parts
from suwr.nn.starts import Starts
from suwr.nn.step import reveal_units

__all__ = ["Paths", "confident_stopping", "never_stopping", "roll_out_paths", "shift_stopping"]

# Smallest positive number of single precision.
SMALLEST = float(np.finfo(np.float32).tiny)
# Added to the gain, it exceeds every gain: the policy never stops by itself.
NEVER = 1e6


@dataclass(frozen=True)
class Paths:
    """All states of rows that are unmasked until the maximum number of steps.

    Attributes
    ----------
    gain : ndarray of shape (n, n_steps + 1)
        Expected gain of continuing; -inf in states without a next step.
    log_odds : ndarray of shape (n, n_steps + 1)
        Logarithm of the odds of all other classes against the predicted one; -inf in states without
        a next step.
    prediction : ndarray of shape (n, n_steps + 1, n_outputs)
        Constant from the last state of a row on.
    cost : ndarray of shape (n, n_steps + 1)
        Cost of all units revealed so far.
    complete : ndarray of bool, shape (n,)
        Whether the last state has no unit left to reveal.
    """

    gain: NDArray[np.float32]
    log_odds: NDArray[np.float32]
    prediction: NDArray[np.float32]
    cost: NDArray[np.float64]
    complete: NDArray[np.bool_]


@torch.inference_mode()
def roll_out_paths(policy: Policy, values: Tensor) -> Paths:
    """Run Algorithm 1 without its stopping policy.

    Parameters
    ----------
    policy : Policy
    values : Tensor of shape (n, n_values)
        Encoded rows; a value is read only after its column was revealed.
    """
    inputs, n = policy.inputs, len(values)
    mask = known = (Starts.usual(inputs, n) or Starts()).first_masks(n, inputs)
    cost = torch.zeros(n, dtype=torch.float64, device=policy.device)
    gains, odds, predictions, costs = [], [], [], []
    for step in range(policy.max_steps + 1):
        decision = policy.decide(values, mask)
        going = decision.available.any(dim=1)
        last = step == policy.max_steps
        prediction = policy.predict(values, mask)
        first, others = confidence_parts(prediction)
        doubt = others.clamp_min(SMALLEST).log() - first.log()
        gains.append(torch.where(going & (not last), decision.gain, -torch.inf))
        odds.append(torch.where(going & (not last), doubt, -torch.inf))
        predictions.append(prediction)
        costs.append(cost)
        if last:
            break
        units = decision.best(policy.units_per_step)
        revealed = reveal_units(inputs, mask, units, going, known=known)
        mask, cost = revealed.mask, cost + revealed.cost.double()
    return Paths(
        torch.stack(gains, dim=1).cpu().numpy(),
        torch.stack(odds, dim=1).cpu().numpy(),
        torch.stack(predictions, dim=1).cpu().numpy(),
        torch.stack(costs, dim=1).cpu().numpy(),
        (~inputs.available(mask).any(dim=1)).cpu().numpy(),
    )


def shift_stopping(policy: Policy, threshold: float) -> Policy:
    """Return a policy that stops where the gain of the given one is at most ``threshold``.

    The threshold is subtracted from the bias of the gain, so that the result is an ordinary policy
    which stops where its stop probability is at least one half.
    """
    network = copy.deepcopy(policy.network)
    with torch.no_grad():
        _gain_bias(network)[..., 0] -= threshold
    return Policy(
        network, policy.inputs, policy.loss, policy.max_steps, policy.units_per_step,
        policy.block, policy.condition,
    )  # fmt: skip


def confident_stopping(policy: Policy, odds: float) -> Policy:
    """Return a policy that stops where all other classes together have at most these odds."""
    return Policy(
        policy.network, policy.inputs, policy.loss, policy.max_steps, policy.units_per_step,
        policy.block, policy.condition, odds,
    )  # fmt: skip


def never_stopping(policy: Policy) -> Policy:
    """Return a policy that stops only after the maximum number of steps."""
    return shift_stopping(policy, -NEVER)


def _gain_bias(network: Network) -> nn.Parameter:
    """The bias of the last layer whose first output is the expected gain of continuing."""
    part: nn.Module
    if isinstance(network, SharedNetwork):
        part = network.encoder
    elif isinstance(network, SeparateNetwork):
        part = network.policy
    else:
        raise TypeError(f"The stopping policy of {type(network).__name__} cannot be shifted.")
    if isinstance(part, UncertaintyStopPolicy):
        part = part.stop
    if isinstance(part, EnsembleConv):
        part = part.dense
    assert isinstance(part, EnsembleMLP)
    return part.biases[-1]
