"""GDFS: greedy dynamic feature selection with a fixed budget (Covert et al. 2023).

From what is revealed, a network chooses the unit whose revealing makes the *next* prediction best:
the greedy policy for conditional mutual information. The choice is relaxed by Gumbel noise, so the
loss after it is differentiable; the temperature falls geometrically from stage to stage. Every step
is trained on its own: no gradient flows from later losses to earlier choices. So a row walks all
steps, and learns from a few of them at a time.

As in the core, predictors are pretrained on random masks, each judges rows that it never saw, and
both are fine-tuned on the masks of the finished policy: after any number of steps, so that one
model serves every budget up to its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor

from suwr.baselines.greedy import GREEDY_CONSTRAINTS, BaseGreedy, Step
from suwr.estimators.table_model import TrainingData
from suwr.estimators.targets import ClassificationTarget, RegressionTarget
from suwr.nn.inputs import gumbel, soft_columns, soft_reveal
from suwr.nn.networks import Architecture, PolicyOutputs, SeparateNetwork
from suwr.nn.rollout import Policy
from suwr.training.config import Settings
from suwr.training.data import Rows

__all__ = ["GDFSClassifier", "GDFSNetwork", "GDFSRegressor", "staged_temperature"]


def staged_temperature(share: float, start: float, end: float, stages: int) -> float:
    """Temperature after a share of the training: ``stages`` values in geometric progression.

    Examples
    --------
    >>> [round(staged_temperature(s, 2.0, 0.02, 3), 3) for s in (0.0, 0.5, 0.99)]
    [2.0, 0.2, 0.02]
    """
    stage = min(int(share * stages), stages - 1)
    return start * (end / start) ** (stage / max(stages - 1, 1))


class GDFSNetwork(SeparateNetwork):
    """A select head that never stops before the budget is spent, beside predictors."""

    def decide(
        self, inputs: Tensor, condition: Tensor | None = None, prediction: Tensor | None = None
    ) -> tuple[Tensor, PolicyOutputs]:
        """See `suwr.nn.networks.Network`."""
        found = self.policy_outputs(inputs)
        return torch.full_like(found.gain, -torch.inf), found


@dataclass(kw_only=True, eq=False, repr=False)
class BaseGDFS(BaseGreedy):
    """GDFS for any target."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GREEDY_CONSTRAINTS,
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "start_temperature": [Interval(Real, 0, None, closed="neither")],
        "end_temperature": [Interval(Real, 0, None, closed="neither")],
        "n_temperatures": [Interval(Integral, 1, None, closed="left")],
    }

    max_steps: int | None = 5
    start_temperature: float = 1.0
    end_temperature: float = 0.1
    n_temperatures: int = 5

    def _make_network(self, architecture: Architecture, data: TrainingData) -> SeparateNetwork:
        return GDFSNetwork(architecture)

    def _validation_value(self, judge: Policy, data: TrainingData, settings: Settings) -> float:
        """Mean loss over the steps, as published: every budget counts."""
        rows = data.validation
        prediction = judge.rollout(rows.values, record=True).prediction
        assert prediction is not None
        after = torch.as_tensor(prediction[:, 1:], device=rows.values.device)
        lost = data.loss.of_prediction(after, rows.targets.unsqueeze(1))
        return float((lost.mean(dim=1) * rows.weight).mean())

    def _pick(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        shown: Tensor,
        free: Tensor,
        share: float,
        generator: torch.Generator,
    ) -> Tensor:
        return _noisy(network, shown, free, generator).argmax(dim=1)

    def _step_loss(
        self,
        network: SeparateNetwork,
        data: TrainingData,
        rows: Rows,
        step: Step,
        share: float,
        generator: torch.Generator,
    ) -> Tensor:
        inputs, mask = data.inputs, step.before.flatten(0, 1)
        temperature = staged_temperature(
            share, self.start_temperature, self.end_temperature, self.n_temperatures
        )
        values, free = rows.values.flatten(0, 1), inputs.available(mask)
        free = free | ~free.any(dim=1, keepdim=True)
        noisy = _noisy(network, inputs.reveal(values, mask), free, generator)
        weight = soft_columns(inputs, (noisy / temperature).softmax(dim=1))
        shown = soft_reveal(inputs, values, torch.where(mask, 1.0, weight))
        # The predictor of the other half judges: it never saw the row.
        outputs = network.predictor(shown.unflatten(0, rows.weight.shape), flip=True)
        return (data.loss.per_row(outputs, rows.targets) * rows.weight).mean()


def _noisy(
    network: SeparateNetwork, shown: Tensor, free: Tensor, generator: torch.Generator
) -> Tensor:
    """Logits of the free units with Gumbel noise: the largest is a draw from their softmax."""
    logits = network.policy_outputs(shown)[1].masked_fill(~free, -torch.inf).log_softmax(dim=1)
    return logits + gumbel(tuple(logits.shape), generator)


class GDFSClassifier(ClassificationTarget, BaseGDFS):
    """Greedy dynamic feature selection: a fixed number of units, each chosen from those before.

    It decides only from what is revealed, as SUWR does, but looks one step ahead: two features that
    matter only together are found by chance. `select`, `explain`, `acquire`, `predict_masked` and
    `mask_probability` are those of `suwr.SUWRClassifier`.

    Parameters
    ----------
    max_steps : int, default=5
        The budget *k*: units of every row; all of them where there are fewer.
    start_temperature, end_temperature : float, default=1.0, 0.1
    n_temperatures : int, default=5
        Stages between them, in geometric progression.
    groups, costs
        As in `suwr.SUWRClassifier`; costs matter for `cost` alone.
    hidden_size, n_layers, max_epochs, batch_size, validation_fraction, device, random_state, \
verbose
        As in `suwr.SUWRClassifier`.

    Attributes
    ----------
    policy_ : Policy
    max_steps_ : int
        The budget that was used.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr.baselines import GDFSClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = GDFSClassifier(max_steps=2, max_epochs=3, random_state=0).fit(X, y)
    >>> set(clf.select(X).sum(axis=1).tolist())
    {2}
    """


class GDFSRegressor(RegressionTarget, BaseGDFS):
    """Greedy dynamic feature selection for squared error; see `GDFSClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from suwr.baselines import GDFSRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = GDFSRegressor(max_steps=2, max_epochs=1, hidden_size=8, random_state=0).fit(X, y)
    >>> reg.predict(X).shape, reg.select(X).shape
    ((442,), (442, 10))
    """
