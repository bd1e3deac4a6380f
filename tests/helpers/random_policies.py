"""Policies with random networks, for tests of properties that hold for any weights."""

import numpy as np
import torch

from suwr.data.units import Patches, resolve_units
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import CrossEntropy
from suwr.nn.networks import Architecture, build
from suwr.nn.rollout import Policy
from suwr.nn.step import Starts
from suwr.training.config import Settings
from suwr.training.rollouts import sample_rollouts

UNITS = {
    "columns": None,
    "groups": {"g": [1, 2], "k": [4, 5]},
    "patches": Patches((2, 3), size=2),
}

# Architectures by name.
NETWORKS = {
    "separate": {},
    "shared": {"n_members": 1, "shared": True},
    "conditioned": {"conditioned": True},
    "images": {"image_shape": (2, 3)},
    "conditioned images": {"image_shape": (2, 3), "conditioned": True},
    "uncertainty": {"informed": True},
    "conditioned uncertainty": {"informed": True, "conditioned": True},
    "conditioned uncertainty images": {
        "image_shape": (2, 3),
        "informed": True,
        "conditioned": True,
    },
}


def make_policy(
    seed, groups=None, max_steps=None, units_per_step=1, network="separate", n_columns=6
):
    """A policy over a few columns."""
    changes = NETWORKS[network]
    units = resolve_units(groups, None, [f"x{i}" for i in range(n_columns)])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = build(Architecture(n_columns, n_columns, len(units), 2, 8, 2, **changes))
    # Keeps stop probabilities away from 0 and 1.
    network.stop_temperature.fill_(0.5)
    inputs = MaskedInputs.build(units, np.arange(n_columns), "cpu")
    most = -(-len(units) // units_per_step)
    return Policy(
        network.eval(), inputs, CrossEntropy(2), max_steps or most, units_per_step, block=64,
        condition=0.3 if changes.get("conditioned") else None,
    )  # fmt: skip


def random_values(n=40, seed=0):
    """Encoded rows."""
    return torch.from_numpy(np.random.RandomState(seed).randn(n, 6).astype(np.float32))


def explore(policy, values, sparsity_weight, budget=None, **changes):
    """Sample a rollout of every row at the start of training."""
    settings = Settings(sparsity_weight=sparsity_weight, max_steps=policy.max_steps, **changes)
    weight = torch.full((len(values),), sparsity_weight)
    generator = torch.Generator().manual_seed(0)
    n_units = policy.inputs.n_units
    interaction = torch.rand(n_units, n_units, generator=generator)
    return sample_rollouts(
        policy.network, policy.inputs, values, weight, None, settings, 1.0, generator, interaction,
        Starts(budget=budget),
    )  # fmt: skip
