"""What `SUWRClassifier` and `SUWRRegressor` have in common."""

from __future__ import annotations

import os
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from suwr.estimators.acquisition import Acquisition
from suwr.estimators.encoding import TableEncoder
from suwr.estimators.input import name_columns, read_fit_table, read_predict_table
from suwr.estimators.progress import training_progress
from suwr.masking import Patches, Units, resolve_units
from suwr.narrative import Explanation
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network
from suwr.nn.probability import mask_probability
from suwr.nn.reinforce import train_reinforce
from suwr.nn.rollout import Policy, Trace
from suwr.nn.rows import Rows
from suwr.nn.settings import Settings
from suwr.nn.training import train
from suwr.tables import Table

__all__ = ["BaseSUWR", "PolicyKind"]

PolicyKind = Literal["greedy", "sampled"]
# Rows that are encoded and carried through the steps at once.
CHUNK = 65_536
# Without `max_steps`, no more than this many: a longer story is no explanation.
DEFAULT_MOST_STEPS = 32


class BaseSUWR(BaseEstimator, metaclass=ABCMeta):
    """Sequential unmasking without reversion, behind scikit-learn's interface.

    Every decision of a fitted model reads only what was revealed before it; see
    `suwr.nn.rollout`.
    """

    leak_free_by_construction: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sparsity_weight": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "max_steps": [None, Interval(Integral, 1, None, closed="left")],
        "groups": "no_validation",
        "costs": "no_validation",
        "units_per_step": [Interval(Integral, 1, None, closed="left")],
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "n_layers": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "trainer": [StrOptions({"actor", "reinforce"})],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        sparsity_weight: float | Literal["auto"] = "auto",
        max_steps: int | None = None,
        groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None,
        costs: Mapping[str, float] | ArrayLike | None = None,
        units_per_step: int = 1,
        hidden_size: int = 128,
        n_layers: int = 3,
        max_epochs: int = 100,
        batch_size: int | Literal["auto"] = "auto",
        validation_fraction: float = 0.1,
        trainer: Literal["actor", "reinforce"] = "actor",
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.sparsity_weight = sparsity_weight
        self.max_steps = max_steps
        self.groups = groups
        self.costs = costs
        self.units_per_step = units_per_step
        self.hidden_size = hidden_size
        self.n_layers = n_layers
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.trainer = trainer
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

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

    # Fitting.

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Train policy and predictor.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Numbers, or the columns of a pandas or polars frame: numbers, text, categories,
            booleans. NaN means 'missing', which is a value like any other.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        self
        """
        self._validate_params()
        if isinstance(self.sparsity_weight, Real) and not np.isfinite(self.sparsity_weight):
            raise ValueError(
                f"The 'sparsity_weight' parameter of {type(self).__name__} must be a finite number "
                f"of at least 0, or 'auto'. Got {self.sparsity_weight} instead."
            )
        device = _pick_device(self.device)
        table, y, weight = read_fit_table(self, X, y, sample_weight)
        target = self._prepare_target(y, weight)
        used = np.flatnonzero(weight > 0)
        names = name_columns(self)
        units = resolve_units(self.groups, self.costs, names, type(self).__name__)
        encoder = TableEncoder.fit(table, names, joint=isinstance(self.groups, Patches))

        rng = check_random_state(self.random_state)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        train_rows, validation_rows = self._split_rows(target[used], rng)
        self._install(encoder, units, device, None)
        loss = self._policy_parts()[1]
        everything = Rows(
            torch.as_tensor(encoder.encode(table), device=device),
            loss.targets(torch.as_tensor(target, device=device)),
            torch.as_tensor(weight, dtype=torch.float32, device=device),
        )
        rows = _normalised(everything[torch.as_tensor(used[train_rows], device=device)])
        validation = _normalised(everything[torch.as_tensor(used[validation_rows], device=device)])
        settings = Settings(
            sparsity_weight=self.sparsity_weight_ / self.constant_loss_,
            max_steps=self.max_steps_,
            units_per_step=self.units_per_step,
            max_epochs=self.max_epochs,
            batch_size=self._batch_size(len(rows)),
        )
        architecture = Architecture(
            n_values=everything.values.shape[1],
            n_columns=len(names),
            n_units=len(units),
            n_outputs=self._n_outputs(),
            hidden_size=self.hidden_size,
            n_layers=self.n_layers,
            n_members=1 if self.trainer == "reinforce" else 2,
            shared=self.trainer == "reinforce",
        )
        trainer = train_reinforce if self.trainer == "reinforce" else train
        with (
            torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
            training_progress(settings, self.verbose, self.trainer) as progress,
        ):
            torch.manual_seed(seed)
            generator = torch.Generator(device).manual_seed(seed)
            network = trainer(
                architecture, self._policy_parts()[0], loss, rows, validation, settings,
                generator, progress,
            )  # fmt: skip
        self._install(encoder, units, device, network)
        return self

    def _install(
        self, encoder: TableEncoder, units: Units, device: torch.device, network: Network | None
    ) -> None:
        """Store what a fitted model consists of; `suwr.load` calls this too."""
        self.encoder_ = encoder
        self.units_ = units
        self.device_ = str(device)
        most = -(-len(units) // self.units_per_step)
        limit = min(DEFAULT_MOST_STEPS, most) if self.max_steps is None else self.max_steps
        self.max_steps_ = min(limit, most)
        if self.sparsity_weight == "auto":
            self.sparsity_weight_ = 0.01 * self.constant_loss_
        else:
            self.sparsity_weight_ = float(self.sparsity_weight)
        if network is not None:
            inputs, loss = self._policy_parts()
            self.policy_ = Policy(
                network.eval(), inputs, loss, self.max_steps_, self.units_per_step
            )

    def _policy_parts(self) -> tuple[MaskedInputs, Loss]:
        inputs = MaskedInputs.build(self.units_, self.encoder_.column_of, self.device_)
        return inputs, self._make_loss()

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
        check_is_fitted(self, "policy_")
        return read_predict_table(self, X)

    def _chunks(self, table: Table) -> Iterator[Tensor]:
        """Encoded rows, a bounded number at once."""
        for start in range(0, table.n_rows, CHUNK):
            yield self._encode(table.take(slice(start, start + CHUNK)))

    def _encode(self, table: Table) -> Tensor:
        return torch.as_tensor(self.encoder_.encode(table), device=self.device_)

    def _predict_final(self, X: Any) -> NDArray[np.float64]:
        """Predictions from the features that greedy inference selects."""
        parts = []
        for values in self._chunks(self._read(X)):
            mask = torch.as_tensor(self.policy_.rollout(values).mask, device=values.device)
            parts.append(self.policy_.predict(values, mask).cpu().numpy())
        return self._in_user_units(np.concatenate(parts))

    def select(
        self, X: Any, *, policy: PolicyKind = "greedy", random_state: Any = None
    ) -> NDArray[np.bool_]:
        """The columns that the prediction of each row uses.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        policy : {'greedy', 'sampled'}, default='greedy'
            Greedy takes the most probable unit and stops where the stop probability is at least one
            half. Sampled draws both decisions. Both are SUWR policies.
        random_state : int, RandomState or None
            Seed of the draws.

        Returns
        -------
        ndarray of bool, shape (n, d)
            The mask *h* of each row.
        """
        table = self._read(X)
        generator = _make_generator(policy, random_state)
        masks = [self.policy_.rollout(v, generator=generator).mask for v in self._chunks(table)]
        return np.concatenate(masks)

    def cost(self, X: Any) -> NDArray[np.float64]:
        """‖h‖ of each row: the number of revealed units, or the sum of their costs.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        """
        parts = []
        for values in self._chunks(self._read(X)):
            order = self.policy_.rollout(values).order.reshape(len(values), -1)
            paid = np.where(order >= 0, self.units_.costs[np.maximum(order, 0)], 0.0)
            parts.append(paid.sum(axis=1))
        return np.concatenate(parts)

    def predict_masked(self, X: Any, masks: ArrayLike) -> NDArray[np.float64]:
        """*f(x ⊙ h)* for given masks: probabilities ``(n, n_classes)``, or values ``(n,)``.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        masks : array-like of bool, shape (n, d)
        """
        table = self._read(X)
        given = _read_masks(masks, table.n_rows, self.n_features_in_, (2,))
        values = self._encode(table)
        prediction = self.policy_.predict(values, torch.as_tensor(given, device=values.device))
        result = self._in_user_units(prediction.cpu().numpy())
        return result if self._class_labels() is not None else result[:, 0]

    def mask_probability(
        self, X: Any, masks: ArrayLike, *, policy: PolicyKind = "sampled"
    ) -> NDArray[np.float64]:
        """ζ(h | x), exactly.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        masks : array-like of bool, shape (n, d) or (n, m, d)
            One mask for each row, or ``m`` of them. A length of one is repeated for every row, and
            a single row of ``X`` for every mask.
        policy : {'sampled', 'greedy'}, default='sampled'
            For greedy inference the probability is 0 or 1.

        Returns
        -------
        ndarray of shape (n,) or (n, m)
        """
        table = self._read(X)
        given = np.asarray(masks)
        if given.ndim == 2 and table.n_rows == 1 and len(given) != 1:
            table = table.take(np.zeros(len(given), dtype=np.intp))
        given = _read_masks(given, table.n_rows, self.n_features_in_, (2, 3))
        flat = given[:, None, :] if given.ndim == 2 else given
        if _make_generator(policy, 0) is None:
            final = np.concatenate([self.policy_.rollout(v).mask for v in self._chunks(table)])
            result = (flat == final[:, None, :]).all(axis=2).astype(np.float64)
        else:
            result = mask_probability(self.policy_, self._encode(table), flat)
        return result[:, 0] if given.ndim == 2 else result

    def explain(
        self, X: Any, *, policy: PolicyKind = "greedy", random_state: Any = None
    ) -> Explanation:
        """The narrative of each row: what was revealed, in which order, what it changed.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        policy, random_state
            As in `select`.

        Returns
        -------
        Explanation
        """
        from suwr.estimators.narration import narrate

        table = self._read(X)
        labels = [_plain(i) for i in X.index] if hasattr(X, "iloc") else range(table.n_rows)
        generator = _make_generator(policy, random_state)
        traces = [
            self.policy_.rollout(values, generator=generator, record=True)
            for values in self._chunks(table)
        ]
        return Explanation(narrate(self, table, _join(traces), list(labels)))

    def acquire(self) -> Acquisition:
        """Run the policy where no row exists yet: it names what to ask for next.

        Returns
        -------
        Acquisition
        """
        check_is_fitted(self, "policy_")
        return Acquisition(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file that `suwr.load` reads: tensors and JSON, no code."""
        from suwr.estimators.persistence import save

        check_is_fitted(self, "policy_")
        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


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


