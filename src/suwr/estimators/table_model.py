"""A table behind scikit-learn's interface: reading, encoding, splitting, cutting into chunks."""

from __future__ import annotations

import os
import threading
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from suwr.data.encoding import TableEncoder
from suwr.data.input import name_columns, read_fit_table, read_predict_table
from suwr.data.stored import StoredTable
from suwr.data.tables import Table
from suwr.data.units import Patches, Units, resolve_units
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.training.data import Rows

__all__ = ["TableModel", "TrainingData", "image_shape", "read_masks", "seeded"]

# Rows that are encoded and carried through a model at once.
CHUNK = 65_536


@dataclass(frozen=True)
class TrainingData:
    """What training starts from.

    Attributes
    ----------
    rows, validation : Rows
        Encoded, with targets and weights of mean one.
    inputs : MaskedInputs
    loss : Loss
    seed : int
    row_numbers, validation_numbers : ndarray of int
        Where the rows stood in the user's table.
    """

    rows: Rows
    validation: Rows
    inputs: MaskedInputs
    loss: Loss
    seed: int
    row_numbers: NDArray[np.intp]
    validation_numbers: NDArray[np.intp]


class TableModel(BaseEstimator, metaclass=ABCMeta):
    """What every estimator here does with tables, whatever it learns from them.

    A subclass has the parameters ``groups``, ``costs``, ``batch_size``, ``validation_fraction``,
    ``device`` and ``random_state``, and says in ``_fitted_attribute`` what `fit` leaves behind.
    """

    _fitted_attribute: ClassVar[str]

    groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None
    costs: Mapping[str, float] | ArrayLike | None
    batch_size: int | Literal["auto"]
    validation_fraction: float
    device: str
    random_state: Any
    encoder_: TableEncoder
    units_: Units
    device_: str
    constant_loss_: float
    n_features_in_: int

    # What the two kinds of target differ in.

    @abstractmethod
    def _prepare_target(self, y: Any, weight: NDArray[np.float64]) -> NDArray[Any]:
        """Learn what `fit` must know of ``y`` and return it as numbers."""

    @abstractmethod
    def _make_loss(self) -> Loss:
        """The loss of this kind of target, in units of the best constant prediction's."""

    @abstractmethod
    def _split(
        self, y: NDArray[Any], n_validation: int, rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to train on and rows to validate on."""

    @abstractmethod
    def _in_user_units(self, prediction: NDArray[np.float32]) -> NDArray[np.float64]:
        """Predictions of the network as the user knows them, (n, n_outputs)."""

    @abstractmethod
    def _n_outputs(self) -> int:
        """Outputs of the predictor."""

    def _class_labels(self) -> tuple[Any, ...] | None:
        """Class labels as plain values; None for regression."""
        return None

    # Before training.

    def _training_data(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> TrainingData:
        """Read what `fit` was given; sets the encoder, the units and the device."""
        device = _pick_device(self.device)
        table, y, weight = read_fit_table(self, X, y, sample_weight)
        target = self._prepare_target(y, weight)
        used = np.flatnonzero(weight > 0)
        names = name_columns(self)
        units = resolve_units(self.groups, self.costs, names, type(self).__name__)
        joint = isinstance(self.groups, Patches)
        if isinstance(table, StoredTable):
            encoder = table.fit_encoder(joint=joint)
        else:
            encoder = TableEncoder.fit(table, names, joint=joint)

        rng = check_random_state(self.random_state)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        train_rows, validation_rows = self._split_rows(target[used], rng)
        self.encoder_, self.units_, self.device_ = encoder, units, str(device)
        inputs, loss = self._parts()
        train, check = used[train_rows], used[validation_rows]
        if isinstance(table, StoredTable):
            values = [torch.from_numpy(part) for part in table.encode(encoder, (train, check))]
        else:
            encoded = torch.as_tensor(encoder.encode(table), device=device)
            values = [encoded[torch.as_tensor(part, device=device)] for part in (train, check)]
        rows, validation = (
            Rows(
                own,
                loss.targets(torch.as_tensor(target[part], device=device)),
                _normalised(torch.as_tensor(weight[part], dtype=torch.float32, device=device)),
            )
            for own, part in zip(values, (train, check), strict=True)
        )
        return TrainingData(rows, validation, inputs, loss, seed, train, check)

    def _parts(self) -> tuple[MaskedInputs, Loss]:
        inputs = MaskedInputs.build(self.units_, self.encoder_.column_of, self.device_)
        return inputs, self._make_loss()

    def _check_weight(self, value: float | str, name: str = "sparsity_weight") -> None:
        """Refuse NaN and infinity, which scikit-learn's intervals let through."""
        if isinstance(value, Real) and not np.isfinite(value):
            raise ValueError(
                f"The {name!r} parameter of {type(self).__name__} must be a finite number "
                f"of at least 0, or 'auto'. Got {value} instead."
            )

    def _resolve_weight(self, value: float | str) -> float:
        """λ in the user's units; 'auto' is 1 % of the loss of the best constant prediction."""
        return 0.01 * self.constant_loss_ if value == "auto" else float(value)

    def _split_rows(
        self, target: NDArray[Any], rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        n = len(target)
        if n < 10:
            # Too few to set any aside.
            return np.arange(n), np.arange(n)
        return self._split(target, max(1, round(self.validation_fraction * n)), rng)

    def _batch_size(self, n_rows: int) -> int:
        if self.batch_size != "auto":
            return int(self.batch_size)
        # About 18 updates an epoch, in batches that are neither tiny nor huge.
        largest = min(4096, max(500, n_rows // 100))
        return int(np.clip(n_rows // 18, 100, largest))

    # Using a fitted model.

    def _read(self, X: Any) -> Table:
        check_is_fitted(self, self._fitted_attribute)
        return read_predict_table(self, X)

    def _chunks(self, table: Table) -> Iterator[Tensor]:
        """Encoded rows, a bounded number at once."""
        for start in range(0, table.n_rows, CHUNK):
            yield self._encode(table.take(slice(start, start + CHUNK)))

    def _encode(self, table: Table) -> Tensor:
        return torch.as_tensor(self.encoder_.encode(table), device=self.device_)

    @abstractmethod
    def _predict_final(self, X: Any) -> NDArray[np.float64]:
        """Predictions from the selected features, in the user's units, (n, n_outputs)."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


# A process has one global generator, so that one fit at a time may use it: with two of them in
# threads, each would take some of the other's random numbers.
_GENERATOR = threading.Lock()
if hasattr(os, "register_at_fork"):
    # A child has none of the threads that might hold it.
    os.register_at_fork(after_in_child=lambda: globals().update(_GENERATOR=threading.Lock()))


@contextmanager
def seeded(device: str, seed: int) -> Iterator[torch.Generator]:
    """A generator for training; the global one is seeded too and put back afterwards."""
    devices = [device] if device.startswith("cuda") else []
    with _GENERATOR, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield torch.Generator(device).manual_seed(seed)


def image_shape(network: str, groups: Any) -> tuple[int, int] | None:
    """Height and width for the parameter ``network``; None where it knows of no images."""
    if network == "mlp":
        return None
    if not isinstance(groups, Patches):
        raise ValueError(
            "The 'network' parameter must be 'mlp' unless 'groups' are Patches: only they say "
            f"what shape the images have. Got {network!r} instead."
        )
    height, width = groups.shape
    return int(height), int(width)


def _pick_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            "The 'device' parameter must be 'auto' or a device that torch can use here. "
            f"Got {name!r} instead."
        ) from error
    return device


def _normalised(weight: Tensor) -> Tensor:
    """Weights with mean one."""
    return weight / weight.mean()


def read_masks(
    masks: ArrayLike, n_rows: int, n_columns: int, dimensions: tuple[int, ...]
) -> NDArray[np.bool_]:
    given = np.asarray(masks)
    if given.ndim not in dimensions or given.shape[-1] != n_columns:
        raise ValueError(
            f"'masks' must have {n_columns} columns, one for each column of X. "
            f"Got an array of shape {given.shape} instead."
        )
    if given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        raise ValueError("'masks' must be boolean.")
    if len(given) not in (1, n_rows):
        raise ValueError(
            f"'masks' must hold one mask for each of the {n_rows} rows of X, or a single one. "
            f"Got {len(given)} instead."
        )
    return np.broadcast_to(given.astype(bool), (n_rows, *given.shape[1:])).copy()
