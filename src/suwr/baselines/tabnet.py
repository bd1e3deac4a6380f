"""TabNet, by the networks of the package pytorch-tabnet (Arık and Pfister 2021).

TabNet masks its input anew in each of several steps; a mask is a sparsemax, so many weights are
exactly zero. A row's selection is every unit that any step gives a weight above zero. The first
mask reads the whole row, so selections can leak.

The network is the package's own; tables, loss, weights, validation and progress are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor, nn

from suwr._utils.optional import require
from suwr.baselines.base import COMMON_CONSTRAINTS, BaseSelector
from suwr.baselines.training import run_epochs
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.inputs import MaskedInputs
from suwr.training.data import Folds, Rows
from suwr.training.loop import Progress, optimizer_step

__all__ = ["TabNetClassifier", "TabNetRegressor", "attention_matrix"]

# Rows per 'ghost' batch of the normalisation, as the package has it.
VIRTUAL_BATCH = 128


def attention_matrix(inputs: MaskedInputs) -> Tensor:
    """How a unit's weight spreads over its encoded numbers, ``(n_units, n_values)``."""
    member = inputs.membership[:, inputs.column_of].to(torch.float32)
    return member / member.sum(dim=1, keepdim=True).clamp_min(1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseTabNet(BaseSelector):
    """TabNet for any target."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **COMMON_CONSTRAINTS,
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "mask_sparsity_weight": [Interval(Real, 0, None, closed="left")],
        "relaxation": [Interval(Real, 1, None, closed="left")],
        "mask_type": [StrOptions({"sparsemax", "entmax"})],
    }

    hidden_size: int = 8
    n_layers: int = 2
    learning_rate: float = 0.02
    n_steps: int = 3
    mask_sparsity_weight: float = 1e-3
    relaxation: float = 1.3
    mask_type: Literal["sparsemax", "entmax"] = "sparsemax"

    def _check_params(self) -> None:
        self._check_weight(self.mask_sparsity_weight, "mask_sparsity_weight")
        require("pytorch_tabnet", "baselines", "TabNet")

    def _train(
        self, data: TrainingData, generator: torch.Generator, progress: Progress
    ) -> nn.Module:
        package = require("pytorch_tabnet.tab_network", "baselines", "TabNet")
        network: nn.Module = package.TabNet(
            data.rows.values.shape[1],
            self._n_outputs(),
            n_d=self.hidden_size,
            n_a=self.hidden_size,
            n_steps=self.n_steps,
            gamma=self.relaxation,
            cat_idxs=[],
            cat_dims=[],
            n_independent=self.n_layers,
            n_shared=self.n_layers,
            virtual_batch_size=VIRTUAL_BATCH,
            mask_type=self.mask_type,
            group_attention_matrix=attention_matrix(data.inputs),
        ).to(self.device_)
        schedule = self._schedule(data)
        optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.0)
        # The package's penalty is in the units of the loss itself, ours of the best constant's.
        penalty = self.mask_sparsity_weight / self.constant_loss_

        def lost(rows: Rows) -> tuple[Tensor, Tensor]:
            outputs, negative_entropy = network(rows.values)
            lost = data.loss.per_row(outputs, rows.targets)
            return (lost * rows.weight).mean(), negative_entropy

        def update(index: Tensor, share: float) -> None:
            value, negative_entropy = lost(data.rows[index])
            optimizer_step(optimizer, value - penalty * negative_entropy)

        run_epochs(
            network, Folds(data.rows, generator), schedule, [optimizer], update,
            lambda: float(lost(data.validation)[0]), progress, "TabNet",
        )  # fmt: skip
        return network

    def _choose(self, values: Tensor) -> Tensor:
        _, masks = self.network_.forward_masks(values)
        used = torch.stack([m > 0 for m in masks.values()]).any(dim=0)
        # A unit is used where all of its numbers are: the network weighs them together.
        member = attention_matrix(self._parts()[0]) > 0
        return (~used).to(torch.float32) @ member.T.to(torch.float32) == 0

    def _final_outputs(self, values: Tensor) -> Tensor:
        return self._make_loss().predict(self.network_(values)[0])


class TabNetClassifier(ClassificationTarget, BaseTabNet):
    """TabNet: attention over units in several steps; needs ``pip install 'suwr[baselines]'``.

    Its selections can leak: which features are shown may tell what the hidden ones hold. Weighing
    a unit is not hiding the others, so there are no predictions for given masks.

    Parameters
    ----------
    n_steps : int, default=3
        Decision steps.
    mask_sparsity_weight : float, default=1e-3
        The published λ: weight of the masks' entropy in the loss. It has no unit of feature cost.
    relaxation : float, default=1.3
        *γ*: 1 uses a feature in one step only, more allows several.
    mask_type : {'sparsemax', 'entmax'}, default='sparsemax'
    groups, costs
        As in `suwr.SUWRClassifier`; costs matter for `cost` alone.
    hidden_size : int, default=8
        Width of the decision and of the attention part.
    n_layers : int, default=2
        Shared, and again as many independent, layers of each step.
    learning_rate : float, default=0.02
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


class TabNetRegressor(RegressionTarget, BaseTabNet):
    """TabNet for squared error; see `TabNetClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import TabNetRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> TabNetRegressor(max_epochs=1, random_state=0).fit(X, y).predict(X).shape
    (442,)
    """
