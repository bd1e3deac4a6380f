"""Regret: how much worse a form is than the policy that it was made from, measured on rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.data.frame import Table
from suwr.forms.form import Form, Walk

__all__ = ["Regret", "measure_regret", "walk_rows"]


@dataclass(frozen=True)
class Regret:
    """A form beside its policy on the same rows.

    Attributes
    ----------
    n_rows : int
    disagreement : float
        Share of rows with another predicted class; of a regression, the root mean squared
        difference between the predictions.
    form_cost, policy_cost : float
        Mean cost ‖h‖ of the revealed units.
    form_loss, policy_loss : float or None
        Mean cross-entropy in nats, or ``loss`` of the regressor; None without targets.
    regret : float or None
        Difference of the objectives, loss + λ cost; None without targets.
    standard_error : float or None
        Of the regret.

    Examples
    --------
    >>> from suwr.forms import Regret
    >>> print(Regret(100, 0.02, 3.5, 3.1))
    100 rows: another prediction than the policy for 2.0 %, mean cost 3.5 instead of 3.1
    """

    n_rows: int
    disagreement: float
    form_cost: float
    policy_cost: float
    form_loss: float | None = None
    policy_loss: float | None = None
    regret: float | None = None
    standard_error: float | None = None
    is_regression: bool = False

    def __str__(self) -> str:
        differs = (
            f"predictions differ by {self.disagreement:.3g} (root mean square)"
            if self.is_regression
            else f"another prediction than the policy for {100 * self.disagreement:.1f} %"
        )
        text = (
            f"{self.n_rows} rows: {differs}, mean cost {self.form_cost:.3g} instead of "
            f"{self.policy_cost:.3g}"
        )
        if self.regret is None:
            return text
        return (
            f"{text}, loss {self.form_loss:.4g} instead of {self.policy_loss:.4g}; regret "
            f"{self.regret:.4g} ± {self.standard_error:.2g} (standard error)"
        )


def walk_rows(form: Form, model: Any, table: Table) -> list[Walk]:
    """Return the way of each row; cells that the form does not ask for are not read.

    Parameters
    ----------
    form : Form
    model : estimator
        Fitted.
    table : Table
        Parsed by the encoder of the model.
    """
    number = {name: i for i, name in enumerate(model.encoder_.names)}

    def reader(row: int) -> Any:
        def value_of(name: str) -> Any:
            cells = table.invalid.get(number[name])
            if cells is not None and cells[row] is not None:
                raise cells[row].error(True)
            return table.value(row, number[name])

        return value_of

    return [form.walk(reader(row)) for row in range(table.n_rows)]


def measure_regret(
    form: Form, model: Any, X: Any, y: Any = None, *, mean_features: float | None = None
) -> Regret:
    """Compare a form with the policy of the model on rows.

    Parameters
    ----------
    form : Form
        Made from the model.
    model : SUWRClassifier or SUWRRegressor
    X : array-like or data frame of shape (n, d)
        Rows that the model was not trained on.
    y : array-like of shape (n,), optional
        Targets, for losses and regret.
    mean_features : float, optional
        As in ``ModelPolicy``.

    Returns
    -------
    Regret

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.forms import ModelPolicy, make_form, measure_regret
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=1, random_state=0).fit(X, y)
    >>> measure_regret(make_form(ModelPolicy(clf)), clf, X, y).n_rows
    150
    """
    walks = walk_rows(form, model, model._read(X))
    explanation = model.explain(X, mean_features=mean_features)
    ours = np.array([walk.page.prediction for walk in walks])
    theirs = np.array([narrative.prediction for narrative in explanation])
    form_cost = _costs(model, [walk.units for walk in walks])
    policy_cost = _costs(model, [[u for step in n.steps for u in step.units] for n in explanation])
    regression = form.classes is None
    if regression:
        disagreement = float(np.sqrt(np.mean((ours[:, 0] - theirs[:, 0]) ** 2)))
    else:
        disagreement = float(np.mean(ours.argmax(axis=1) != theirs.argmax(axis=1)))
    means = (float(form_cost.mean()), float(policy_cost.mean()))
    if y is None:
        return Regret(len(ours), disagreement, *means, is_regression=regression)
    losses = [_losses(model, form.classes, prediction, y) for prediction in (ours, theirs)]
    difference = losses[0] - losses[1] + model.sparsity_weight_ * (form_cost - policy_cost)
    error = float(difference.std() / np.sqrt(len(difference)))
    return Regret(
        len(ours), disagreement, *means, float(losses[0].mean()), float(losses[1].mean()),
        float(difference.mean()), error, regression,
    )  # fmt: skip


def _costs(model: Any, acquired: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return the cost of the units that each row acquired, set-up costs included."""
    order = np.full((len(acquired), max(map(len, acquired), default=0)), -1, dtype=np.intp)
    for row, names in enumerate(acquired):
        order[row, : len(names)] = [model.units_.names.index(name) for name in names]
    costs: NDArray[np.float64] = model.units_.cost_of(order)
    return costs


def _losses(
    model: Any, classes: tuple[Any, ...] | None, prediction: NDArray[np.float64], y: Any
) -> NDArray[np.float64]:
    truth = np.asarray(y)
    if classes is None:
        losses: NDArray[np.float64] = model._row_losses(truth.astype(np.float64), prediction[:, 0])
        return losses
    position = {label: number for number, label in enumerate(classes)}
    unknown = [label for label in truth.tolist() if label not in position]
    if unknown:
        raise ValueError(f"'y' must have the classes of the model. Got {unknown[0]!r}.")
    chosen = prediction[np.arange(len(truth)), [position[label] for label in truth.tolist()]]
    return -np.log(np.maximum(chosen, 1e-12))
