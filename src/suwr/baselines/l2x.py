"""L2X: a fixed number of features per row, by a relaxed subset (Chen et al. 2018).

A selector scores the units given the whole row. A subset of size *k* is formed by *k* draws from
the softmax of the scores. Each draw is relaxed by the Gumbel-softmax, and the weight of a unit is
its maximum over the draws. Selector and predictor are trained jointly to minimise the loss of the
predictor. At inference the *k* units with the largest scores are selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import torch
from torch import Tensor

from suwr._utils.validation import Interval, parameter
from suwr.baselines.base import (
    BaseSelector,
    PhaseBuilders,
    SelectorPhase,
    make_adamw,
    masked_loss,
)
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.nn.inputs import gumbel_softmax, soft_columns, soft_reveal
from suwr.training.data import Folds


def relaxed_subset(
    scores: Tensor, k: int, temperature: float, generator: torch.Generator
) -> Tensor:
    """Draw a relaxed subset of ``k`` units: weights between 0 and 1, ``(n, n_units)``.

    Examples
    --------
    >>> scores = torch.tensor([[0.0, 9.0, 9.0]])
    >>> relaxed_subset(scores, 8, 0.01, torch.Generator().manual_seed(0)).round().tolist()
    [[0.0, 1.0, 1.0]]
    """
    shape = (len(scores), k, scores.shape[1])
    return gumbel_softmax(scores.unsqueeze(1), temperature, generator, shape).amax(dim=1)


def top_units(scores: Tensor, k: int) -> Tensor:
    """Mask of the ``k`` units with the largest scores in each row, bool ``(n, n_units)``.

    Examples
    --------
    >>> top_units(torch.tensor([[0.1, 3.0, 2.0]]), 2)
    tensor([[False,  True,  True]])
    """
    selected = torch.zeros_like(scores, dtype=torch.bool)
    return selected.scatter(1, scores.topk(k, dim=1).indices, True)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseL2X(BaseSelector):
    """L2X for classes and values."""

    _predicts_any_mask: ClassVar[bool] = True
    # Dropout rate of the predictor; see `benchmarks/training/l2x.py`.
    _dropout: ClassVar[float] = 0.2

    max_steps: int = parameter(5, Interval(Integral, 1))
    temperature: float = parameter(0.1, Interval(Real, 0, closed="neither"))

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        self.max_steps_ = min(self.max_steps, data.inputs.n_units)
        network = self.network_ = self._build_network(data, dropout=self._dropout)
        inputs, loss, schedule = data.inputs, data.loss, self._schedule(data)
        optimizer, name = make_adamw(network, schedule), self._method_name()

        def of_rows(index: Tensor, progress: float) -> Tensor:
            rows = folds.rows[index]
            weight = relaxed_subset(
                network.scores(rows.values), self.max_steps_, self.temperature, folds.generator
            )
            relaxed_inputs = soft_reveal(inputs, rows.values, soft_columns(inputs, weight))
            losses = loss.per_row(network.outputs(relaxed_inputs), rows.targets)
            return (losses * rows.weight).mean()

        def validate() -> tuple[float, float]:
            rows = data.validation
            selected = top_units(network.scores(rows.values), self.max_steps_)
            costs = selected.to(torch.float32) @ inputs.costs
            value = masked_loss(network, inputs, loss, rows, inputs.union(selected))
            return float(value), float((costs * rows.weight).mean())

        return [
            lambda: SelectorPhase(name, network, folds, schedule, [(optimizer, of_rows)], validate)
        ]

    def _choose(self, values: Tensor) -> Tensor:
        return top_units(self.network_.scores(values), self.max_steps_)


class L2XClassifier(TableClassifier, BaseL2X):
    """L2X: the *k* highest-scoring features of each row, by a selector that reads the whole row.

    The selection may leak: it can depend on the values of features that are not selected.

    Parameters
    ----------
    max_steps : int, default=5
        *k*, the number of units selected in each row; capped at the number of units.
    temperature : float, default=0.1
        Temperature *τ* of the Gumbel-softmax relaxation.
    groups, costs
        As in `suwr.SUWRClassifier`; the costs only affect `cost`.
    hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, validation_fraction, \
device, random_state, verbose
        As in `AllFeaturesClassifier`.

    Attributes
    ----------
    max_steps_ : int
        The number of units selected in each row.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import L2XClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = L2XClassifier(max_steps=2, max_epochs=5, random_state=0).fit(X, y)
    >>> set(clf.select(X).sum(axis=1).tolist())
    {2}
    """


class L2XRegressor(TableRegressor, BaseL2X):
    """L2X for squared error; see `L2XClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import L2XRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = L2XRegressor(max_steps=2, max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
