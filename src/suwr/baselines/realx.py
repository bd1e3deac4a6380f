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

import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor

from suwr.baselines.base import MaskedPredictions
from suwr.baselines.networks import SelectorNetwork, soft_columns, soft_reveal
from suwr.baselines.penalised import BasePenalised, log_probability
from suwr.baselines.training import adam, fit_predictor, masked_loss, run_epochs
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.inputs import MaskedInputs
from suwr.nn.rows import Folds
from suwr.nn.schedule import step
from suwr.nn.settings import Progress

__all__ = [
    "EVALXClassifier",
    "EVALXRegressor",
    "REALXClassifier",
    "REALXRegressor",
    "coin_masks",
    "paired_draws",
]

# Share of the epochs in which the predictor learns alone before the selector starts.
WARM_UP = 0.25


def coin_masks(inputs: MaskedInputs, n: int, generator: torch.Generator) -> Tensor:
    """Masks over columns from fair coin flips per unit, bool ``(n, n_columns)``."""
    flips = torch.rand(n, inputs.n_units, generator=generator, device=generator.device) < 0.5
    return soft_columns(inputs, flips.to(torch.float32)) > 0.5


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

    def _n_epochs(self) -> int:
        return self.max_epochs + max(1, round(WARM_UP * self.max_epochs))

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> SelectorNetwork:
        network, schedule = self._build(data, dropout=0.2), self._schedule(data)
        inputs, loss, price = data.inputs, data.loss, self._price(data)
        folds = Folds(data.rows, generator)
        _fit_on_coins(self, network, data, folds, WARM_UP, generator, progress)
        selector = adam(network.selector, schedule, decay=0.0)
        predictor = adam(network.predictor, schedule)

        def update(index: Tensor, share: float) -> None:
            rows = data.rows[index]
            scores = network.scores(rows.values)
            chosen, *soft = paired_draws(scores, self.temperature, generator)

            def lost(weight: Tensor) -> Tensor:
                shown = soft_reveal(inputs, rows.values, soft_columns(inputs, weight))
                return loss.per_row(network.outputs(shown), rows.targets)

            relaxed, conditional = lost(soft[0]), lost(soft[1])
            with torch.no_grad():
                surprise = lost(chosen.to(torch.float32)) - conditional
            value = surprise * log_probability(scores, chosen) + relaxed - conditional
            value = value + scores.sigmoid() @ price
            step(selector, (value * rows.weight).mean())
            mask = coin_masks(inputs, len(index), generator)
            step(predictor, masked_loss(network.outputs, inputs, loss, rows, mask))

        run_epochs(
            network, folds, schedule, [selector, predictor], update,
            lambda: self._validation_value(network, data, price), progress, "REAL-X",
        )  # fmt: skip
        return network


def _fit_on_coins(
    model: MaskedPredictions,
    network: SelectorNetwork,
    data: TrainingData,
    folds: Folds,
    share: float,
    generator: torch.Generator,
    progress: Progress,
) -> None:
    """Train the predictor under coin-flip masks; validation masks stay the same throughout."""
    inputs = data.inputs
    fit_predictor(
        network, data, folds, lambda index: coin_masks(inputs, len(index), generator),
        coin_masks(inputs, len(data.validation), generator), model._schedule(data).part(share),
        progress, "EVAL-X",
    )  # fmt: skip


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
    """REAL-X for squared error; see `REALXClassifier`."""


class BaseEVALX(MaskedPredictions):
    """A predictor for judging the masks of any selector."""

    # One and the same mask for every row tells nothing.
    leak_free_by_construction: ClassVar[bool] = True

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> SelectorNetwork:
        network = self._build(data, dropout=0.2)
        folds = Folds(data.rows, generator)
        _fit_on_coins(self, network, data, folds, 1.0, generator, progress)
        return network

    def _choose(self, values: Tensor) -> Tensor:
        shape = (len(values), len(self.units_))
        return torch.ones(shape, dtype=torch.bool, device=values.device)


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
    """EVAL-X for squared error; see `EVALXClassifier`."""
