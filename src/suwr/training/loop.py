"""The training loop: phases, checkpoints, progress and history, optimizers and weight averages."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from suwr.exceptions import ModelFileError
from suwr.nn.distributed import ProcessGroup
from suwr.nn.ensembles import Ensemble
from suwr.training.data import Folds

if TYPE_CHECKING:
    from suwr.nn.rollout import Policy

__all__ = [
    "Checkpoint", "Epoch", "History", "Metrics", "Phase", "Progress", "State", "cosine_decay",
    "ensemble_step", "make_optimizer", "optimizer_step", "run_phases", "set_rate", "update_average",
]  # fmt: skip


def cosine_decay(progress: float, floor: float = 0.0) -> float:
    """Learning-rate factor at a point of the training, from 1 at 0 down to ``floor`` at 1."""
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))


def make_optimizer(network: nn.Module, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    """AdamW; on CUDA, its steps can be captured in a graph."""
    parameters = list(network.parameters())
    device = parameters[0].device
    if device.type != "cuda":
        # Old versions of torch have no fused steps on other devices than these two.
        fused = True if device.type == "cpu" else None
        return torch.optim.AdamW(parameters, weight_decay=weight_decay, fused=fused)
    rate = torch.zeros((), device=device)
    return torch.optim.AdamW(
        parameters, lr=rate, weight_decay=weight_decay, fused=True, capturable=True
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every parameter group."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def optimizer_step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One gradient step."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def ensemble_step(optimizer: torch.optim.Optimizer, ensemble: Ensemble, loss: Tensor) -> None:
    """One gradient step, with the weight decay of each member."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    ensemble.decay_weights(optimizer.param_groups[0]["lr"])
    optimizer.step()


@torch.no_grad()
def update_average(average: nn.Module, current: nn.Module, decay: float) -> None:
    """Update an exponential moving average of the weights."""
    slow, fast = list(average.parameters()), list(current.parameters())
    get_ema_multi_avg_fn(decay)(slow, fast, 0)


# Bytes of a history, of which an epoch takes about 150.
MAX_HISTORY = 2**23
# The state of Adam for one parameter.
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
# States that may be infinite.
UNKNOWN_AT_FIRST = ("tensor/best", "tensor/reference")

State = dict[str, Tensor]
History = list[dict[str, Any]]


@dataclass(frozen=True)
class Metrics:
    """What a phase measured in one epoch; losses are relative to the best constant prediction's.

    Attributes
    ----------
    training_loss : float or None
        Mean of the minimised loss over the batches. Of a policy phase it is the predictors' loss,
        since the value of a policy-gradient objective is meaningless.
    validation_objective : float or None
        Mean of ``L(f(x ⊙ h), y) + λ ‖h‖`` over the validation rows.
    mean_cost : float or None
        Mean of ``‖h‖`` over the validation rows.
    policy : Policy or None
        The current policy; valid until the progress callback returns.
    """

    training_loss: float | None = None
    validation_objective: float | None = None
    mean_cost: float | None = None
    policy: Policy | None = None


@dataclass(frozen=True)
class Epoch:
    """Report of one epoch to the progress callback.

    Attributes
    ----------
    phase : str
    number, total : int
        Epoch within the phase, starting at 1, and epochs of the phase.
    metrics : Metrics
    """

    phase: str
    number: int
    total: int
    metrics: Metrics

    @property
    def value(self) -> float:
        """The validation objective, or the training loss of a phase without validation."""
        for value in (self.metrics.validation_objective, self.metrics.training_loss):
            if value is not None:
                return value
        return math.nan

    @property
    def policy(self) -> Policy | None:
        """The current policy; valid until the progress callback returns."""
        return self.metrics.policy


Progress = Callable[[Epoch], None]


class Checkpoint(Protocol):
    """Storage of the training state, written after every epoch."""

    def read(self) -> tuple[int, State] | None:
        """Number and state of the phase to resume; None if there is no checkpoint."""
        ...

    def write(self, phase: int, state: State) -> None:
        """Replace the checkpoint."""
        ...


