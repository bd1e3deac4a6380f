"""`TableModel`: reading, encoding and splitting tables behind scikit-learn's interface."""

from __future__ import annotations

import os
import threading
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from numbers import Integral
from typing import Any, ClassVar, Literal, ParamSpec, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from suwr._utils.draws import RowDraws
from suwr._utils.text import check_unicode
from suwr._utils.validation import (
    Interval,
    check_choice,
    check_fields,
    check_parameters,
    parameter_error,
)
from suwr.data.costs import Costs, read_row_costs
from suwr.data.descriptions import resolve_columns
from suwr.data.encode import TableEncoder
from suwr.data.frame import Table, column_names, is_frame
from suwr.data.stored import StoredTable, name_columns, read_fit_table, read_predict_table
from suwr.data.units import Patches, Units, resolve_units
from suwr.estimators.limits import start_probability
from suwr.estimators.targets import ClassTarget, Target, ValueTarget
from suwr.nn.inputs import Budgets, MaskedInputs
from suwr.nn.losses import Loss
from suwr.training.config import TrainingConfig
from suwr.training.data import Rows

P = ParamSpec("P")
R = TypeVar("R")
# Fits in several threads share torch's global generator: one at a time may seed and use it.
_GENERATOR = threading.Lock()
if hasattr(os, "register_at_fork"):
    # A forked child does not have the thread that holds the lock, so it gets a new one.
    os.register_at_fork(after_in_child=lambda: globals().update(_GENERATOR=threading.Lock()))


@contextmanager
def seeded(device: str, seed: int) -> Iterator[torch.Generator]:
    """Yield a seeded generator; torch's global ones are seeded too and restored afterwards.

    Networks are trained in single precision, also where a caller has enabled autocast or has set
    another default type.
    """
    devices, default = [device] if device.startswith("cuda") else [], torch.get_default_dtype()
    single = torch.autocast(torch.device(device).type, enabled=False)
    with _GENERATOR, torch.random.fork_rng(devices=devices), single:
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(seed)
        try:
            yield torch.Generator(device).manual_seed(seed)
        finally:
            torch.set_default_dtype(default)


def make_draws(policy: str, random_state: Any, n_rows: int, owner: str) -> RowDraws | None:
    """Return the draws of the sampled policy; None for the greedy one."""
    if check_choice(policy, "policy", owner, ("greedy", "sampled")) == "greedy":
        return None
    return RowDraws.of(random_state, n_rows, owner)


