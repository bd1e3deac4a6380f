"""`SUWRModel`: parameters and fitting of `SUWRClassifier` and `SUWRRegressor`."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import narwhals as nw
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

import suwr
from suwr._utils.files import check_writable, write_atomic
from suwr._utils.progress import report_choices, training_progress
from suwr._utils.validation import (
    Interval,
    Options,
    check_choice,
    check_parameters,
    check_real,
    parameter,
    parameter_error,
    view,
)
from suwr.data.costs import Costs
from suwr.data.dates import DateParts
from suwr.data.encode import TableEncoder
from suwr.data.frame import gather_rows, is_frame, take_rows
from suwr.data.stored import StoredTable, as_rows
from suwr.data.units import Patches, Units, membership_bytes
from suwr.estimators.certify import N_WEIGHTS, Request, certify
from suwr.estimators.container import (
    FileCheckpoint,
    check_seed,
    encode_parameter,
    fingerprint,
    pack,
)
from suwr.estimators.evaluate import Evaluation
from suwr.estimators.export import reference_rows
from suwr.estimators.fitted import FittedPolicy
from suwr.estimators.limits import RowLimits, known_at_start
from suwr.estimators.risks import (
    SCORES,
    Certificate,
    Conformal,
    RiskFunction,
    conformal_quantile,
    scores_of_classes,
    training_digests,
)
from suwr.estimators.sequential import SequentialModel
from suwr.estimators.table import TrainingData, consistent, image_shape, seeded
from suwr.estimators.targets import ValueTarget
from suwr.exceptions import ModelFileError, ModelOutputError
from suwr.narrative.effects import StepEffects
from suwr.nn.distributed import ProcessGroup
from suwr.nn.ensembles import ExternalPredictor
from suwr.nn.inputs import POSITION_KNOTS, Budgets
from suwr.nn.networks import Architecture, Network
from suwr.nn.rollout import Policy, block_size, row_work
from suwr.nn.step import training_starts
from suwr.training.actor import FixedPredictorTrainer
from suwr.training.config import (
    DEFAULT_EPOCHS,
    MANY_ROWS,
    MANY_ROWS_EPOCHS,
    MAX_BINNED_COLUMNS,
    MIN_TAUGHT,
    MIN_TAUGHT_EPOCHS,
    RANGE_FACTOR,
    TAUGHT_BATCH,
    TAUGHT_BATCHES,
    TAUGHT_EPOCHS,
    Settings,
    TrainingConfig,
    condition_of,
    default_bins,
    default_extension,
    default_folds,
    default_predictors,
    n_copies,
    taught_bins,
)
from suwr.training.data import BLOCK_ROWS, Rows
from suwr.training.registry import TRAINERS, Trainer, default_trainer, max_screened_units
from suwr.training.screening import Screening
from suwr.training.teacher import TeacherRows, fit_teacher
from suwr.training.validation import Task, compare_held_out, is_falling, tail_share

# Number of λ values, equally spaced on a logarithmic scale, at which the units are counted.
GRID = 33
# Where the number of units changes by more than this between two of them, only the two were
# measured, and what lies in between is unknown.
JUMP = 0.5


def check_range(value: Any, owner: str) -> tuple[float, float]:
    """Return a range of λ as two floats; raise a ``ValueError`` if it is not one."""
    numbers = len(value) == 2 and all(isinstance(v, Real) for v in value)
    if not numbers or not 0 < value[0] < value[1] < np.inf:
        expected = "a float, 'auto', or a range (low, high) with 0 < low < high"
        raise parameter_error("sparsity_weight", owner, expected, tuple(value))
    return float(value[0]), float(value[1])


def check_sparsity_weight(weight: Any, trainer: str, owner: str) -> None:
    """Raise a ``ValueError`` if the parameter ``sparsity_weight`` is invalid."""
    if not isinstance(weight, tuple | list):
        if weight not in Options("auto") and weight not in Interval(Real, 0):
            expected = "'auto', a float in the range [0, inf), or a range (low, high)"
            raise parameter_error("sparsity_weight", owner, expected, weight)
        return
    check_range(weight, owner)
    if trainer != "auto" and not TRAINERS[trainer].supports_range:
        expected = f"a float or 'auto' if trainer={trainer!r}"
        raise parameter_error("sparsity_weight", owner, expected, weight)


@dataclass(frozen=True)
class WeightRange:
    """The range of λ that a model was fitted for.

    Attributes
    ----------
    low, high : float
        The ends of the range.
    n_units : ndarray of shape (33,)
        Mean number of units that the validation rows reveal at each λ, from ``low`` to ``high`` in
        equal steps of log λ; non-increasing. A group or a patch counts as one unit, whatever its
        number of columns or its cost. ``mean_features`` refers to these numbers.
    """

    low: float
    high: float
    n_units: NDArray[np.float64]

    @classmethod
    def measure(cls, low: float, high: float, policy: Policy, rows: Rows) -> WeightRange:
        """Count the units that the validation rows reveal across the range."""
        # Large blocks are faster on a GPU; their rounding does not matter for a mean.
        block = min(len(rows), BLOCK_ROWS if policy.device.type == "cuda" else policy.block)
        policies = [policy.at(condition, block) for condition in np.linspace(-1.0, 1.0, GRID)]
        counts = [
            sum(
                (p.rollout(part.values, starts=training_starts(p.inputs, part.values)).order >= 0)
                .sum() for _, part in rows.blocks()
            ) / len(rows)
            for p in policies
        ]  # fmt: skip
        # A larger λ never reveals more in expectation: an increase is noise.
        return cls(low, high, np.minimum.accumulate(counts))

    def condition(self, sparsity_weight: float | None, mean_features: float | None) -> float:
        """Return the position in the range: -1 is the low end, 1 the high end.

        Without arguments it is 0, the geometric mean of the range.
        """
        if sparsity_weight is not None and mean_features is not None:
            raise ValueError("Pass either 'sparsity_weight' or 'mean_features', not both.")
        if sparsity_weight is not None:
            if (
                not isinstance(sparsity_weight, Real)
                or not self.low <= sparsity_weight <= self.high
            ):
                raise ValueError(
                    f"The 'sparsity_weight' parameter must be in [{self.low:g}, {self.high:g}], "
                    f"the range that the model was fitted for. Got {sparsity_weight!r} instead."
                )
            return condition_of(float(sparsity_weight), self.low, self.high)
        if mean_features is None:
            return 0.0
        most, least = float(self.n_units[0]), float(self.n_units[-1])
        if not isinstance(mean_features, Real) or not least <= mean_features <= most:
            raise ValueError(
                f"The 'mean_features' parameter must be in [{least:.3g}, {most:.3g}], the mean "
                "numbers of units that the validation rows reveal across the range of "
                f"'sparsity_weight'. Got {mean_features!r} instead."
            )
        grid, wanted = np.linspace(-1.0, 1.0, GRID), float(mean_features)
        above = int(np.flatnonzero(self.n_units >= wanted)[-1])
        ends = [above, min(above + 1, GRID - 1)]
        if self.n_units[ends[0]] - self.n_units[ends[1]] > JUMP:
            return float(grid[min(ends, key=lambda end: abs(self.n_units[end] - wanted))])
        # np.interp needs increasing abscissas: reverse the grid.
        return float(np.interp(wanted, self.n_units[::-1], grid[::-1]))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types, for model files."""
        return {"low": self.low, "high": self.high, "n_units": self.n_units.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> WeightRange:
        """Restore the output of `to_dict`."""
        counts = np.array(stored["n_units"], dtype=np.float64)
        if counts.shape != (GRID,) or not (np.isfinite(counts) & (counts >= 0)).all():
            raise ValueError(f"n_units must have {GRID} elements, finite and not negative.")
        if (np.diff(counts) > 0).any():
            raise ValueError("n_units must not increase.")
        return cls(float(stored["low"]), float(stored["high"]), counts)


def restore_range(stored: Any, weight: Any, owner: str) -> WeightRange | None:
    """Restore the range of a model file, after comparing it with the ``sparsity_weight``."""
    if stored is None and not isinstance(weight, tuple | list):
        return None
    if stored is not None and isinstance(weight, tuple | list):
        found = WeightRange.from_dict(stored)
        if (found.low, found.high) == check_range(weight, owner):
            return found
    raise ModelFileError("Its range of 'sparsity_weight' is inconsistent.")


# Predictions whose logarithms are network outputs are raised to it.
SMALLEST = 1e-12
# Largest difference between the predictions of a predictor on two machines, relative beyond 1.
REFERENCE_TOLERANCE = 1e-4


class RowDecoder:
    """Rows of the user's table from masked encoded values; hidden cells are missing.

    Parameters
    ----------
    encoder : TableEncoder
    backend : narwhals Implementation or None
        Library of the frames; None makes arrays.
    """

    def __init__(self, encoder: TableEncoder, backend: Any) -> None:
        self.encoder, self.backend = encoder, backend

    def __call__(self, values: NDArray[np.float32], masks: NDArray[np.bool_]) -> Any:
        """Decode rows."""
        columns = self.encoder.decode(values, masks)
        if self.backend is not None:
            named = zip(self.encoder.names, columns, strict=True)
            series = {
                name: nw.new_series(name, column.tolist(), _type_of(column), backend=self.backend)
                for name, column in named
            }
            return nw.from_dict(series).to_native()
        if all(column.dtype.kind == "f" for column in columns):
            return np.column_stack(columns)
        rows = np.empty((len(values), len(columns)), dtype=object)
        for number, column in enumerate(columns):
            rows[:, number] = column
        return rows


def _type_of(column: NDArray[Any]) -> Any:
    return nw.Float64() if column.dtype.kind == "f" else None


def check_predictor(model: SUWRModel) -> None:
    """Raise an error if the ``predictor`` does not go with the other parameters."""
    if model.predictor is None:
        return
    owner = type(model).__name__
    if not callable(getattr(model.predictor, "predict_masked", None)):
        expected = "None or an object with a predict_masked(X, masks) method"
        raise parameter_error("predictor", owner, expected, model.predictor)
    if model.trainer not in ("auto", "actor"):
        expected = "'auto' or 'actor' if 'predictor' is given"
        raise parameter_error("trainer", owner, expected, model.trainer)
    if (network := model._training_config().network) != "mlp":
        expected = "'mlp' if 'predictor' is given"
        raise parameter_error("network", "TrainingConfig", expected, network)


def fixed_predictor_trainer(model: SUWRModel, X: Any) -> FixedPredictorTrainer:
    """Return the trainer of a policy for the ``predictor`` of an estimator.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        With fitted encoder and target.
    X : object
        The table of ``fit``; decoded rows are frames of its library, or arrays.
    """
    backend = nw.from_native(X, eager_only=True).implementation if is_frame(X) else None
    return FixedPredictorTrainer(_external_predictor(model, model.encoder_, backend))


def _external_predictor(model: SUWRModel, encoder: TableEncoder, backend: Any) -> ExternalPredictor:
    target, classes = model.target_, model.target_.labels
    order: NDArray[np.intp] | None = None
    known = getattr(model.predictor, "classes_", None)
    if classes is not None and known is not None:
        labels = np.asarray(known).tolist()
        if set(labels) != set(classes):
            expected = f"a predictor of the classes {list(classes)}"
            raise parameter_error("predictor", type(model).__name__, expected, labels)
        order = np.array([labels.index(label) for label in classes])

    def to_outputs(prediction: NDArray[np.float64]) -> NDArray[np.float64]:
        if isinstance(target, ValueTarget):
            scaled = (prediction - target.center) / target.scale
            return np.log(np.maximum(scaled, SMALLEST)) if target.log_link else scaled
        ordered = prediction if order is None else prediction[:, order]
        return np.log(np.maximum(ordered, SMALLEST))

    return ExternalPredictor(
        model.predictor,
        len(encoder.names),
        RowDecoder(encoder, backend),
        to_outputs,
        target.n_outputs,
    )


# Model files contain no code: they hold what the predictor predicts for reference rows, and the
# same predictor must be passed to `suwr.load`.


def predictor_state(model: SUWRModel) -> dict[str, Any]:
    """Return what a model file says about the ``predictor``."""
    decoder: Any = model.policy_.network.get_submodule("predictor").decode
    return {
        "frames": None if decoder.backend is None else decoder.backend.value,
        "reference": _reference_predictions(model).tolist(),
    }


def restore_predictor(
    model: SUWRModel, encoder: TableEncoder, stored: Mapping[str, Any]
) -> ExternalPredictor:
    """Return the network part of a loaded model whose ``predictor`` is set."""
    frames = stored["frames"]
    return _external_predictor(
        model, encoder, None if frames is None else nw.Implementation(frames)
    )


def check_reference(model: SUWRModel, stored: Mapping[str, Any]) -> None:
    """Raise an error if the ``predictor`` of a loaded model is not the one of `predictor_state`."""
    expected = np.array(stored["reference"], dtype=np.float64)
    try:
        found = _reference_predictions(model)
    except ModelOutputError as error:
        raise ModelFileError(str(error)) from error
    if expected.shape != found.shape or not np.isfinite(expected).all():
        raise ModelFileError("The reference predictions of its predictor are invalid.")
    worst = float(np.max(np.abs(found - expected) / np.maximum(1.0, np.abs(expected))))
    if worst > REFERENCE_TOLERANCE:
        raise ModelFileError(
            "The 'predictor' is not the one that the model was fitted with: its predictions for "
            f"reference rows differ by up to {worst:.3g}."
        )


def _reference_predictions(model: SUWRModel) -> NDArray[np.float64]:
    """Predict reference rows with all, half and none of the columns revealed."""
    _, values = reference_rows(model.encoder_, model.policy_.device)
    shape, policy = (len(values), model.n_features_in_), model.policy_
    column = torch.arange(shape[1], device=values.device)
    masks = [column >= 0, column % 2 == 0, column % 2 == 1, column < 0]
    parts = [policy.predict(values, mask.expand(shape)).cpu().numpy() for mask in masks]
    return np.concatenate(parts).astype(np.float64)


# Default limit of `max_steps`: longer narratives are hard to read.
DEFAULT_MAX_STEPS = 32


# Memory that groups of columns may take besides twice the size of the weights.
_MAX_MEMBERSHIP = 2**26
# Multiplications to predict one row, steps × rows of a block × weights: about a second, which only
# models with more than the default number of steps reach.
_MAX_WORK = 2 * 10**10
# Building a network takes a fraction of a millisecond per tensor.
MAX_TENSORS = 4096
# Parameters that a file lacks if they have this value, so that earlier versions can read it.
_OPTIONAL = {"columns": None, "max_cost": None, "target_transform": None}


class FitPlan(NamedTuple):
    """What one fit trains, and why."""

    trainer: Trainer
    task: Task
    architecture: Architecture
    # That of all units, whichever the screening keeps.
    full: Architecture
    screening: Screening | None
    choices: dict[str, str]


@dataclass(kw_only=True, eq=False, repr=False)
class SUWRModel(SequentialModel):
    """Sequential unmasking without reversion (SUWR) as a scikit-learn estimator."""

    # scikit-learn does not read the names of ``**limits`` from the signatures.
    __metadata_request__predict: ClassVar = dict.fromkeys(RowLimits.__annotations__)
    __metadata_request__predict_proba: ClassVar = dict.fromkeys(RowLimits.__annotations__)
    __metadata_request__predict_log_proba: ClassVar = dict.fromkeys(RowLimits.__annotations__)
    __metadata_request__score: ClassVar = dict.fromkeys(("sparsity_weight", "mean_features"))

    sparsity_weight: float | Literal["auto"] | tuple[float, float] = "auto"
    max_steps: int | None = parameter(None, None, Interval(Integral, 1))
    groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None
    costs: Costs | Mapping[str, float] | ArrayLike | Callable[..., Any] | None = None
    max_cost: tuple[float, float] | None = None
    known_at_start: Sequence[str] | Mapping[str, float] | ArrayLike | None = None
    missing: Literal["value", "unrecorded"] = parameter("value", Options("value", "unrecorded"))
    max_epochs: int | Literal["auto"] = parameter("auto", Options("auto"), Interval(Integral, 1))
    teacher: Any = "auto"
    trainer: str = parameter("auto", Options("auto", *TRAINERS))
    predictor: Any = None
    training: TrainingConfig | Mapping[str, Any] | None = parameter(
        None, None, TrainingConfig, Mapping
    )
    columns: Mapping[str, Any] | None = parameter(None, None, Mapping)
    device: str = "auto"
    random_state: Any = None
    verbose: int | None = None

    weight_range_: WeightRange | None = field(init=False)
    history_: list[dict[str, Any]] = field(init=False)
    choices_: dict[str, str] = field(init=False)
    validation_: dict[str, float] = field(init=False)
    selectable_units_: NDArray[np.bool_] = field(init=False)
    certificate_: Certificate = field(init=False)
    conformal_: Conformal = field(init=False)
    _reward_scale_: float = field(init=False)
    # See `suwr.estimators.risks`; None in copies and in models that were loaded.
    _training_digests_: NDArray[np.uint64] | None = field(init=False, default=None)

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        costs: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Train the policy and the predictor.

        If ``torch.distributed`` is initialized (for instance by ``torchrun``), its processes train
        one model together: all of them must call `fit` with the same data, parameters and
        ``random_state``, and all of them get the same model.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            A numeric array, or a pandas or polars frame with numeric, string, categorical or
            boolean columns. NaN means 'missing', which is treated as a value.
        y : array-like of shape (n,)
            Class labels, or numbers for regression.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows.
        costs : array-like of shape (n, n_units) or data frame, optional
            Costs of the units of each row, as in `select`; requires that the parameter ``costs``
            has none. Rows whose costs are not given are charged the means later.
        checkpoint : path, optional
            File that holds the state of the fit after every epoch. A fit that was interrupted
            resumes from it when it is called again with the same data and parameters, with the same
            result; the file is deleted at the end. Requires ``random_state`` to be an int.

        Returns
        -------
        self
            If `fit` raises an exception or is interrupted, the estimator remains as it was.
        """
        with self._fit_aside() as model:
            written = model._train(X, y, sample_weight, costs, checkpoint)
            if written is not None:
                written.remove()
        return self

    def _fit(
        self, X: Any, y: Any, checkpoint: str | os.PathLike[str] | None
    ) -> FileCheckpoint | None:
        """Fit and return the checkpoint, so that a caller can save the model before removing it."""
        with self._fit_aside() as model:
            return model._train(X, y, checkpoint=checkpoint)

    def _train(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        costs: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> FileCheckpoint | None:
        """Set the fitted attributes of an unfitted estimator; return its checkpoint."""
        self._check_checkpoint(checkpoint)
        data = self._prepare(X, y, sample_weight, costs)
        process_group = self._process_group(data)
        is_main = process_group is None or process_group.is_main
        written = None
        if checkpoint is not None:
            identity = self._identity(data, "columns", "verbose")
            written = FileCheckpoint(checkpoint, identity, writes=is_main)
        verbose = self.verbose if is_main else 0
        with seeded(self.device_, data.seed) as generator:
            plan = self._plan(data, generator, X)
            trainer, task = plan.trainer, plan.task
            report_choices(plan.choices, verbose)
            with training_progress(trainer.n_epochs(task), verbose) as progress:
                network, history = trainer.train(
                    plan.architecture, task, generator, progress, checkpoint=written,
                    process_group=process_group,
                )  # fmt: skip
        self._finish(data, plan, self._extended(data, plan, network), history)
        return written

    def _extended(self, data: TrainingData, plan: FitPlan, network: Network) -> Network:
        """The network of all units, from that of the units that the screening kept."""
        if plan.screening is None:
            return network
        return plan.screening.extend(network, plan.full)

    def _plan(self, data: TrainingData, generator: torch.Generator, X: Any = None) -> FitPlan:
        """Choose what the parameters leave open, from the numbers of rows and columns."""
        choices: dict[str, str] = {}
        patches = isinstance(self.groups, Patches)
        fixed = None if self.predictor is None else fixed_predictor_trainer(self, X)
        automatic = self.trainer == "auto" and fixed is None
        screening, n_units = None, data.inputs.n_units
        if not patches and fixed is None and (automatic or TRAINERS[self.trainer].screens):
            limit = max_screened_units(len(data.rows))
            screening = Screening.of(data.inputs, data.rows, generator, limit)
            n_units = n_units if screening is None else screening.n_kept
        budgets = data.inputs.budgets is not None
        trainer = fixed or TRAINERS.get(self.trainer) or default_trainer(n_units, patches, budgets)
        if automatic:
            kind = " and budgets" if budgets else ""
            choices["trainer"] = f"{trainer.name}, for {n_units} units{kind}"
        if not trainer.screens:
            screening = None
        if screening is not None:
            total = data.inputs.n_units
            choices["screening"] = (
                f"{n_units} of {total} units, by the significance of their effects and interactions"
            )
        n_columns = data.inputs.n_columns
        source = self._target_source(len(data.rows), n_columns, data.soft)
        source = source if trainer.teaches else None
        if source == "stack" and not trainer.screens:
            source = None
        choices |= self._choices_by_rows(trainer, data, source)
        architecture = full = self._architecture(data, trainer, source)
        task = self._task(trainer, data, source, n_units, X)
        if screening is not None:
            task = screening.restrict(task)
            architecture = screening.restrict_architecture(architecture)
        return FitPlan(trainer, task, architecture, full, screening, choices)

    @property
    def _may_screen(self) -> bool:
        """Whether the trainer may be one that screens units, as that of columns does."""
        return self.trainer == "auto" or TRAINERS[self.trainer].screens

    @property
    def _has_range(self) -> bool:
        """Whether the model is trained for a range of λ or of budgets."""
        return isinstance(self.sparsity_weight, tuple | list) or self.max_cost is not None

    def _prepare(self, X: Any, y: Any, sample_weight: Any, costs: Any = None) -> TrainingData:
        """Validate the parameters and read the arguments of `fit`."""
        self._check_parameters()
        data = self._training_data(X, y, sample_weight, costs)
        self.weight_range_ = self.dates_ = self.training_file_ = None
        self._install(self.encoder_, self.units_, torch.device(self.device_), None)
        return data

    def _check_checkpoint(self, checkpoint: Any) -> None:
        """Raise an error if a fit could not be resumed from this ``checkpoint``."""
        check_parameters(
            "fit", {"checkpoint": [None, str, os.PathLike]}, {"checkpoint": checkpoint}
        )
        if checkpoint is None:
            return
        check_writable(checkpoint)
        check_seed(self, "The 'checkpoint' parameter", "a resumed fit draws the same numbers")
        refused = "None if 'predictor' is given" if self.predictor is not None else None
        if callable(Costs.read(self.costs).units):
            refused = "None if 'costs' is a function, which a resumed fit could not recognise"
        if refused is not None:
            raise parameter_error("checkpoint", "fit", refused, checkpoint)

    def _check_parameters(self) -> None:
        """See `TableModel`."""
        super()._check_parameters()
        check_sparsity_weight(self.sparsity_weight, self.trainer, type(self).__name__)
        check_predictor(self)
        self._check_teacher()
        self._budgets()
        image_shape(self._training_config().network, self.groups)

    def _budgets(self) -> Budgets | None:
        """Read the range of budgets ``max_cost``; None if it is not given."""
        given, owner = self.max_cost, type(self).__name__
        if given is None:
            return None
        expected = "None, or a range (low, high) of budgets with 0 < low < high"
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise parameter_error("max_cost", owner, expected, given)
        if not all(isinstance(end, Real) for end in given) or not 0 < given[0] < given[1] < np.inf:
            raise parameter_error("max_cost", owner, expected, tuple(given))
        if isinstance(self.sparsity_weight, tuple | list):
            expected = "None if 'sparsity_weight' is a range"
            raise parameter_error("max_cost", owner, expected, tuple(given))
        if Costs.read(self.costs).of != 1:
            expected = "None if steps reveal several units"
            raise parameter_error("max_cost", owner, expected, tuple(given))
        if not self._may_screen:
            expected = f"None if trainer={self.trainer!r}"
            raise parameter_error("max_cost", owner, expected, tuple(given))
        return Budgets(float(given[0]), float(given[1]))

    def _training_config(self) -> TrainingConfig:
        """Return the parameter ``training`` as a validated object."""
        if isinstance(self.training, TrainingConfig):
            return self.training
        return TrainingConfig.from_mapping(self.training or {}, type(self).__name__)

    def _check_teacher(self) -> None:
        """Raise an error for a ``teacher`` that cannot be fitted or used."""
        teacher, owner = self.teacher, type(self).__name__
        if teacher is None or (isinstance(teacher, str) and teacher in ("auto", "targets")):
            return
        ask = "predict" if is_regressor(self) else "predict_proba"
        if isinstance(teacher, str) or not all(hasattr(teacher, name) for name in ("fit", ask)):
            expected = f"'auto', 'targets', None, or an estimator with fit and {ask}"
            raise parameter_error("teacher", owner, expected, teacher)
        for name, refused in (
            ("predictor", self.predictor is not None),
            ("trainer", self.trainer == "reinforce"),
        ):
            if refused:
                expected = f"'auto' or None with {name}={getattr(self, name)!r}"
                raise parameter_error("teacher", owner, expected, teacher)

    def _target_source(
        self, n_rows: int, n_columns: int, soft: bool
    ) -> Literal["stack", "given", "targets"] | None:
        """Where the targets of the policy come from; None are the labels.

        ``soft`` is whether targets are class probabilities.
        """
        if self.teacher is None or self.predictor is not None:
            return None
        if not isinstance(self.teacher, str):
            return "given"
        if self.teacher == "targets":
            return "targets"
        brief = self.max_epochs != "auto" and self.max_epochs < MIN_TAUGHT_EPOCHS
        others = soft or isinstance(self.groups, Patches) or self._has_range or brief
        if others or not self._may_screen:
            return None
        few = MIN_TAUGHT <= n_rows < MANY_ROWS and n_columns <= MAX_BINNED_COLUMNS
        return "stack" if few and self.target_.make_loss().linear_in_targets else None

    def _n_bins(self, n_rows: int, n_columns: int, soft: bool) -> int:
        given = self._training_config().n_bins
        if given is not None:
            return int(given)
        images = isinstance(self.groups, Patches)
        if images or self.predictor is not None or not self._may_screen:
            return 0
        if self._target_source(n_rows, n_columns, soft) is not None:
            return taught_bins(n_columns)
        return default_bins(n_rows, n_columns)

    def _n_predictors(self, trainer: Trainer, n_rows: int, source: str | None) -> int:
        if trainer.shared or self.predictor is not None:
            return 1
        if (given := self._training_config().n_predictors) != "auto":
            return int(given)
        return default_predictors(n_rows) if trainer.screens and source != "targets" else 2

    def _n_epochs(self, trainer: Trainer, n_rows: int, source: str | None) -> int:
        """Return the maximum number of epochs of the policy phase."""
        if self.max_epochs != "auto":
            return int(self.max_epochs)
        n_epochs = MANY_ROWS_EPOCHS if n_rows >= MANY_ROWS else DEFAULT_EPOCHS
        n_epochs = DEFAULT_EPOCHS if not trainer.screens else n_epochs
        n_epochs = TAUGHT_EPOCHS if source is not None and trainer.screens else n_epochs
        return round(n_epochs * (RANGE_FACTOR if trainer.screens and self._has_range else 1.0))

    def _extension(self, trainer: Trainer, n_rows: int, source: str | None) -> float:
        """Return the `extension` of `Settings`; epochs that are given are never exceeded."""
        automatic = trainer.screens and self.max_epochs == "auto" and source is None
        return default_extension(n_rows) if automatic else 1.0

    def _choices_by_rows(
        self, trainer: Trainer, data: TrainingData, source: str | None
    ) -> dict[str, str]:
        """Return what is chosen by the number of training rows, and why, by parameter."""
        choices, n_rows = {}, len(data.rows)
        reason = f"for {n_rows:,} training rows"
        automatic = self._training_config().n_predictors == "auto" and not trainer.shared
        if automatic and self.predictor is None:
            choices["n_predictors"] = f"{self._n_predictors(trainer, n_rows, source)}, {reason}"
        if data.inputs.pieces is not None and self._training_config().n_bins is None:
            readers = "every second predictor" if source is None else "all networks"
            readers += " after pretraining" if source in ("stack", "given") else ""
            n_bins = self._n_bins(n_rows, data.inputs.n_columns, data.soft)
            choices["n_bins"] = f"{n_bins} for {readers}, {reason}"
        if self.max_epochs == "auto":
            several = " and a range of λ" if self._has_range else ""
            several += "" if source is None else " and a teacher"
            choices["max_epochs"] = f"{self._n_epochs(trainer, n_rows, source)}, {reason}{several}"
            if self._extension(trainer, n_rows, source) > 1:
                choices["max_epochs"] += "; twice as many if the predictors need more"
        return choices

    def _process_group(self, data: TrainingData) -> ProcessGroup | None:
        """Return the processes that train together, after checking that their inputs agree."""
        group = ProcessGroup.current(self.device_)
        if group is not None:
            check_seed(self, "Distributed training", "all processes draw the same numbers")
            group.check_equal(
                bytes.fromhex(self._identity(data, "columns", "device", "verbose")),
                "Every process must call fit with the same data and parameters.",
            )
        return group

    def _finish(
        self, data: TrainingData, plan: FitPlan, network: Network, history: list[dict[str, Any]]
    ) -> None:
        """Store the result of training."""
        weights = network.state_dict()
        if not all(bool(torch.isfinite(weight).all()) for weight in weights.values()):
            raise FloatingPointError("Training diverged: the weights are not finite.")
        if not bool((weights["stop_temperature"] > 0).all()):
            raise FloatingPointError("Training diverged: the stop temperature is not positive.")
        self.history_, self.choices_ = history, dict(plan.choices)
        if plan.task.lesson is not None:
            self.choices_["teacher"] = plan.task.lesson.sentence
        selectable = None if plan.screening is None else plan.screening.kept.cpu().numpy()
        self._install(self.encoder_, self.units_, torch.device(self.device_), network, selectable)
        weight, unit = self.sparsity_weight_ / self.constant_loss_, self.constant_loss_
        comparison = compare_held_out(
            self.policy_, data.loss, data.rows, data.validation, weight, unit
        )
        self.validation_ = comparison.to_dict()
        self._record_held_out(data.validation)
        self.n_rows_ = len(data.rows), len(data.validation)
        self._training_digests_ = training_digests((data.rows, data.validation))
        squared = getattr(self.target_, "loss", None) == "squared_error"
        comparison.warn(
            type(self).__name__,
            len(data.rows),
            weight,
            plan.task.settings.max_epochs,
            falling=is_falling(history),
            tail=tail_share(data.rows.targets[:, 0].cpu().numpy()) if squared else 0.0,
        )
        if isinstance(self.sparsity_weight, tuple | list):
            low, high = check_range(self.sparsity_weight, type(self).__name__)
            self.weight_range_ = WeightRange.measure(low, high, self.policy_, data.validation)

    def _step_size(self) -> int:
        """Return the number of units per step, at most all of them."""
        return min(int(Costs.read(self.costs).of), len(self.units_))

    def _task(
        self, trainer: Trainer, data: TrainingData, source: str | None, n_units: int, X: Any
    ) -> Task:
        """Return the learning problem, with what a teacher knows of its rows."""
        n = len(data.rows)
        parts = data.inputs, data.loss, data.rows, data.validation
        if source in (None, "targets"):
            return Task(*parts, self._settings(trainer, n, n_units, source))
        given = None
        if source == "given":
            if isinstance(X, StoredTable):
                raise TypeError("A 'teacher' that is an estimator requires a table in memory.")
            given = (self.teacher, lambda sources: self._teacher_rows(data, X, sources))
        lesson = fit_teacher(data.rows, data.inputs, data.loss, n_copies(n), data.seed, given)
        labels = self._settings(trainer, n, n_units, None)
        taught = self._settings(trainer, len(lesson.rows), n_units, source)
        return Task(*parts, labels, lesson, replace(taught, n_folds=labels.n_folds))

    def _settings(
        self, trainer: Trainer, n_rows: int, n_units: int, source: str | None
    ) -> Settings:
        """Return the settings of a fit; λ is in units of the best constant prediction's loss."""
        unit, given = self.constant_loss_, self.sparsity_weight
        weight: float | tuple[float, float] = self.sparsity_weight_ / unit
        if isinstance(given, tuple | list):
            weight = (given[0] / unit, given[1] / unit)
        n_predictors, config = self._n_predictors(trainer, n_rows, source), self._training_config()
        four = trainer.screens and source is None
        if source == "targets" and config.n_bins is None:
            # All networks read the bins, and not every second predictor alone.
            config = replace(config, n_bins=taught_bins(n_units))
        return trainer.configure(
            config,
            taught=source is not None,
            sparsity_weight=weight,
            max_steps=self._max_steps(n_units),
            units_per_step=self._step_size(),
            max_epochs=self._n_epochs(trainer, n_rows, source),
            extension=self._extension(trainer, n_rows, source),
            n_folds=default_folds(n_rows, n_predictors) if four else 2,
            batch_size=self._batch_size(n_rows, source),
        )

    def _batch_size(self, n_rows: int, source: str | None = None) -> int:
        if self._training_config().batch_size != "auto" or source is None:
            return super()._batch_size(n_rows)
        return int(np.clip(n_rows // TAUGHT_BATCHES, *TAUGHT_BATCH))

    def _teacher_rows(self, data: TrainingData, X: Any, sources: NDArray[np.intp]) -> TeacherRows:
        """What the user's ``teacher`` is fitted to."""
        own = take_rows(as_rows(X), data.row_numbers)
        y = self.target_.answers(self.target_.shown(data.rows.targets.cpu().numpy()))
        return TeacherRows(own, gather_rows(own, sources), y, self.target_.taught)

    def _architecture(
        self, data: TrainingData, trainer: Trainer, source: str | None
    ) -> Architecture:
        return Architecture(
            **self._network_sizes(data),
            n_members=self._n_predictors(trainer, len(data.rows), source),
            shared=trainer.shared,
            conditioned=self._has_range,
            n_knots=POSITION_KNOTS if self._has_range else 1,
            image_shape=image_shape(self._training_config().network, self.groups),
            # The uncertainty features are functions of class probabilities.
            informed=trainer.informed and self.target_.n_outputs > 1,
        )

    def _identity(self, data: TrainingData, *ignored: str) -> str:
        """Return a digest of the rows and of all parameters except the ``ignored`` ones."""
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in ignored}
        return fingerprint(parameters, [*data.rows.tensors(), *data.validation.tensors()])

    def _install(
        self,
        encoder: TableEncoder,
        units: Units,
        device: torch.device,
        network: Network | None,
        selectable: NDArray[np.bool_] | None = None,
    ) -> None:
        """Set the fitted attributes; `suwr.load` calls this too."""
        self.encoder_, self.units_ = encoder, units
        self.selectable_units_ = np.ones(len(units), bool) if selectable is None else selectable
        self.device_ = str(device)
        self._reward_scale_ = self._training_config().reward_scale
        self.max_steps_ = self._max_steps(int(self.selectable_units_.sum()))
        # Rows have the largest budget unless given.
        condition = None if self.max_cost is None else 1.0
        if isinstance(self.sparsity_weight, tuple | list):
            low, high = check_range(self.sparsity_weight, type(self).__name__)
            self.sparsity_weight_, condition = (low * high) ** 0.5, 0.0
        else:
            self.sparsity_weight_ = self._resolve_weight(self.sparsity_weight)
        if network is not None:
            inputs, loss = self._parts(selectable)
            self.policy_ = Policy(
                network.eval(), inputs, loss, self.max_steps_, self._step_size(),
                condition=condition,
            )  # fmt: skip

    def _max_steps(self, n_units: int) -> int:
        limit = DEFAULT_MAX_STEPS if self.max_steps is None else self.max_steps
        return min(limit, -(-n_units // self._step_size()))

    def _policy_at(
        self, sparsity_weight: float | None = None, mean_features: float | None = None
    ) -> Policy:
        check_is_fitted(self, "policy_")
        if self._is_certified():
            self._check_unchanged()
        elif self.weight_range_ is not None:
            return self.policy_.at(self.weight_range_.condition(sparsity_weight, mean_features))
        for name, value in (("sparsity_weight", sparsity_weight), ("mean_features", mean_features)):
            if value is None:
                continue
            if self._is_certified():
                raise ValueError(
                    f"The {name!r} parameter cannot be chosen, because the model is certified for "
                    f"one policy. Got {value!r}. Certify the original model again instead."
                )
            raise ValueError(
                f"The {name!r} parameter can be chosen after fitting only if the model was "
                "fitted for a range, with sparsity_weight=(low, high)."
            )
        return self.policy_

    @property
    def unused_columns_(self) -> frozenset[str]:
        """See `TableModel`: those that screening left out or that no held-out row revealed."""
        chosen = self.selectable_units_.copy()
        if self.step_effects_ is not None and self.step_effects_.cases:
            chosen &= np.isin(np.arange(len(chosen)), list(self.step_effects_.cases))
        read = self.units_.membership[chosen].any(axis=0)
        names = np.array(self.encoder_.names, dtype=object)
        known = known_at_start(self.policy_.inputs, self.encoder_.names)
        return frozenset(names[~read].tolist()) - known.keys()

    # Guarantees.

    @consistent
    def certify(
        self,
        X_cal: Any,
        y_cal: ArrayLike | None = None,
        *,
        risk: Literal["disagreement", "error", "loss"] | RiskFunction = "disagreement",
        level: float = 0.05,
        confidence: float = 0.95,
        groups: ArrayLike | None = None,
        per: Literal["steps", "class"] | None = None,
        abstain: bool = False,
        tolerance: float | None = None,
        rule: Literal["auto", "confidence", "gain"] = "auto",
    ) -> Self:
        """Choose the cheapest stopping rule whose risk is provably at most a level.

        With probability at least ``confidence`` over the calibration rows, the expected risk of a
        new row is at most ``level``. This holds for any distribution and any number of calibration
        rows, provided that calibration rows and new rows are exchangeable and that the model was
        not fitted on them. See the `theory <../theory/guarantee.md>`_.

        Parameters
        ----------
        X_cal : array-like or data frame of shape (n, d)
            Complete calibration rows that were used neither by `fit` nor to choose its parameters.
        y_cal : array-like of shape (n,), optional
            Their classes or values; required by the risks 'error' and 'loss'. The classes are those
            of ``per='class'``.
        risk : {'disagreement', 'error', 'loss'} or callable, default='disagreement'
            What may go wrong because a row stops before everything is revealed:

            - 'disagreement': the prediction is another class, or differs by more than
              ``tolerance``.
            - 'error': the prediction is wrong (by more than ``tolerance``), and with everything
              revealed it would not be.
            - 'loss': the increase of the log loss or of the ``loss`` of a regressor, from 0 to 1 in
              units of the loss of the best constant prediction, or with squared error of
              ``tolerance`` squared.
            - A function ``risk(prediction, full, y)`` of class probabilities or values, when the
              row stops and with everything revealed, that returns a number in [0, 1] per row.
        level : float, default=0.05
        confidence : float, default=0.95
        groups : array-like of shape (n,), optional
            Labels of the calibration rows: the guarantee then holds in each group.
        per : {'class', 'steps'}, optional
            'class' gives the guarantee in each class of the model, whose calibration rows must be
            enough for it: among the rows of each true class or, without ``y_cal``, among those for
            which everything revealed would predict the class. In each class of each group, if there
            are ``groups``. A classifier only.

            'steps' gives the guarantee also among the rows that stop within t steps, for each t
            from ``certificate_.steps`` on. It sets a fifth of the calibration rows aside.
        abstain : bool, default=False
            Whether rows that use up ``max_steps`` abstain; see `answered`. The guarantee is then
            for the answered rows. It sets a fifth of the calibration rows aside.
        tolerance : float, optional
            Difference of predicted values that does not count, in the units of ``y``; regression
            only.
        rule : {'auto', 'confidence', 'gain'}, default='auto'
            What the certified policy stops by: 'confidence' is the probability of the predicted
            class, 'gain' the stopping policy of the model with another threshold. For a model of a
            range of λ, the family of 'gain' also contains its λ. 'auto' is 'confidence' for the
            risks 'disagreement' and 'error' of a classifier that has no range, 'gain' otherwise.

        Returns
        -------
        estimator
            A fitted estimator of the same class with the attribute ``certificate_``. This one is
            left as it is. If no other policy passes, it reveals every feature, with a
            `suwr.exceptions.CertificationWarning`. The same warning is issued if the policy that
            stops at once meets the level too, if calibration rows are training rows, and if most of
            them are one and the same row.
        """
        check_is_fitted(self, self._fitted_attribute)
        if self._is_certified():
            raise ValueError(
                f"This {type(self).__name__} is certified already. Certify the model that it was "
                "made from."
            )
        request = Request(risk, level, confidence, per, abstain, tolerance, rule)
        found, weights = self.weight_range_, list[float | None]([None])
        if found is not None:
            ends = found.low, found.high
            weights = np.geomspace(*ends, N_WEIGHTS).clip(*ends).tolist()
        policies = [(weight, self.fitted_policy(weight)) for weight in weights]
        policy, certificate = certify(
            policies, X_cal, y_cal, groups, request, self._training_digests_
        )
        certified = copy.copy(self)
        certified.policy_ = policy
        if certificate.sparsity_weight is not None:
            certified.sparsity_weight_ = certificate.sparsity_weight
        if certificate.reveals_everything:
            certified.max_steps = int(self.selectable_units_.sum())
            certified.max_steps_ = policy.max_steps = certified._max_steps(certified.max_steps)
        if hasattr(certified, "conformal_"):
            del certified.conformal_
        certified.certificate_ = replace(certificate, digest=certified._digest())
        return certified

    @consistent
    def answered(self, X: Any) -> NDArray[np.bool_]:
        """Return which rows are answered; the others abstain.

        Only models that were certified with ``abstain=True`` abstain: from rows that use up
        ``max_steps`` before the policy stops.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        fitted, parts = self.fitted_policy(), []
        for values, trace in fitted.rollouts(self._read(X)):
            if fitted.last == "budget":
                parts.append(np.ones(len(values), dtype=bool))
            else:
                stopped = trace.n_steps < fitted.policy.max_steps
                parts.append(stopped | fitted.policy.complete(trace.mask))
        return np.concatenate(parts)

    @consistent
    def conformalize(
        self,
        X_cal: Any,
        y_cal: ArrayLike,
        *,
        coverage: float = 0.9,
        score: Literal["auto", "lac", "aps", "absolute"] = "auto",
    ) -> Self:
        """Calibrate `predict_set` by split conformal prediction on the stopped policy.

        The set of a new exchangeable row contains its class or value with probability at least
        ``coverage``, on average over calibration rows and new rows.

        Parameters
        ----------
        X_cal : array-like or data frame of shape (n, d)
            Rows that were used neither by `fit` nor by `certify`.
        y_cal : array-like of shape (n,)
        coverage : float, default=0.9
        score : {'auto', 'lac', 'aps', 'absolute'}, default='auto'
            'lac' is one minus the probability of the class, and gives the smallest sets; 'aps' is
            the total probability of all classes that are at least as probable, and adapts the size
            of the set to the difficulty of the row; 'absolute' is the absolute residual of a
            regression, after its ``target_transform``. 'auto' is 'lac' or 'absolute'.

        Returns
        -------
        estimator
            A fitted estimator of the same class with the attribute ``conformal_``.
        """
        check_real(coverage, "coverage", "conformalize", Interval(Real, 0, 1, closed="neither"))
        check_is_fitted(self, self._fitted_attribute)
        target = self.target_
        known = SCORES["values" if target.labels is None else "classes"]
        chosen = check_choice(score, "score", "conformalize", ("auto", *known))
        chosen = known[0] if chosen == "auto" else chosen
        predicted = target.normalized(self._predict_final(X_cal))
        truth = target.read(y_cal, len(predicted))
        if isinstance(target, ValueTarget):
            transform = target.transformation.forward
            scores = np.abs(transform(predicted[:, 0]) - transform(truth))
        else:
            scores = scores_of_classes(predicted, chosen)[np.arange(len(truth)), truth]
        calibrated = copy.copy(self)
        calibrated._training_digests_ = self._training_digests_
        quantile = conformal_quantile(scores, coverage)
        calibrated.conformal_ = Conformal(
            float(coverage), chosen, quantile, len(scores), self._digest()
        )
        return calibrated

    @consistent
    def predict_set(self, X: Any) -> NDArray[Any]:
        """Predict a set of classes, or an interval, that contains the truth with known coverage.

        Requires `conformalize`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)

        Returns
        -------
        ndarray of bool, shape (n, n_classes), or of float, shape (n, 2)
            The classes in each set, or the ends of each interval.
        """
        check_is_fitted(self, self._fitted_attribute)
        if not hasattr(self, "conformal_"):
            raise ValueError(
                "predict_set requires a model whose sets are calibrated: call "
                "conformalize(X_cal, y_cal) first, and use the estimator that it returns."
            )
        predicted = self.target_.normalized(self._predict_final(X))
        if self.conformal_.digest != self._digest():
            raise ValueError("The model was changed after conformalize.")
        if isinstance(self.target_, ValueTarget):
            transform = self.target_.transformation
            ends = self.conformal_.intervals(transform.forward(predicted[:, 0]))
            return transform.inverse(ends)
        return self.conformal_.sets(predicted)

    def __getstate__(self) -> dict[str, Any]:
        # With the digests, a pickle would tell whether a given row was used for training.
        return {k: v for k, v in super().__getstate__().items() if k != "_training_digests_"}

    # Protection of guarantees. A guarantee holds for one policy and is bound to the digest of the
    # model: if the parameters, the weights, the classes or the encoding of a certified model are
    # changed, its methods raise a ValueError.

    def _is_certified(self) -> bool:
        return hasattr(self, "certificate_")

    def _certificate(self) -> Certificate | None:
        return self.certificate_ if self._is_certified() else None

    def _fitted(self, policy: Policy) -> FittedPolicy:
        scale = self._reward_scale_
        if self.weight_range_ is not None and policy.condition is not None:
            # See `SparsityWeights.importance`.
            scale *= (self.weight_range_.high / self.weight_range_.low) ** (-policy.condition / 4)
        return replace(super()._fitted(policy), gain_unit=scale)

    def _digest(self) -> str:
        """Return the SHA-256 of all that determines decisions and predictions of a fitted self."""
        policy, units = self.policy_, self.units_
        facts = {
            "kind": type(self).__name__,
            "columns": self.encoder_.names,
            "codes": [
                [code.center, code.scale, code.has_missing, str(code.type), code.categories]
                for code in self.encoder_.codes
            ],
            "units": [units.columns_of(u).tolist() for u in range(len(units))],
            "costs": [float(cost) for cost in units.costs],
            "selectable": self.selectable_units_.tolist(),
            "max_steps": [policy.max_steps, self._max_steps(int(self.selectable_units_.sum()))],
            "units_per_step": [policy.units_per_step, self._step_size()],
            "condition": policy.condition,
            "stop_odds": policy.stop_odds,
            "output": self.target_.facts(),
        }  # fmt: skip
        # Digests of certificates from before these existed stay valid.
        if units.setups is not None:
            facts["setups"] = [units.setups.costs.tolist(), units.setups.of_unit.tolist()]
        if units.visit_cost:
            facts["visit_cost"] = units.visit_cost
        if policy.inputs.known is not None:
            facts["known"] = policy.inputs.known.tolist()
        if self.encoder_.unrecorded:
            facts["unrecorded"] = True
        if any(code.knots for code in self.encoder_.codes):
            facts["knots"] = [code.knots for code in self.encoder_.codes]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
        for name, tensor in sorted(policy.network.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().numpy().tobytes())
        return digest.hexdigest()

    def _check_unchanged(self) -> None:
        """Raise a ``ValueError`` if the certificate does not belong to the model."""
        if self._digest() != self.certificate_.digest:
            raise ValueError(
                f"This {type(self).__name__} was changed after it was certified, so that its "
                "certificate does not hold. Certify the changed model again."
            )

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator; a certified one cannot be changed.

        Parameters
        ----------
        **params

        Returns
        -------
        self
        """
        if params:
            self._refuse("set_params")
        changed: Self = super().set_params(**params)
        return changed

    @contextmanager
    def _fit_aside(self) -> Iterator[Self]:
        self._refuse("fit")
        with super()._fit_aside() as fresh:
            yield fresh

    def _refuse(self, method: str) -> None:
        if self._is_certified():
            raise ValueError(
                f"{method} would change a certified {type(self).__name__}. Use "
                "sklearn.base.clone(estimator), which has no certificate."
            )

    # Files.

    def _guarantees(self) -> dict[str, Any]:
        """Return the entries of a model file; certified models have format 2."""
        state: dict[str, Any] = {}
        if self._is_certified():
            self._check_unchanged()
            # An older suwr would decide by another λ of a range, and not mention the certificate.
            state |= {"format": 2, "certificate": self.certificate_.to_dict()}
        if hasattr(self, "conformal_"):
            state["conformal"] = self.conformal_.to_dict()
        return state

    def _restore_guarantees(self, state: dict[str, Any]) -> None:
        """Set the guarantees of a model file, after checking that they are of this model."""
        if "certificate" in state:
            certificate = Certificate.from_dict(state["certificate"])
            weight = certificate.sparsity_weight
            if (weight is None) != (self.weight_range_ is None):
                raise ModelFileError("Its certificate is inconsistent.")
            if weight is not None:
                self.policy_ = self._policy_at(weight)
                self.sparsity_weight_ = weight
            if certificate.rule == "confidence" and not certificate.reveals_everything:
                # No odds are at most 0: the policy never stops.
                self.policy_.stop_odds = certificate.threshold or None
            if certificate.digest != self._digest():
                raise ModelFileError("Its certificate belongs to another self.")
            self.certificate_ = certificate
        if "conformal" in state:
            conformal = Conformal.from_dict(state["conformal"])
            known = SCORES["values" if self.target_.labels is None else "classes"]
            if conformal.score not in known or conformal.digest != self._digest():
                raise ModelFileError("Its prediction sets belong to another self.")
            self.conformal_ = conformal

    def _held_out_state(self) -> dict[str, Any]:
        """Return what a model file says about its target and held-out rows."""
        state: dict[str, Any] = {
            "target_name": self.target_name_,
            "report": None if self.report_ is None else self.report_.to_dict(),
            "importances": None,
        }
        if self.feature_importances_ is not None:
            state["importances"] = self.feature_importances_.tolist()
        if self.csv_format_:
            state["csv"] = dict(self.csv_format_)
        if self.n_rows_ is not None:
            state["n_rows"] = list(self.n_rows_)
        if self.step_effects_ is not None:
            state["step_effects"] = self.step_effects_.to_dict()
        if self.training_file_ is not None:
            state["training_file"] = self.training_file_
        if self.dates_ is not None:
            state["dates"] = self.dates_.to_list()
        return state

    def _restore_held_out(self, state: Mapping[str, Any]) -> None:
        """Set the attributes of `_held_out_state`; files of suwr 0.2.0 lack them."""
        name, report = state.get("target_name"), state.get("report")
        self.target_name_ = None if name is None else str(name)
        if state.get("training_file") is not None:
            self.training_file_ = str(state["training_file"])
        if state.get("csv") is not None:
            self.csv_format_ = dict(state["csv"])
        if state.get("n_rows") is not None:
            n_train, n_held_out = state["n_rows"]
            self.n_rows_ = int(n_train), int(n_held_out)
        if state.get("step_effects") is not None:
            self.step_effects_ = StepEffects.from_dict(state["step_effects"])
        if state.get("dates") is not None:
            self.dates_ = DateParts.from_list(state["dates"])
            parts = {part for own in self.dates_.groups_.values() for part in own}
            if not parts <= set(state["names"] or ()):
                raise ValueError("The parts of its dates are not columns.")
        self.report_ = None if report is None else Evaluation.from_dict(report)
        self.feature_importances_ = None
        if state.get("importances") is not None:
            shares = np.array(state["importances"], dtype=np.float64)
            if shares.shape != (self.n_features_in_,):
                raise ValueError("There must be one importance per column.")
            if not ((shares >= 0) & np.isfinite(shares)).all():
                raise ValueError("The importances of columns must be finite and not negative.")
            self.feature_importances_ = shares

    def _size_problem(self, a: Architecture) -> str | None:
        """Say why units or steps would take too much memory or time for the size of the model."""
        n_weights = a.n_weights
        if membership_bytes(self.groups, a.n_columns) > 8 * n_weights + _MAX_MEMBERSHIP:
            n = a.n_columns
            return f"Its groups have too many columns for the size of its networks: {n:,}."
        most = DEFAULT_MAX_STEPS if self.max_steps is None else self.max_steps
        n_steps = min(most, -(-a.n_units // int(Costs.read(self.costs).of)))
        work = n_steps * block_size(a, torch.device("cpu")) * row_work(a)
        if n_steps > DEFAULT_MAX_STEPS and work > _MAX_WORK:
            most = max(DEFAULT_MAX_STEPS, n_steps * _MAX_WORK // work)
            return f"It takes too many steps for its size: {n_steps:,}. The most is {most:,}."
        return None

    def _to_bytes(self) -> bytes:
        """Return a fitted model as the bytes of a model file."""
        network = self.policy_.network
        tensors = {k: v.detach().cpu().numpy() for k, v in network.state_dict().items()}
        problem = self._size_problem(network.architecture)
        if len(tensors) > MAX_TENSORS:
            problem = f"It has too many tensors: {len(tensors):,}."
        if problem is not None:
            raise ValueError(f"The model cannot be saved, since it could not be loaded. {problem}")
        named = hasattr(self, "feature_names_in_")
        state: dict[str, Any] = {
            "format": 1,
            "version": suwr.__version__,
            "kind": type(self).__name__,
            "params": {
                k: encode_parameter(v)
                for k, v in (self.get_params(deep=False) | self.target_.parameters).items()
                if k != "predictor" and (k not in _OPTIONAL or v != _OPTIONAL[k])
            },
            "names": self.feature_names_in_.tolist() if named else None,
            "n_features": int(self.n_features_in_),
            "encoder": self.encoder_.to_dict(),
            "architecture": network.architecture.to_dict(),
            "history": self.history_,
            "choices": self.choices_,
            "validation": self.validation_,
            **self._held_out_state(),
            **self.target_.to_dict(),
        }
        if not self.selectable_units_.all():
            state["selectable_units"] = np.flatnonzero(self.selectable_units_).tolist()
        if self.predictor is not None:
            state["predictor"] = predictor_state(self)
        if self.weight_range_ is not None:
            state["weight_range"] = self.weight_range_.to_dict()
        if self.units_.function is not None:
            raise ValueError(
                "The model cannot be saved, because its 'costs' parameter is a function, and model "
                "files hold data, never code. Describe discounts by Costs(setup=...) instead."
            )
        if self.units_.per_row:
            # An older suwr would charge 1 for every unit: it must refuse the file.
            state |= {"format": 2, "mean_costs": self.units_.costs.tolist()}
        state |= self._guarantees()
        return pack(json.dumps(state, sort_keys=True, ensure_ascii=False), tensors)

    def _file_digest(self) -> str:
        # The file is the one that the model was loaded from or, for a model that was not loaded or
        # has changed since, the one that `save` would write.
        sha256, policy, certificate = getattr(self, "_loaded_from_", (None, None, None))
        if sha256 is not None and policy is self.policy_ and certificate is self._certificate():
            return str(sha256)
        return hashlib.sha256(self._to_bytes()).hexdigest()

    @consistent
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file of tensors and JSON, to be read by `suwr.load`.

        Parameters
        ----------
        path : path
        """
        check_is_fitted(self, "policy_")
        write_atomic(path, self._to_bytes())

    @consistent
    def model_card(self, path: str | os.PathLike[str], X: Any = None, y: Any = None) -> None:
        """Write a model card in Markdown: training, scores, certificate, minimisation and limits.

        Parameters
        ----------
        path : path
            The file; an existing file is replaced atomically.
        X, y : array-like of shape (n, d) and (n,), optional
            Rows that the model was not fitted on, for the scores and the minimisation report. Those
            that `fit` has held out by default.
        """
        check_is_fitted(self, "policy_")
        check_writable(path)
        if (X is None) != (y is None):
            raise ValueError("model_card must be given both X and y, or neither.")
        write_atomic(path, view("report.card:model_card", self, X, y).encode())

    @consistent
    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> None:
        """Write one step of Algorithm 1 as an ONNX graph, with the encoding as metadata.

        The graph maps ``values`` (encoded rows, float) and ``mask`` (revealed columns, bool) to
        ``stop_probability``, ``logits`` (-inf for units that cannot be revealed) and
        ``prediction``. It replaces hidden values itself, so they have no influence. A caller
        repeats it until ``stop_probability`` is at least one half or ``max_steps`` is reached.

        Parameters
        ----------
        path : path
            The file; an existing file is replaced atomically.
        sparsity_weight, mean_features : float, optional
            As in `select`; an ONNX file holds the policy of one λ.

        Raises
        ------
        UnsupportedModelError
            The model has a network that cannot be exported.
        """
        limits = {"sparsity_weight": sparsity_weight, "mean_features": mean_features}
        view("deploy.onnx:export_onnx", self, path, **limits)
