"""CAE: the same *k* features for every row, by a concrete selector layer (Balın et al. 2019).

Each of *k* selectors draws one unit from a relaxed categorical distribution. All rows of a batch
share the noise, so that the layer learns one selection for all rows. The temperature is annealed
geometrically. The published layer is trained for reconstruction, this one for prediction.
Afterwards a predictor is trained on the selected units.

With one image patch around every pixel, the layer selects pixels, and the predictor then reads the
patches around them, as in Appendix F of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import torch
from torch import Tensor, nn

from suwr._utils.validation import Interval, parameter
from suwr.baselines.base import (
    FixedSelector,
    PhaseBuilders,
    SelectorNetwork,
    SelectorPhase,
    make_adamw,
    predictor_phase,
)
from suwr.data.units import Patches, Units
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.nn.inputs import MaskedInputs, gumbel_softmax, soft_columns, soft_reveal
from suwr.training.data import Folds, Rows

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
        draws = gumbel_softmax(self.logits, temperature, generator)
        return draws.sum(dim=0, keepdim=True).clamp(max=1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseCAE(FixedSelector):
    """CAE for classes and values."""

    max_steps: int = parameter(5, Interval(Integral, 1))
    start_temperature: float = parameter(10.0, Interval(Real, 0, closed="neither"))
    end_temperature: float = parameter(0.1, Interval(Real, 0, closed="neither"))

    def _n_epochs(self) -> int:
        return 2 * self.max_epochs

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        self.max_steps_ = min(self.max_steps, data.inputs.n_units)
        inputs, network = self._selection_inputs(data.inputs), self._build_network(data)
        model = ConcreteNetwork(self.max_steps_, inputs.n_units, network).to(self.device_)
        return [
            lambda: self._selection_phase(data, folds, inputs, model),
            lambda: self._prediction_phase(data, folds, model),
        ]

    def _selection_phase(
        self, data: TrainingData, folds: Folds, inputs: MaskedInputs, model: ConcreteNetwork
    ) -> SelectorPhase:
        """Train the concrete layer; its final state, at the lowest temperature, is kept."""
        schedule, name = self._schedule(data), self._method_name()
        predictor = make_adamw(model.network.predictor, schedule)
        selectors = torch.optim.AdamW(
            [model.logits], lr=SELECTOR_RATE * schedule.learning_rate, weight_decay=0.0
        )
        # A second optimizer, whose rate is constant, steps with the first one.
        predictor.register_step_post_hook(lambda *_: selectors.step())
        predictor.register_step_post_hook(lambda *_: selectors.zero_grad())

        def temperature(progress: float) -> float:
            ratio = self.end_temperature / self.start_temperature
            return self.start_temperature * ratio**progress

        def mean_loss(rows: Rows, progress: float) -> Tensor:
            units = model.sample_weights(temperature(progress), folds.generator)
            weight = soft_columns(inputs, units).expand(len(rows), -1)
            outputs = model.network.outputs(soft_reveal(inputs, rows.values, weight))
            return (data.loss.per_row(outputs, rows.targets) * rows.weight).mean()

        def loss(index: Tensor, progress: float) -> Tensor:
            return mean_loss(data.rows[index], progress)

        def validate() -> tuple[float, None]:
            return float(mean_loss(data.validation, 1.0)), None

        steps = [(predictor, loss)]
        return SelectorPhase(name, model, folds, schedule, steps, validate, keep_last=True)

    def _prediction_phase(
        self, data: TrainingData, folds: Folds, model: ConcreteNetwork
    ) -> SelectorPhase:
        """Train a new predictor on the selected units."""
        self.selected_units_ = np.array(distinct_units(model.logits.detach()), dtype=np.intp)
        self.network_ = self._build_network(data, dropout=0.2)
        mask = self._column_masks(self._choose(data.rows.values[:1]))
        schedule = self._schedule(data)
        return predictor_phase(self.network_, data, folds, lambda n: mask.expand(n, -1), schedule)

    def _selection_inputs(self, inputs: MaskedInputs) -> MaskedInputs:
        """Single pixels in place of patches, if there is one patch around every pixel."""
        n_columns = inputs.n_columns
        if not isinstance(self.groups, Patches) or inputs.n_units != n_columns:
            return inputs
        names = tuple(f"x{i}" for i in range(n_columns))
        pixels = Units(names, np.eye(n_columns, dtype=bool), np.ones(n_columns))
        return MaskedInputs.build(pixels, self.encoder_.column_of, self.device_)


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
