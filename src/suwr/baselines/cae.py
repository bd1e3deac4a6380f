"""CAE: the same *k* features for every row, by a concrete selector layer (Balın et al. 2019).

Each of *k* selectors is a relaxed draw of one unit; the noise is shared by all rows of a batch, so
the layer can only learn a global choice. The temperature falls geometrically. Here the layer is
trained for prediction, not for reconstruction. Then a predictor is trained on the chosen units.

With image patches around every pixel, pixels are selected first, and the predictor then sees the
patches around them, as in the paper's Appendix F.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor, nn

from suwr.baselines.base import COMMON_CONSTRAINTS, BaseGlobal
from suwr.baselines.networks import SelectorNetwork
from suwr.baselines.training import adam, fit_predictor, run_epochs
from suwr.data.units import Patches, Units
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.inputs import MaskedInputs, gumbel, soft_columns, soft_reveal
from suwr.training.data import Folds, Rows
from suwr.training.loop import Progress, optimizer_step

__all__ = ["CAEClassifier", "CAERegressor", "distinct_choices"]

# Of the predictor's learning rate: logits must travel far while the temperature falls.
SELECTOR_RATE = 10.0


def distinct_choices(logits: Tensor) -> list[int]:
    """One unit per selector, no unit twice: the surest selectors choose first.

    Examples
    --------
    >>> distinct_choices(torch.tensor([[5.0, 0.0, 0.0], [4.0, 1.0, 0.0]]))
    [0, 1]
    """
    probability = logits.softmax(dim=1)
    taken: list[int] = []
    for selector in probability.amax(dim=1).argsort(descending=True, stable=True).tolist():
        ranked = probability[selector].argsort(descending=True, stable=True).tolist()
        taken.append(next(unit for unit in ranked if unit not in taken))
    return sorted(taken)


class ConcreteNetwork(nn.Module):
    """``k`` rows of logits over units, and a predictor."""

    def __init__(self, k: int, n_units: int, network: SelectorNetwork) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.randn(k, n_units) * 0.01)
        self.network = network

    def weight(self, temperature: float, generator: torch.Generator) -> Tensor:
        """Relaxed union of the selectors' draws, ``(1, n_units)``."""
        noise = gumbel(tuple(self.logits.shape), generator)
        draws = ((self.logits.log_softmax(dim=1) + noise) / temperature).softmax(dim=1)
        return draws.sum(dim=0, keepdim=True).clamp(max=1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseCAE(BaseGlobal):
    """CAE for any target."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COMMON_CONSTRAINTS,
        "n_units": [Interval(Integral, 1, None, closed="left")],
        "start_temperature": [Interval(Real, 0, None, closed="neither")],
        "end_temperature": [Interval(Real, 0, None, closed="neither")],
    }

    n_units: int = 5
    start_temperature: float = 10.0
    end_temperature: float = 0.1

    def _n_epochs(self) -> int:
        return 2 * self.max_epochs

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> SelectorNetwork:
        self.n_units_ = min(self.n_units, data.inputs.n_units)
        folds = Folds(data.rows, generator)
        chosen = self._train_selectors(data, folds, progress)
        self.selected_units_ = np.array(chosen, dtype=np.intp)
        network = self._build(data, dropout=0.2)
        mask = self._columns(self._choose(data.rows.values[:1]))
        fit_predictor(
            network, data, folds, lambda index: mask.expand(len(index), -1),
            mask.expand(len(data.validation), -1), self._schedule(data), progress,
        )  # fmt: skip
        return network

    def _train_selectors(self, data: TrainingData, folds: Folds, progress: Progress) -> list[int]:
        """Units that the concrete layer ends with."""
        inputs, generator = self._selection_inputs(data.inputs), folds.generator
        schedule = self._schedule(data)
        model = ConcreteNetwork(self.n_units_, inputs.n_units, self._build(data))
        model = model.to(self.device_)
        predictor = adam(model.network.predictor, schedule)
        selectors = torch.optim.AdamW(
            [model.logits], lr=SELECTOR_RATE * schedule.learning_rate, weight_decay=0.0
        )

        def temperature(share: float) -> float:
            return self.start_temperature * (self.end_temperature / self.start_temperature) ** share

        def lost(rows: Rows, share: float) -> Tensor:
            weight = soft_columns(inputs, model.weight(temperature(share), generator))
            shown = soft_reveal(inputs, rows.values, weight.expand(len(rows), -1))
            outputs = model.network.outputs(shown)
            return (data.loss.per_row(outputs, rows.targets) * rows.weight).mean()

        def update(index: Tensor, share: float) -> None:
            value = lost(data.rows[index], share)
            selectors.zero_grad(set_to_none=True)
            optimizer_step(predictor, value)
            selectors.step()

        # The layer is what its last, coldest epoch made of it.
        run_epochs(
            model, folds, schedule, [predictor], update, lambda: float(lost(data.validation, 1.0)),
            progress, "CAE", first_useful=1.0,
        )  # fmt: skip
        return distinct_choices(model.logits.detach())

    def _selection_inputs(self, inputs: MaskedInputs) -> MaskedInputs:
        """Pixels in place of the patches around them, where there is one patch per pixel."""
        n_columns = inputs.n_columns
        if not isinstance(self.groups, Patches) or inputs.n_units != n_columns:
            return inputs
        names = tuple(f"x{i}" for i in range(n_columns))
        pixels = Units(names, np.eye(n_columns, dtype=bool), np.ones(n_columns))
        return MaskedInputs.build(pixels, self.encoder_.column_of, self.device_)


class CAEClassifier(ClassificationTarget, BaseCAE):
    """CAE, supervised: *k* features, the same for every row.

    Parameters
    ----------
    n_units : int, default=5
        *k*; all units where there are fewer.
    start_temperature, end_temperature : float, default=10.0, 0.1
        Of the relaxation; it falls geometrically.
    groups, costs
        As in `suwr.SUWRClassifier`; costs matter for `cost` alone.
    hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, validation_fraction, \
device, random_state, verbose
        As in `AllFeaturesClassifier`; ``max_epochs`` for the selection and again for the
        prediction.

    Attributes
    ----------
    selected_units_ : ndarray of int
    n_units_ : int
        The *k* that was used.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import CAEClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = CAEClassifier(n_units=2, max_epochs=5, random_state=0).fit(X, y)
    >>> len(clf.selected_units_), bool((clf.select(X) == clf.select(X)[0]).all())
    (2, True)
    """


class CAERegressor(RegressionTarget, BaseCAE):
    """CAE for squared error; see `CAEClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import CAERegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = CAERegressor(n_units=2, max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