def consistent(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method use one fitted state, even if another thread fits the estimator meanwhile."""

    @wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> R:
        estimator: Any = args[0]
        state = object.__new__(type(estimator))
        # `TableModel._fit_aside` replaces the dict, whose attributes belong together, as a whole.
        state.__dict__ = dict(vars(estimator))
        return cast(Any, method)(state, *args[1:], **options)

    return call


# Constraints of the parameters that every estimator on tables has.
_CONSTRAINTS: dict[str, Any] = {
    "device": [str],
    "random_state": [None, Interval(Integral, 0), np.random.RandomState],
    "verbose": [None, bool, Interval(Integral, 0)],
}


@dataclass(frozen=True)
class TrainingData:
    """The input of training.

    Attributes
    ----------
    rows, validation : Rows
        Encoded rows with targets and sample weights; the weights have mean one.
    inputs : MaskedInputs
    loss : Loss
    seed : int
    row_numbers, validation_numbers : ndarray of int
        Positions of the rows in the user's table.
    soft : bool
        Whether targets are class probabilities.
    """

    rows: Rows
    validation: Rows
    inputs: MaskedInputs
    loss: Loss
    seed: int
    row_numbers: NDArray[np.intp]
    validation_numbers: NDArray[np.intp]
    soft: bool


class TableModel(BaseEstimator, metaclass=ABCMeta):
    """Base class of all estimators: everything about tables that does not depend on the method.

    A subclass has the parameters that are annotated below; ``_fitted_attribute`` names an attribute
    that ``fit`` sets.
    """

    _fitted_attribute: ClassVar[str]

    groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None
    costs: Any
    device: str
    random_state: Any
    encoder_: TableEncoder
    units_: Units
    target_: Target
    device_: str
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    target_name_: str | None

    # Parameters of `SUWRModel`, with the values that they have in all other estimators.
    known_at_start: Any = None
    missing: Literal["value", "unrecorded"] = "value"
    columns: Mapping[str, Any] | None = None

    @abstractmethod
    def _training_config(self) -> TrainingConfig:
        """Return the settings of networks and batches."""

    @abstractmethod
    def _fit_target(
        self, y: Any, weight: NDArray[np.float64]
    ) -> tuple[Target, NDArray[Any], NDArray[np.float64]]:
        """Return the target of ``y``, ``y`` as numbers, and weights that may depend on ``y``."""

    def _resolve_units(self, names: Sequence[str]) -> Units:
        """Resolve ``groups`` and costs for the columns with these names."""
        return resolve_units(self.groups, self.costs, names, type(self).__name__)

    def _budgets(self) -> Budgets | None:
        """Return the range of budgets to train for; None if there is none."""
        return None

    @property
    def unused_columns_(self) -> frozenset[str]:
        """Columns that predictions hardly ever read: tables to predict may lack them.

        A row for which one of them is asked nevertheless is an error.
        """
        return frozenset()

    @property
    def constant_loss_(self) -> float:
        """Loss of the best constant prediction."""
        return self.target_.constant_loss

    # Before training.

    def _n_bins(self, n_rows: int, n_columns: int, soft: bool) -> int:
        """Return the largest number of bins of a numeric column, for a number of training rows."""
        return 0

    @contextmanager
    def _fit_aside(self) -> Iterator[Self]:
        """Yield an unfitted copy to fit; its attributes are installed if the block succeeds.

        After an exception or an interrupt, this estimator is what it was before.
        """
        fresh = type(self).__new__(type(self))
        # scikit-learn's convention: the names of fitted attributes end with an underscore.
        fresh.__dict__ = {k: v for k, v in vars(self).items() if not k.endswith("_")}
        # An interrupt inside of torch.no_grad may have left gradients disabled.
        with torch.inference_mode(False), torch.enable_grad():
            yield fresh
        # A single assignment, which an interrupt cannot divide.
        self.__dict__ = dict(vars(fresh))

    def _check_parameters(self) -> None:
        """Raise a ``ValueError`` for the first invalid constructor parameter."""
        name = type(self).__name__
        check_fields(self, name)
        check_parameters(name, _CONSTRAINTS, vars(self))

    def _training_data(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, costs: Any = None
    ) -> TrainingData:
        """Read the arguments of ``fit``; sets the encoder, the units and the device."""
        device = _resolve_device(self.device, type(self).__name__)
        table, y, weight = read_fit_table(self, X, y, sample_weight)
        self.target_, target, weight = self._fit_target(y, weight)
        name = getattr(y, "name", None)
        self.target_name_ = name if isinstance(name, str) else None
        used = np.flatnonzero(weight > 0)
        names = name_columns(self)
        check_unicode(names, "Column names")
        units, prices = self._resolve_units(names), None
        if costs is not None:
            if Costs.read(self.costs).units is not None:
                expected = "None if fit is given the costs of each row"
                raise parameter_error("costs", type(self).__name__, expected, self.costs)
            prices = read_row_costs(costs, units.names, len(weight), "fit")
            # Rows whose costs are not given are charged the mean.
            mean = np.average(prices[used], axis=0, weights=weight[used])
            units = replace(units, costs=mean, per_row=True)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        train_rows, validation_rows = self._split_rows(target[used], rng)
        joint = isinstance(self.groups, Patches)
        n_bins = self._n_bins(len(train_rows), len(names), target.ndim == 2)
        if isinstance(table, StoredTable):
            encoder = table.fit_encoder(joint=joint, n_bins=n_bins)
        else:
            encoder = TableEncoder.fit(table, names, joint=joint, n_bins=n_bins)
        if self.missing == "unrecorded":
            encoder = encoder.as_unrecorded()
        _check_names(encoder, units, self.target_.labels)
        known = self.target_name_, self.target_.labels
        resolve_columns(self.columns, encoder, type(self).__name__, *known)
        self.encoder_, self.units_, self.device_ = encoder, units, str(device)
        inputs, loss = self._parts()
        train, validation = used[train_rows], used[validation_rows]
        if isinstance(table, StoredTable):
            parts = table.encode(encoder, (train, validation))
            values = [torch.from_numpy(part) for part in parts]
        else:
            parsed = encoder.parse(table.columns)
            encoded = torch.as_tensor(encoder.encode(parsed), device=device)
            values = [encoded[torch.as_tensor(part, device=device)] for part in (train, validation)]
        rows, held_out = (
            Rows(
                own,
                loss.targets(torch.as_tensor(target[part], device=device)),
                _with_mean_one(torch.as_tensor(weight[part], dtype=torch.float32, device=device)),
                None
                if prices is None
                else torch.as_tensor(prices[part], dtype=torch.float32, device=device),
            )
            for own, part in zip(values, (train, validation), strict=True)
        )
        rows = replace(rows, targets=loss.smoothed(rows.targets, rows.weight))
        return TrainingData(rows, held_out, inputs, loss, seed, train, validation, target.ndim == 2)

    def _parts(self, selectable: NDArray[np.bool_] | None = None) -> tuple[MaskedInputs, Loss]:
        encoder, owner = self.encoder_, type(self).__name__
        known = start_probability(self.known_at_start, encoder.names, owner)
        inputs = MaskedInputs.build(
            self.units_, encoder.column_of, self.device_, selectable, known, encoder.unrecorded,
            self._budgets(), encoder.pieces,
        )  # fmt: skip
        return inputs, self.target_.make_loss()

    def _resolve_weight(self, value: float | str) -> float:
        """λ in the units of the loss; 'auto' is 1 % of the best constant prediction's loss."""
        return 0.01 * self.constant_loss_ if value == "auto" else float(value)

    def _split_rows(
        self, target: NDArray[Any], rng: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        n = len(target)
        if n < 10:
            # Too few rows to hold any out.
            return np.arange(n), np.arange(n)
        n_held_out = max(1, round(self._training_config().validation_fraction * n))
        return self.target_.split(target, n_held_out, rng)

    def _network_sizes(self, data: TrainingData) -> dict[str, Any]:
        """Return the sizes that `Architecture` needs."""
        config = self._training_config()
        return {
            "n_values": data.rows.values.shape[1],
            "n_columns": data.inputs.n_columns,
            "n_units": data.inputs.n_units,
            "n_outputs": self.target_.n_outputs,
            "hidden_size": config.hidden_size,
            "n_layers": config.n_layers,
        }

    def _batch_size(self, n_rows: int) -> int:
        batch_size = self._training_config().batch_size
        if batch_size != "auto":
            return int(batch_size)
        # About 18 updates per epoch, within bounds.
        largest = min(4096, max(500, n_rows // 100))
        return int(np.clip(n_rows // 18, 100, largest))

    # Using a fitted model.

    def _read(self, X: Any, rows: Sequence[Any] | None = None) -> Table:
        check_is_fitted(self, self._fitted_attribute)
        return read_predict_table(self, X, rows)

    def _column_order(self, X: Any) -> NDArray[np.intp] | None:
        """Positions in ``X`` of the columns of the model; None if they have the same order."""
        if not is_frame(X) or not hasattr(self, "feature_names_in_"):
            return None
        expected = list(self.feature_names_in_)
        # Further columns are ignored; if some are absent, masks have the order of the fit.
        given = [name for name in column_names(X) or () if name in set(expected)]
        if given == expected or len(given) < len(expected):
            return None
        return np.array([given.index(name) for name in expected])

    def _in_order_of_fit(self, X: Any, masks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Masks in the order of the columns in ``fit``, from masks in their order in ``X``."""
        order = self._column_order(X)
        return masks if order is None else masks[..., order]

    def _in_order_of(self, X: Any, masks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Masks in the order of the columns of ``X``, from masks in their order in ``fit``."""
        order = self._column_order(X)
        return masks if order is None else masks[..., np.argsort(order)]

    def _encode(self, table: Table) -> Tensor:
        """Encode a table; call `Table.check_revealed` before the result of a revealed cell is used.

        Invalid cells are NaN, so that a forgotten check cannot give a plausible result.
        """
        return torch.as_tensor(self.encoder_.encode(table), device=self.device_)

    @abstractmethod
    def _predict_final(self, X: Any) -> NDArray[np.float64]:
        """Predict from the selected features, on the scale of ``y``, (n, n_outputs)."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


class TableClassifier(ClassifierMixin, TableModel):
    """A classifier; precedes the class of its method in the list of bases."""

    target_: ClassTarget

    def _fit_target(
        self, y: Any, weight: NDArray[np.float64]
    ) -> tuple[ClassTarget, NDArray[Any], NDArray[np.float64]]:
        return ClassTarget.fit(y, weight, type(self).__name__)

    @property
    def classes_(self) -> NDArray[Any]:
        """The class labels."""
        return self.target_.classes

    @property
    def class_prior_(self) -> NDArray[np.float64] | None:
        """Frequencies of the classes in the training rows, by weight."""
        return self.target_.prior

    @consistent
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict class probabilities from the selected features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        shown = self._predict_final(X)
        return self.target_.normalized(shown)

    @consistent
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class of each row from the selected features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        shown = self._predict_final(X)
        return self.target_.answers(shown)


class TableRegressor(RegressorMixin, TableModel):
    """A regressor; precedes the class of its method in the list of bases."""

    target_: ValueTarget

    def _fit_target(
        self, y: Any, weight: NDArray[np.float64]
    ) -> tuple[ValueTarget, NDArray[Any], NDArray[np.float64]]:
        return *ValueTarget().fit(y, weight, type(self).__name__), weight

    @property
    def target_center_(self) -> float:
        """Location of ``y``."""
        return self.target_.center

    @property
    def target_scale_(self) -> float:
        """Scale of ``y``."""
        return self.target_.scale

    @consistent
    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the target of each row from the selected features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        shown = self._predict_final(X)
        return self.target_.answers(shown)


def image_shape(network: str, groups: Any) -> tuple[int, int] | None:
    """Height and width of the images for the parameter ``network``; None for 'mlp'."""
    if network == "mlp":
        return None
    if not isinstance(groups, Patches):
        raise ValueError(
            "The 'network' parameter must be 'mlp' unless 'groups' is an instance of Patches, "
            f"which defines the image shape. Got {network!r} instead."
        )
    height, width = groups.shape
    return int(height), int(width)


def _resolve_device(name: str, owner: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        expected = "'auto' or a device that torch can use on this machine"
        raise parameter_error("device", owner, expected, name) from error
    return device


def _check_names(encoder: TableEncoder, units: Units, classes: tuple[Any, ...] | None) -> None:
    """Refuse text that could not be saved."""
    check_unicode(units.names, "Names of units")
    check_unicode(classes or (), "Class labels")
    for name, code in zip(encoder.names, encoder.codes, strict=True):
        check_unicode(code.categories or (), f"Values of column {name!r}")


def _with_mean_one(weight: Tensor) -> Tensor:
    return weight / weight.mean()


def read_masks(
    masks: ArrayLike, n_rows: int, n_columns: int, dimensions: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Validate masks and repeat a single one for every row.

    Parameters
    ----------
    masks : array-like of bool, shape (n_rows or 1, ..., n_columns)
    n_rows, n_columns : int
    dimensions : tuple of int
        Accepted numbers of dimensions.

    Returns
    -------
    ndarray of bool, shape (n_rows, ..., n_columns)
    """
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
            f"'masks' must have one entry for each of the {n_rows} rows of X, or a single one. "
            f"Got {len(given)} instead."
        )
    return np.broadcast_to(given.astype(bool), (n_rows, *given.shape[1:])).copy()
