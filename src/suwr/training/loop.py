"""Training as a row of phases, each of which can stop after any epoch and go on later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from suwr.nn.distributed import Team
from suwr.training.config import Epoch, Progress

__all__ = ["Checkpoint", "Phase", "State", "run_phases"]

State = dict[str, Tensor]


class Checkpoint(Protocol):
    """Where training leaves its state after every epoch."""

    def read(self) -> tuple[int, State] | None:
        """The phase that was under way and its state; None where nothing was left."""
        ...

    def write(self, phase: int, state: State) -> None:
        """Replace what was there."""
        ...


class Phase(ABC):
    """One part of training.

    A subclass names what changes while it runs; `state` and `restore` follow from that.

    Attributes
    ----------
    name : str
    epochs : int
    epoch : int
        Epochs that are done.
    modules : dict of nn.Module
    optimizers : dict of Optimizer
    tensors : dict of Tensor
        Everything else; may be replaced by tensors of the same names.
    """

    name: str

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.epoch = 0
        self.modules: dict[str, nn.Module] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.tensors: State = {}

    @abstractmethod
    def train_epoch(self) -> Epoch:
        """Train one epoch and say how it went."""

    @abstractmethod
    def finish(self) -> None:
        """Leave the result in the network."""

    def state(self) -> State:
        """All that `restore` needs, as tensors."""
        state = {"epoch": torch.tensor(self.epoch)}
        for name, module in self.modules.items():
            state |= {f"module/{name}/{k}": v for k, v in module.state_dict().items()}
        for name, optimizer in self.optimizers.items():
            for number, moments in optimizer.state_dict()["state"].items():
                state |= {f"optimizer/{name}/{number}/{k}": v for k, v in moments.items()}
        return state | {f"tensor/{k}": v for k, v in self.tensors.items()}

    def restore(self, state: State) -> None:
        """Go on from where `state` was taken."""
        self.epoch = int(state["epoch"])
        for name, module in self.modules.items():
            module.load_state_dict(_under(f"module/{name}/", state))
        for name, optimizer in self.optimizers.items():
            moments: dict[int, dict[str, Tensor]] = {}
            for key, value in _under(f"optimizer/{name}/", state).items():
                number, kind = key.split("/")
                moments.setdefault(int(number), {})[kind] = value
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.tensors = _under("tensor/", state)


def run_phases(
    phases: Sequence[Callable[[], Phase]],
    generator: torch.Generator,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
    team: Team | None = None,
) -> None:
    """Run phases one after the other, from where a checkpoint stands.

    Parameters
    ----------
    phases : sequence of callables
        Each makes a phase when the ones before are finished.
    generator : torch.Generator
        Its state, and that of torch's global generators, belong to the checkpoint.
    progress : callable
    checkpoint : Checkpoint, optional
    team : Team, optional
        The processes that train together; all of them must read the same checkpoint.
    """
    left = checkpoint.read() if checkpoint is not None else None
    if team is not None:
        at = [-1, 0] if left is None else [left[0], int(left[1]["epoch"])]
        team.check_same(
            torch.tensor(at).numpy().tobytes(),
            "Every process must find the same 'checkpoint': put it where all of them can read it.",
        )
    for number, make in enumerate(phases):
        if left is not None and number < left[0]:
            continue
        phase = make()
        if team is not None:
            for optimizer in phase.optimizers.values():
                optimizer.register_step_pre_hook(team.add_gradients)
        if left is not None and number == left[0]:
            device = next(iter(phase.modules.values())).parameters().__next__().device
            state = {
                key: value if key.startswith("random/") else value.to(device)
                for key, value in left[1].items()
            }
            phase.restore(state)
            _restore_random(generator, state)
        while phase.epoch < phase.epochs:
            report = phase.train_epoch()
            phase.epoch += 1
            if checkpoint is not None:
                checkpoint.write(number, phase.state() | _random(generator))
            progress(report)
        phase.finish()


def _under(prefix: str, state: State) -> State:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def _random(generator: torch.Generator) -> State:
    state = {"random/own": generator.get_state(), "random/cpu": torch.get_rng_state()}
    if generator.device.type == "cuda":
        state["random/cuda"] = torch.cuda.get_rng_state(generator.device)
    return state


def _restore_random(generator: torch.Generator, state: State) -> None:
    generator.set_state(state["random/own"])
    torch.set_rng_state(state["random/cpu"])
    if generator.device.type == "cuda":
        torch.cuda.set_rng_state(state["random/cuda"], generator.device)
