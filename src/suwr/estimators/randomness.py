"""Random numbers of estimators: seeded generators of fits, and the draws of the sampled policy."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from suwr._utils.draws import RowDraws
from suwr._utils.validation import check_choice

__all__ = ["make_draws", "seeded"]

# Fits in several threads share torch's global generator: one at a time may seed and use it.
_GENERATOR = threading.Lock()
if hasattr(os, "register_at_fork"):
    # A forked child does not have the thread that holds the lock, so it gets a new one.
    os.register_at_fork(after_in_child=lambda: globals().update(_GENERATOR=threading.Lock()))


@contextmanager
def seeded(device: str, seed: int) -> Iterator[torch.Generator]:
    """Yield a seeded generator; torch's global ones are seeded too and restored afterwards."""
    devices = [device] if device.startswith("cuda") else []
    with _GENERATOR, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield torch.Generator(device).manual_seed(seed)


def make_draws(policy: str, random_state: Any, n_rows: int, owner: str) -> RowDraws | None:
    """Return the draws of the sampled policy; None for the greedy one."""
    if check_choice(policy, "policy", owner, ("greedy", "sampled")) == "greedy":
        return None
    return RowDraws.of(random_state, n_rows, owner)
