"""L2X: a fixed number of features per row, by a relaxed subset (Chen et al. 2018).

A selector reads the whole row and scores its units. A subset of *k* is *k* draws from the softmax
of the scores; each draw is relaxed by Gumbel noise and a temperature, and the subset is the largest
weight that a unit got in any draw. Predictor and selector learn together, by the predictor's loss.
The prediction uses the *k* units of largest score.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor

from suwr.baselines.base import COMMON_CONSTRAINTS, MaskedPredictions
from suwr.baselines.networks import SelectorNetwork, top_units
from suwr.baselines.training import adam, masked_loss, run_epochs
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.inputs import gumbel, soft_columns, soft_reveal
from suwr.training.data import Folds
from suwr.training.loop import Progress, optimizer_step

__all__ = ["L2XClassifier", "L2XRegressor", "relaxed_subset"]


def relaxed_subset(
    scores: Tensor, k: int, temperature: float, generator: torch.Generator
) -> Tensor:
    """Weights between 0 and 1 of a random subset of ``k`` units, ``(n, n_units)``.

    Examples
    --------
    >>> scores = torch.tensor([[0.0, 9.0, 9.0]])
    >>> relaxed_subset(scores, 8, 0.01, torch.Generator().manual_seed(0)).round().tolist()
    [[0.0, 1.0, 1.0]]
    """
    noise = gumbel((len(scores), k, scores.shape[1]), generator)
    draws = ((scores.log_softmax(dim=1).unsqueeze(1) + noise) / temperature).softmax(dim=2)
    return draws.amax(dim=1)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseL2X(MaskedPredictions):
    """L2X for any target."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COMMON_CONSTRAINTS,
        "n_units": [Interval(Integral, 1, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
    }

    n_units: int = 5
    temperature: float = 0.1

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> SelectorNetwork:
        self.n_units_ = min(self.n_units, data.inputs.n_units)
        network, schedule = self._build(data, dropout=0.2), self._schedule(data)
        inputs, loss = data.inputs, data.loss
        optimizer = adam(network, schedule)

        def update(index: Tensor, share: float) -> None:
            rows = data.rows[index]
            weight = relaxed_subset(
                network.scores(rows.values), self.n_units_, self.temperature, generator
            )
            shown = soft_reveal(inputs, rows.values, soft_columns(inputs, weight))
            lost = loss.per_row(network.outputs(shown), rows.targets)
            optimizer_step(optimizer, (lost * rows.weight).mean())

        def validate() -> float:
            rows = data.validation
            chosen = top_units(network.scores(rows.values), self.n_units_)
            mask = soft_columns(inputs, chosen.to(torch.float32)) > 0.5
            return float(masked_loss(network.outputs, inputs, loss, rows, mask))

        run_epochs(
            network, Folds(data.rows, generator), schedule, [optimizer], update, validate,
            progress, "L2X",
        )  # fmt: skip
        return network

    def _choose(self, values: Tensor) -> Tensor:
        return top_units(self.network_.scores(values), self.n_units_)


class L2XClassifier(ClassificationTarget, BaseL2X):
    """L2X: *k* features for each row, chosen by a network that sees the whole row.

    Its selections can leak: which features are shown may tell what the hidden ones hold.

    Parameters
    ----------
    n_units : int, default=5
        *k*, the units of every row; all of them where there are fewer.
    temperature : float, default=0.1
        *τ* of the relaxation.
    groups, costs
        As in `suwr.SUWRClassifier`; costs matter for `cost` alone.
    hidden_size, n_layers, max_epochs, patience, batch_size, learning_rate, validation_fraction, \
device, random_state, verbose
        As in `AllFeaturesClassifier`.

    Attributes
    ----------
    n_units_ : int
        The *k* that was used.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import L2XClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = L2XClassifier(n_units=2, max_epochs=5, random_state=0).fit(X, y)
    >>> set(clf.select(X).sum(axis=1).tolist())
    {2}
    """


class L2XRegressor(RegressionTarget, BaseL2X):
    """L2X for squared error; see `L2XClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import L2XRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = L2XRegressor(n_units=2, max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