def _normalised(rows: Rows) -> Rows:
    """Weights with mean one."""
    return Rows(rows.values, rows.targets, rows.weight / rows.weight.mean())


def _make_generator(policy: str, random_state: Any) -> torch.Generator | None:
    if policy not in ("greedy", "sampled"):
        raise ValueError(
            f"The 'policy' parameter must be 'greedy' or 'sampled'. Got {policy!r} instead."
        )
    if policy == "greedy":
        return None
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return torch.Generator().manual_seed(int(seed))


def _read_masks(
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


def _join(traces: list[Trace]) -> Trace:
    """Traces of chunks as one; each is only as long as its longest row."""
    longest = max(t.order.shape[1] for t in traces)

    def pad(array: NDArray[Any], length: int, fill: float) -> NDArray[Any]:
        missing = [(0, 0)] * array.ndim
        missing[1] = (0, length - array.shape[1])
        return np.pad(array, missing, constant_values=fill)

    stops = [t.stop_probability for t in traces if t.stop_probability is not None]
    predictions = [t.prediction for t in traces if t.prediction is not None]
    states = max(s.shape[1] for s in stops)
    return Trace(
        np.concatenate([t.mask for t in traces]),
        np.concatenate([pad(t.order, longest, -1) for t in traces]),
        np.concatenate([pad(s, states, np.nan) for s in stops]),
        np.concatenate([pad(p, states, np.nan) for p in predictions]),
    )


def _plain(value: Any) -> Any:
    """A row label that JSON can hold."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, int | str) else str(value)
