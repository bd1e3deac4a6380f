"""REAL-X and EVAL-X: selection for a predictor that is independent of it (Jethani et al. 2021).

EVAL-X is a predictor trained on masks of fair coin flips. Such masks are independent of the row, so
the predictor cannot learn to decode information from the mask itself. REAL-X trains a selector for
such a predictor: it minimises

    E_h [ L(f(x ⊙ h), y) ] + λ E_h ‖h‖,    h independent Bernoulli given the whole row x

by REBAR, a score-function gradient whose control variate is a relaxation of the same sample (Tucker
et al. 2017). The selector still reads the whole row, so its selections may leak; only its own
predictor does not learn to exploit that.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from suwr._utils.validation import Interval, Options, parameter
from suwr.baselines.base import FixedSelector, PhaseBuilders, predictor_phase
from suwr.baselines.invase import BasePenalised, coin_flip_masks, coin_flip_phase, log_probability
from suwr.data.encode import MAX_BINS
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.nn.inputs import soft_columns, soft_reveal
from suwr.training.data import Folds, Rows


def rebar_samples(
    scores: Tensor, temperature: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a Bernoulli sample, its relaxation, and a relaxation conditional on the sample.

    With logits α, ``z = α + logit(u)`` is positive with probability σ(α). Given its sign, ``z̃`` has
    the same distribution as ``z``, so the difference of a function of the two has mean zero.

    Returns
    -------
    selected : Tensor of bool
        Whether ``z`` is positive.
    relaxed, conditional : Tensor
        σ(z / temperature) and σ(z̃ / temperature), differentiable in the scores.

    Examples
    --------
    >>> selected, relaxed, conditional = rebar_samples(
    ...     torch.tensor([[9.0, -9.0]]), 0.1, torch.Generator().manual_seed(0)
    ... )
    >>> selected.tolist(), relaxed.round().tolist(), conditional.round().tolist()
    ([[True, False]], [[1.0, 0.0]], [[1.0, 0.0]])
    """
    tiny = 1e-6
    probability = scores.sigmoid().clamp(tiny, 1 - tiny)
    u, v = (
        torch.rand(scores.shape, generator=generator, device=scores.device).clamp(tiny, 1 - tiny)
        for _ in range(2)
    )
    z = scores + torch.logit(u)
    selected = z.detach() > 0
    # Uniform on the numbers that give the same sign: above 1 - p if selected, below otherwise.
    same_sign = torch.where(selected, (1 - probability) + v * probability, v * (1 - probability))
    conditional = scores + torch.logit(same_sign.clamp(tiny, 1 - tiny))
    return selected, (z / temperature).sigmoid(), (conditional / temperature).sigmoid()


@dataclass(kw_only=True, eq=False, repr=False)
class BaseREALX(BasePenalised):
    """REAL-X for classes and values."""

    _with_baseline: ClassVar[bool] = False

    temperature: float = parameter(0.5, Interval(Real, 0, closed="neither"))

    def _selector_loss(
        self, data: TrainingData, rows: Rows, unit_costs: Tensor, generator: torch.Generator
    ) -> Tensor:
        inputs = data.inputs
        scores = self.network_.scores(rows.values)
        selected, *relaxations = rebar_samples(scores, self.temperature, generator)

        def losses(weight: Tensor) -> Tensor:
            relaxed_inputs = soft_reveal(inputs, rows.values, soft_columns(inputs, weight))
            return data.loss.per_row(self.network_.outputs(relaxed_inputs), rows.targets)

        relaxed, conditional = losses(relaxations[0]), losses(relaxations[1])
        with torch.no_grad():
            advantage = losses(selected.to(torch.float32)) - conditional
        surrogate = advantage * log_probability(scores, selected) + relaxed - conditional
        return surrogate + scores.sigmoid() @ unit_costs

    def _predictor_loss(self, data: TrainingData, rows: Rows, generator: torch.Generator) -> Tensor:
        mask = coin_flip_masks(data.inputs, len(rows), generator)
        outputs = self.network_.outputs(data.inputs.reveal(rows.values, mask))
        return data.loss.per_row(outputs, rows.targets)


class REALXClassifier(TableClassifier, BaseREALX):
    """REAL-X: features selected independently, for a predictor trained on random masks only.

    The selection may leak: it can depend on the values of features that are not selected.

    Parameters
    ----------
    sparsity_weight : float or 'auto', default='auto'
        λ, the price of one unit of feature cost, in the units of the loss. The published λ is the
        price of *all* units: divide it by their number. 'auto' is 1 % of the loss of the best
        constant prediction.
    temperature : float, default=0.5
        Temperature of the relaxed samples.
    groups, costs
        As in `suwr.SUWRClassifier`.
    hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, validation_fraction, \
device, random_state, verbose
        As in `AllFeaturesClassifier`.

    Attributes
    ----------
    sparsity_weight_ : float
        The value of λ used for training.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import REALXClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> REALXClassifier(max_epochs=5, random_state=0).fit(X, y).select(X).shape
    (150, 4)
    """


class REALXRegressor(TableRegressor, BaseREALX):
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


@dataclass(kw_only=True, eq=False, repr=False)
class BaseEVALX(FixedSelector):
    """A predictor that evaluates the masks of any selector; it selects every unit itself."""

    _predicts_any_mask: ClassVar[bool] = True

    mask_sizes: Literal["binomial", "uniform"] = parameter(
        "binomial", Options("binomial", "uniform")
    )
    n_bins: int = parameter(0, Interval(Integral, 0, MAX_BINS))

    def _n_bins(self, n_rows: int, n_columns: int, soft: bool) -> int:
        return int(self.n_bins)

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        self.selected_units_ = np.arange(data.inputs.n_units)
        network = self.network_ = self._build_network(data, dropout=0.2)
        schedule = self._schedule(data)
        if self.mask_sizes == "binomial":
            return [lambda: coin_flip_phase(network, data, folds, schedule)]

        def masks(n: int) -> Tensor:
            return data.inputs.random_masks((n,), folds.generator)

        return [lambda: predictor_phase(network, data, folds, masks, schedule, "EVAL-X")]


class EVALXClassifier(TableClassifier, BaseEVALX):
    """EVAL-X: a classifier trained on random masks, to evaluate the masks of any selector.

    Use `predict_masked`; `predict` and `select` use every column.

    Parameters
    ----------
    mask_sizes : {'binomial', 'uniform'}, default='binomial'
        Distribution of the number of revealed units in training. 'binomial' is the published
        method: every unit is revealed with probability ½, so that small masks hardly occur among
        many units. 'uniform' gives every number of units the same probability, and suits the
        evaluation of small masks.
    n_bins : int, default=0
        Largest number of bins of a numeric column; see `TrainingConfig`.
    groups, costs, hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, \
validation_fraction, device, random_state, verbose
        As in `AllFeaturesClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import EVALXClassifier, L2XClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> masks = L2XClassifier(max_steps=2, max_epochs=5, random_state=0).fit(X, y).select(X)
    >>> EVALXClassifier(max_epochs=5, random_state=0).fit(X, y).predict_masked(X, masks).shape
    (150, 3)
    """


class EVALXRegressor(TableRegressor, BaseEVALX):
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
