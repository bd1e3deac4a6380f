"""CAE: the same *k* features for every row, by a concrete selector layer (Balın et al. 2019).

Each of *k* selectors draws one unit from a relaxed categorical distribution. All rows of a batch
share the noise, so that the layer learns one selection for all rows. The temperature is annealed
geometrically. The published layer is trained for reconstruction, this one for prediction.
Afterwards a predictor is trained on the selected units.

With one image patch around every pixel, the layer selects pixels, and the predictor then reads the
patches around them, as in Appendix F of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from suwr._utils.deprecation import renamed_parameter
from suwr._utils.validation import Interval
from suwr.baselines.base import (
    SELECTOR_CONSTRAINTS,
    BaseSelector,
    SelectorNetwork,
    SelectorPhase,
    make_adamw,
    predictor_phase,
    same_units,
)
from suwr.data.units import Patches, Units
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.nn.inputs import MaskedInputs, gumbel, soft_columns, soft_reveal
from suwr.training.data import Folds, Rows
from suwr.training.loop import Metrics, Phase, optimizer_step

__all__ = ["CAEClassifier", "CAERegressor", "distinct_units"]

# Learning rate of the selection logits, as a multiple of the predictor's: the logits have to
# become large while the temperature is annealed.
SELECTOR_RATE = 10.0


def distinct_units(logits: Tensor) -> list[int]:
    """Assign a different unit to each selector, in decreasing order of confidence.

    Examples
    --------
    >>> distinct_units(torch.tensor([[5.0, 0.0, 0.0], [4.0, 1.0, 0.0]]))
    [0, 1]
    """
    probability = logits.softmax(dim=1)
    assigned: list[int] = []
    for selector in probability.amax(dim=1).argsort(descending=True, stable=True).tolist():
        ranked = probability[selector].argsort(descending=True, stable=True).tolist()
        assigned.append(next(unit for unit in ranked if unit not in assigned))
    return sorted(assigned)


class ConcreteNetwork(nn.Module):
    """A concrete layer of ``k`` selectors over the units, and a predictor."""

    def __init__(self, k: int, n_units: int, network: SelectorNetwork) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.randn(k, n_units) * 0.01)
        self.network = network

    def sample_weights(self, temperature: float, generator: torch.Generator) -> Tensor:
        """Sample a relaxed selection: weights of the units, ``(1, n_units)``."""
        noise = gumbel(tuple(self.logits.shape), generator)
        draws = ((self.logits.log_softmax(dim=1) + noise) / temperature).softmax(dim=1)
        return draws.sum(dim=0, keepdim=True).clamp(max=1.0)


@renamed_parameter("n_units", "max_steps", removal="0.3.0")
@dataclass(kw_only=True, eq=False, repr=False)
class BaseCAE(BaseSelector):
    """CAE for classes and values."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SELECTOR_CONSTRAINTS,
        "max_steps": [Interval(Integral, 1)],
        "start_temperature": [Interval(Real, 0, closed="neither")],
        "end_temperature": [Interval(Real, 0, closed="neither")],
    }
    leak_free_by_construction: ClassVar[bool] = True

    max_steps: int = 5
    start_temperature: float = 10.0
    end_temperature: float = 0.1

    selected_units_: NDArray[np.intp] = field(init=False)

    def _n_epochs(self) -> int:
        return 2 * self.max_epochs

    def _phases(
        self, data: TrainingData, generator: torch.Generator
    ) -> Sequence[Callable[[], Phase]]:
        self.max_steps_ = min(self.max_steps, data.inputs.n_units)
        folds, inputs = Folds(data.rows, generator), self._selection_inputs(data.inputs)
        network = self._build_network(data)
        model = ConcreteNetwork(self.max_steps_, inputs.n_units, network).to(self.device_)
        return [
            lambda: self._selection_phase(data, folds, inputs, model),
            lambda: self._prediction_phase(data, folds, model),
        ]

    def _selection_phase(
        self, data: TrainingData, folds: Folds, inputs: MaskedInputs, model: ConcreteNetwork
    ) -> SelectorPhase:
        """Train the concrete layer; its final state, at the lowest temperature, is kept."""
        schedule = self._schedule(data)
        predictor = make_adamw(model.network.predictor, schedule)
        selectors = torch.optim.AdamW(
            [model.logits], lr=SELECTOR_RATE * schedule.learning_rate, weight_decay=0.0
        )

        def temperature(progress: float) -> float:
            ratio = self.end_temperature / self.start_temperature
            return self.start_temperature * ratio**progress

        def mean_loss(rows: Rows, progress: float) -> Tensor:
            units = model.sample_weights(temperature(progress), folds.generator)
            weight = soft_columns(inputs, units).expand(len(rows), -1)
            outputs = model.network.outputs(soft_reveal(inputs, rows.values, weight))
            return (data.loss.per_row(outputs, rows.targets) * rows.weight).mean()

        def update(index: Tensor, progress: float) -> Tensor:
            value = mean_loss(data.rows[index], progress)
            selectors.zero_grad(set_to_none=True)
            optimizer_step(predictor, value)
            selectors.step()
            return value

        def validate() -> Metrics:
            return Metrics(validation_objective=float(mean_loss(data.validation, 1.0)))

        return SelectorPhase(
            self._method_name(), model, folds, schedule, [predictor], update, validate,
            keep_last=True,
        )  # fmt: skip

    def _prediction_phase(
        self, data: TrainingData, folds: Folds, model: ConcreteNetwork
    ) -> SelectorPhase:
        """Train a new predictor on the selected units."""
        self.selected_units_ = np.array(distinct_units(model.logits.detach()), dtype=np.intp)
        self.network_ = self._build_network(data, dropout=0.2)
        mask = self._column_masks(self._choose(data.rows.values[:1]))
        return predictor_phase(
            self.network_, data, folds, lambda index: mask.expand(len(index), -1),
            mask.expand(len(data.validation), -1), self._schedule(data),
        )  # fmt: skip

    def _selection_inputs(self, inputs: MaskedInputs) -> MaskedInputs:
        """Single pixels in place of patches, if there is one patch around every pixel."""
        n_columns = inputs.n_columns
        if not isinstance(self.groups, Patches) or inputs.n_units != n_columns:
            return inputs
        names = tuple(f"x{i}" for i in range(n_columns))
        pixels = Units(names, np.eye(n_columns, dtype=bool), np.ones(n_columns))
        return MaskedInputs.build(pixels, self.encoder_.column_of, self.device_)

    def _choose(self, values: Tensor) -> Tensor:
        return same_units(values, self.selected_units_, len(self.units_))


class CAEClassifier(TableClassifier, BaseCAE):
    """Concrete autoencoder layer, supervised: the same *k* features for every row.

    Parameters
    ----------
    max_steps : int, default=5
        *k*, the number of selected units; capped at the number of units.
    start_temperature, end_temperature : float, default=10.0, 0.1
        Temperature of the relaxation at the start and at the end; annealed geometrically.
    groups, costs
        As in `suwr.SUWRClassifier`; the costs only affect `cost`.
    hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, validation_fraction, \
device, random_state, verbose
        As in `AllFeaturesClassifier`; ``max_epochs`` applies to the selection and to the
        prediction phase separately.

    Attributes
    ----------
    selected_units_ : ndarray of int
        Indices of the selected units.
    max_steps_ : int
        The number of selected units.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import CAEClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = CAEClassifier(max_steps=2, max_epochs=5, random_state=0).fit(X, y)
    >>> len(clf.selected_units_), bool((clf.select(X) == clf.select(X)[0]).all())
    (2, True)
    """


class CAERegressor(TableRegressor, BaseCAE):
    """CAE for squared error; see `CAEClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import CAERegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = CAERegressor(max_steps=2, max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
