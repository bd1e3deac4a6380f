"""TabNet, with the networks of the package pytorch-tabnet (Arık and Pfister 2021).

TabNet masks its input anew in each of several decision steps. A mask is a sparsemax, so many of its
weights are exactly zero. The selection of a row consists of the units that have a positive weight
in any step. The first mask depends on the whole row, so selections may leak.

Only the network comes from the package; encoding, loss, sample weights, validation and training
loop are those of the other baselines.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

import torch
from torch import Tensor, nn

from suwr._utils.validation import Interval, Options, parameter, require
from suwr.baselines.base import BaseSelector, PhaseBuilders, SelectorPhase, make_adamw
from suwr.estimators.table import TableClassifier, TableRegressor, TrainingData
from suwr.nn.inputs import MaskedInputs
from suwr.training.data import Folds, Rows

# Rows per virtual batch of the ghost batch normalisation; the default of the package.
VIRTUAL_BATCH_SIZE = 128


def attention_matrix(inputs: MaskedInputs) -> Tensor:
    """Distribution of the weight of each unit over its encoded values, ``(n_units, n_values)``."""
    member = inputs.membership[:, inputs.column_of].to(torch.float32)
    return member / member.sum(dim=1, keepdim=True).clamp_min(1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseTabNet(BaseSelector):
    """TabNet for classes and values."""

    hidden_size: int = 8
    n_layers: int = 2
    learning_rate: float = parameter(0.02, Interval(Real, 0, closed="neither"))
    n_steps: int = parameter(3, Interval(Integral, 1))
    mask_sparsity_weight: float = parameter(1e-3, Interval(Real, 0))
    relaxation: float = parameter(1.3, Interval(Real, 1))
    mask_type: Literal["sparsemax", "entmax"] = parameter(
        "sparsemax", Options("sparsemax", "entmax")
    )

    def _phases(self, data: TrainingData, folds: Folds) -> PhaseBuilders:
        network = self.network_ = self._build_tabnet(data)
        schedule, name = self._schedule(data), self._method_name()
        optimizer = make_adamw(network, schedule, weight_decay=0.0)
        # The losses are in units of the loss of the best constant prediction.
        penalty = self.mask_sparsity_weight / self.constant_loss_

        def loss_and_entropy(rows: Rows) -> tuple[Tensor, Tensor]:
            outputs, negative_entropy = network(rows.values)
            losses = data.loss.per_row(outputs, rows.targets)
            return (losses * rows.weight).mean(), negative_entropy

        def of_rows(index: Tensor, progress: float) -> Tensor:
            loss, negative_entropy = loss_and_entropy(data.rows[index])
            return loss - penalty * negative_entropy

        def validate() -> tuple[float, None]:
            return float(loss_and_entropy(data.validation)[0]), None

        return [
            lambda: SelectorPhase(name, network, folds, schedule, [(optimizer, of_rows)], validate)
        ]

    def _build_tabnet(self, data: TrainingData) -> nn.Module:
        package = require("pytorch_tabnet.tab_network", "baselines", "TabNet")
        network: nn.Module = package.TabNet(
            data.rows.values.shape[1],
            self.target_.n_outputs,
            n_d=self.hidden_size,
            n_a=self.hidden_size,
            n_steps=self.n_steps,
            gamma=self.relaxation,
            cat_idxs=[],
            cat_dims=[],
            n_independent=self.n_layers,
            n_shared=self.n_layers,
            virtual_batch_size=VIRTUAL_BATCH_SIZE,
            mask_type=self.mask_type,
            group_attention_matrix=attention_matrix(data.inputs),
        )
        return network.to(self.device_)

    def _choose(self, values: Tensor) -> Tensor:
        _, masks = self.network_.forward_masks(values)
        used = torch.stack([m > 0 for m in masks.values()]).any(dim=0)
        # The values of a unit share one weight; a unit is selected if all of them are used.
        member = attention_matrix(self._parts()[0]) > 0
        return (~used).to(torch.float32) @ member.T.to(torch.float32) == 0

    def _final_predictions(self, values: Tensor) -> Tensor:
        return self.target_.make_loss().predict(self.network_(values)[0])


class TabNetClassifier(TableClassifier, BaseTabNet):
    """TabNet: sequential attention over units; requires ``pip install 'suwr[baselines]'``.

    The selection may leak: it can depend on the values of features that are not selected. The
    network weights its inputs instead of masking them, so it has no `predict_masked`.

    Parameters
    ----------
    n_steps : int, default=3
        Number of decision steps. Not a budget: one step may select any number of units.
    mask_sparsity_weight : float, default=1e-3
        The published λ: weight of the entropy of the masks in the loss. Unlike
        ``sparsity_weight``, it is not a price per unit of feature cost.
    relaxation : float, default=1.3
        *γ*. With 1 a feature is used in a single step; larger values allow several.
    mask_type : {'sparsemax', 'entmax'}, default='sparsemax'
        Activation of the masks.
    groups, costs
        As in `suwr.SUWRClassifier`; the costs only affect `cost`.
    hidden_size : int, default=8
        Width of the decision layers and of the attention layers.
    n_layers : int, default=2
        Number of shared layers, and of independent layers, in each step.
    learning_rate : float, default=0.02
        Initial learning rate.
    max_epochs, patience, batch_size, validation_fraction, device, random_state, verbose
        As in `AllFeaturesClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import TabNetClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> TabNetClassifier(max_epochs=5, random_state=0).fit(X, y).select(X).shape
    (150, 4)
    """


class TabNetRegressor(TableRegressor, BaseTabNet):
    """TabNet for squared error; see `TabNetClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import TabNetRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> TabNetRegressor(max_epochs=1, random_state=0).fit(X, y).predict(X).shape
    (442,)
    """
