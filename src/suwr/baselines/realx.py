"""REAL-X and EVAL-X: a predictor that cannot be told secrets (Jethani et al. 2021).

EVAL-X is a predictor trained under masks drawn by coin flips, so no mask means anything to it.
REAL-X trains a selector against such a predictor: it minimises

    E_h [ L(f(x ⊙ h), y) ] + λ E_h ‖h‖,    h ~ independent coin flips given all of x

by REBAR, the log-trick with a relaxed version of the same draw as control variate (Tucker et al.
2017). The selector still sees the whole row, so its selections can leak; only its own predictor
does not learn to read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor

from suwr.baselines.base import BaseGlobal, MaskedPredictions
from suwr.baselines.networks import SelectorNetwork
from suwr.baselines.penalised import BasePenalised, coin_masks, fit_on_coins, log_probability
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.inputs import soft_columns, soft_reveal
from suwr.training.data import Folds, Rows
from suwr.training.loop import Progress

__all__ = [
    "EVALXClassifier",
    "EVALXRegressor",
    "REALXClassifier",
    "REALXRegressor",
    "paired_draws",
]


def paired_draws(
    scores: Tensor, temperature: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """A hard draw, its relaxation, and a relaxation drawn afresh given the hard draw.

    With logits α, ``z = α + logit(u)`` is positive with probability σ(α), and given that sign
    ``z̃`` has the same distribution as ``z``: the difference of a function of the two has mean zero.

    Returns
    -------
    chosen : Tensor of bool
    relaxed, conditional : Tensor
        σ(z / temperature) and σ(z̃ / temperature), with gradients.

    Examples
    --------
    >>> chosen, relaxed, again = paired_draws(
    ...     torch.tensor([[9.0, -9.0]]), 0.1, torch.Generator().manual_seed(0)
    ... )
    >>> chosen.tolist(), relaxed.round().tolist(), again.round().tolist()
    ([[True, False]], [[1.0, 0.0]], [[1.0, 0.0]])
    """
    tiny = 1e-6
    probability = scores.sigmoid().clamp(tiny, 1 - tiny)
    u, v = (
        torch.rand(scores.shape, generator=generator, device=scores.device).clamp(tiny, 1 - tiny)
        for _ in range(2)
    )
    z = scores + torch.logit(u)
    chosen = z.detach() > 0
    # Uniform numbers that lead to the same sign: above 1 - p where chosen, below it elsewhere.
    inside = torch.where(chosen, (1 - probability) + v * probability, v * (1 - probability))
    again = scores + torch.logit(inside.clamp(tiny, 1 - tiny))
    return chosen, (z / temperature).sigmoid(), (again / temperature).sigmoid()


@dataclass(kw_only=True, eq=False, repr=False)
class BaseREALX(BasePenalised):
    """REAL-X for any target."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BasePenalised._parameter_constraints,
        "temperature": [Interval(Real, 0, None, closed="neither")],
    }

    temperature: float = 0.5

    _with_baseline: ClassVar[bool] = False

    def _selector_loss(
        self,
        network: SelectorNetwork,
        data: TrainingData,
        rows: Rows,
        price: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        inputs, loss = data.inputs, data.loss
        scores = network.scores(rows.values)
        chosen, *soft = paired_draws(scores, self.temperature, generator)

        def lost(weight: Tensor) -> Tensor:
            shown = soft_reveal(inputs, rows.values, soft_columns(inputs, weight))
            return loss.per_row(network.outputs(shown), rows.targets)

        relaxed, conditional = lost(soft[0]), lost(soft[1])
        with torch.no_grad():
            surprise = lost(chosen.to(torch.float32)) - conditional
        value = surprise * log_probability(scores, chosen) + relaxed - conditional
        return value + scores.sigmoid() @ price

    def _predictor_loss(
        self,
        network: SelectorNetwork,
        data: TrainingData,
        rows: Rows,
        generator: torch.Generator,
    ) -> Tensor:
        mask = coin_masks(data.inputs, len(rows), generator)
        outputs = network.outputs(data.inputs.reveal(rows.values, mask))
        return data.loss.per_row(outputs, rows.targets)


class REALXClassifier(ClassificationTarget, BaseREALX):
    """REAL-X: the features of each row, for a predictor that saw only random masks.

    Parameters
    ----------
    sparsity_weight : float or 'auto', default='auto'
        λ, the price of one unit of feature cost, in the units of the loss. The published λ is the
        price of *all* units: divide it by their number. 'auto' is 1 % of the loss of the best
        constant prediction.
    temperature : float, default=0.5
        Of the relaxed draws.
    groups, costs
        As in `suwr.SUWRClassifier`.
    hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, validation_fraction, \
device, random_state, verbose
        As in `AllFeaturesClassifier`.

    Attributes
    ----------
    sparsity_weight_ : float
        The λ that was used.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import REALXClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> REALXClassifier(max_epochs=5, random_state=0).fit(X, y).select(X).shape
    (150, 4)
    """


class REALXRegressor(RegressionTarget, BaseREALX):
    """REAL-X for squared error; see `REALXClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import REALXRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = REALXRegressor(max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """


class BaseEVALX(BaseGlobal, MaskedPredictions):
    """A predictor for judging the masks of any selector; by itself it selects everything."""

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> SelectorNetwork:
        self.selected_units_ = np.arange(data.inputs.n_units)
        network = self._build(data, dropout=0.2)
        fit_on_coins(network, data, Folds(data.rows, generator), self._schedule(data), progress)
        return network


class EVALXClassifier(ClassificationTarget, BaseEVALX):
    """EVAL-X: predictions under anybody's masks, by a predictor to which no mask means anything.

    `predict_masked` is what it is for; `predict` and `select` use every column.

    Parameters
    ----------
    groups, costs, hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, \
validation_fraction, device, random_state, verbose
        As in `AllFeaturesClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import EVALXClassifier, L2XClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> masks = L2XClassifier(n_units=2, max_epochs=5, random_state=0).fit(X, y).select(X)
    >>> EVALXClassifier(max_epochs=5, random_state=0).fit(X, y).predict_masked(X, masks).shape
    (150, 3)
    """


class EVALXRegressor(RegressionTarget, BaseEVALX):
    """EVAL-X for squared error; see `EVALXClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import EVALXRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = EVALXRegressor(max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