class Phase(ABC):
    """One phase of the training.

    A subclass registers what it modifies in ``modules``, ``optimizers`` and ``tensors``, from which
    `state` and `restore` follow.

    Attributes
    ----------
    name : str
    epochs : int
        Maximum number of epochs.
    epoch : int
        Completed epochs.
    modules : dict of nn.Module
    optimizers : dict of Optimizer
    tensors : dict of Tensor
        Any other state; replaced by tensors of the same names on `restore`.
    """

    name: str

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.epoch = 0
        self.modules: dict[str, nn.Module] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.tensors: State = {}
        # Their targets are part of the state if they are those of a teacher; see `Lesson.recall`.
        self.stored_folds: Folds | None = None

    @abstractmethod
    def train_epoch(self) -> Metrics:
        """Train for one epoch and validate."""

    def finish(self) -> None:
        """Leave the result in the network; by default, set all modules to evaluation mode."""
        for module in self.modules.values():
            module.eval()

    @property
    def done(self) -> bool:
        """Whether the phase is over; override for early stopping."""
        return self.epoch >= self.epochs

    def state(self) -> State:
        """The state of the phase as named tensors."""
        state = {"epoch": torch.tensor(self.epoch)}
        for name, module in self.modules.items():
            state |= {f"module/{name}/{k}": v for k, v in module.state_dict().items()}
        for name, optimizer in self.optimizers.items():
            for number, moments in optimizer.state_dict()["state"].items():
                state |= {f"optimizer/{name}/{number}/{k}": v for k, v in moments.items()}
        folds = self.stored_folds
        if folds is not None and folds.report is not None:
            # They follow from predictors that later phases have changed.
            state |= {"rows/targets": folds.rows.targets, "rows/report": folds.report}
        return state | {f"tensor/{k}": v for k, v in self.tensors.items()}

    def restore(self, state: State) -> None:
        """Resume from a `state`."""
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
    process_group: ProcessGroup | None = None,
) -> History:
    """Run the phases of a training, resuming from a checkpoint if there is one.

    Parameters
    ----------
    phases : sequence of callables
        Each builds a phase, after the previous one has finished.
    generator : torch.Generator
        Its state and those of the global generators are part of the checkpoint.
    progress : callable
        Called with an `Epoch` after every epoch.
    checkpoint : Checkpoint, optional
    process_group : ProcessGroup, optional
        The processes that train together; all of them must read the same checkpoint.

    Returns
    -------
    list of dict
        One record per epoch of all phases, with the keys 'epoch' (starting at 1), 'phase',
        'training_loss', 'validation_objective' and 'mean_cost'; None where a phase does not measure
        a value. See `Metrics`.
    """
    saved = checkpoint.read() if checkpoint is not None else None
    if process_group is not None:
        position = [-1, 0] if saved is None else [saved[0], int(saved[1]["epoch"])]
        process_group.check_equal(
            torch.tensor(position).numpy().tobytes(),
            "All processes must read the same 'checkpoint': use a path that all of them can reach.",
        )
    if saved is not None and not 0 <= saved[0] < len(phases):
        raise _unusable_checkpoint()
    history: History = []
    for number, build in enumerate(phases):
        if saved is not None and number < saved[0]:
            continue
        phase = build()
        if process_group is not None:
            for optimizer in phase.optimizers.values():
                optimizer.register_step_pre_hook(process_group.sum_gradients)
        if saved is not None and number == saved[0]:
            history = _restore(phase, generator, saved[1])
        while not phase.done:
            metrics = phase.train_epoch()
            phase.epoch += 1
            history.append(_record(len(history) + 1, phase, metrics))
            if checkpoint is not None:
                checkpoint.write(number, phase.state() | _loop_state(generator, history))
            progress(Epoch(phase.name, phase.epoch, phase.epochs, metrics))
        phase.finish()
    return history


def _record(epoch: int, phase: Phase, metrics: Metrics) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "phase": phase.name,
        "training_loss": metrics.training_loss,
        "validation_objective": metrics.validation_objective,
        "mean_cost": metrics.mean_cost,
    }


def _loop_state(generator: torch.Generator, history: History) -> State:
    """State of the random number generators and the history, as tensors."""
    records = bytearray(json.dumps(history).encode())
    state = {
        "loop/generator": generator.get_state(),
        "loop/cpu": torch.get_rng_state(),
        "loop/history": torch.frombuffer(records, dtype=torch.uint8),
    }
    if generator.device.type == "cuda":
        state["loop/cuda"] = torch.cuda.get_rng_state(generator.device)
    return state


def _restore(phase: Phase, generator: torch.Generator, state: State) -> History:
    try:
        expected = phase.state() | _loop_state(generator, [])
        _check_state(phase, state, expected)
        device = next(next(iter(phase.modules.values())).parameters()).device
        phase.restore({k: v.to(device) for k, v in state.items() if not k.startswith("loop/")})
        generator.set_state(state["loop/generator"])
        torch.set_rng_state(state["loop/cpu"])
        if generator.device.type == "cuda":
            torch.cuda.set_rng_state(state["loop/cuda"], generator.device)
        history: History = json.loads(bytes(state["loop/history"].numpy()))
        if not all(record.keys() == _record(1, phase, Metrics()).keys() for record in history):
            raise ValueError("The history has other keys.")
    except Exception as error:  # any failure is caused by the content of the file
        raise _unusable_checkpoint() from error
    return history


def _check_state(phase: Phase, state: State, expected: State) -> None:
    """Raise an error unless a state has the names, types and shapes of this phase."""
    for key, tensor in state.items():
        if key.startswith("optimizer/"):
            # Moments exist only after the first step; their optimizer checks the parameters.
            _, name, number, kind = key.split("/")
            group = phase.optimizers[name].param_groups[0]["params"]
            shape = () if kind == "step" else group[int(number)].shape
            known = (
                kind in MOMENTS
                and tensor.shape == shape
                and (kind == "exp_avg" or bool((tensor >= 0).all()))
                and all(f"optimizer/{name}/{number}/{other}" in state for other in MOMENTS)
            )
        else:
            known = tensor.dtype == expected[key].dtype and (
                key == "loop/history" or tensor.shape == expected[key].shape
            )
        # The lowest losses are infinite before the first validation.
        if not known or not (torch.isfinite(tensor).all() or key in UNKNOWN_AT_FIRST):
            raise ValueError(f"{key[:80]!r} is not part of the state of this phase.")
    missing = expected.keys() - state.keys()
    if missing or not 0 < int(state["epoch"]) <= phase.epochs:
        raise ValueError("The state is incomplete.")
    if len(state["loop/history"]) > MAX_HISTORY:
        raise ValueError("The history is too long.")


def _unusable_checkpoint() -> ModelFileError:
    return ModelFileError(
        "The 'checkpoint' is damaged or was written by another version of suwr, and cannot be "
        "resumed. Delete it to start the fit from the beginning."
    )


def _under(prefix: str, state: State) -> State:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
