"""What all baselines have in common: parameters and fitting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import torch
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from suwr._utils.progress import training_progress
from suwr.data.units import Patches
from suwr.estimators.table_model import TableModel, TrainingData, seeded
from suwr.training.loop import Progress

__all__ = ["METHOD_CONSTRAINTS", "BaseMethod"]

METHOD_CONSTRAINTS: dict[str, Any] = {
    "groups": "no_validation",
    "costs": "no_validation",
    "hidden_size": [Interval(Integral, 1, None, closed="left")],
    "n_layers": [Interval(Integral, 1, None, closed="left")],
    "max_epochs": [Interval(Integral, 1, None, closed="left")],
    "batch_size": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "device": [str],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


@dataclass(kw_only=True, eq=False, repr=False)
class BaseMethod(TableModel):
    """Parameters and life cycle of a baseline.

    The generated ``__init__`` is keyword-only, names every parameter and stores it as given, as
    scikit-learn asks.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = METHOD_CONSTRAINTS

    groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None
    costs: Mapping[str, float] | ArrayLike | None = None
    hidden_size: int = 128
    n_layers: int = 3
    max_epochs: int = 100
    batch_size: int | Literal["auto"] = "auto"
    validation_fraction: float = 0.1
    device: str = "auto"
    random_state: Any = None
    verbose: int = 0

    @abstractmethod
    def _learn(self, data: TrainingData, generator: torch.Generator, progress: Progress) -> None:
        """Train from start to finish, and keep the result."""

    def _method_name(self) -> str:
        """What the progress bar calls the training."""
        return type(self).__name__.removesuffix("Classifier").removesuffix("Regressor")

    def _n_epochs(self) -> int:
        """Epochs of all phases together, for the progress bar."""
        return self.max_epochs

    def _check_params(self) -> None:
        """Refuse what single constraints cannot express."""

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Train selection and prediction.

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
        self._check_params()
        data = self._training_data(X, y, sample_weight)
        with (
            seeded(self.device_, data.seed) as generator,
            training_progress(self._n_epochs(), self.verbose) as progress,
        ):
            self._learn(data, generator, progress)
        return self
