"""Fidelity: what the revealed features tell about the outputs of a model, against their cost.

All predictions are made from values alone. Those of the explainer are its own. A policy that is
truncated after any number of steps is a SUWR policy too, which gives a curve of fidelity against
mean cost; an explainer that was fitted for a range of λ gives a better one, with one point per λ.
The top-k features of attributions are evaluated in the manner of EVAL-X, by a predictor that was
trained on random masks of all sizes and knows nothing about the way in which features are chosen;
so are the features of the explainer, for comparison on equal terms.

SHAP and LIME work on numbers. Columns of other types are replaced by codes of their values, which
are translated back before the model is queried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import check_choice, check_integer, require, view
from suwr.auditing.adapters import from_lime, top_k
from suwr.baselines.realx import EVALXClassifier, EVALXRegressor
from suwr.data.frame import is_frame, raw_columns, take_rows
from suwr.nn.rollout import Trace

__all__ = [
    "METHODS", "Attribution", "Fidelity", "FidelityCurve", "NumericView", "fidelity_curve",
    "make_attribution", "measure_fidelity", "train_evaluator",
]  # fmt: skip

#: From rows to scores of shape (n, d).
Attribution = Callable[[Any], Any]

#: Attributions that can be requested by name.
METHODS = ("TreeSHAP", "KernelSHAP", "LIME")

# Background rows and model queries per row of KernelSHAP, and queries per row of LIME.
KERNEL_BACKGROUND, KERNEL_SAMPLES, LIME_SAMPLES = 20, 256, 1000
# Background rows of LIME's statistics.
LIME_BACKGROUND = 5000


class NumericView:
    """Rows of any table as numbers, and back.

    Parameters
    ----------
    X : data frame or array of shape (n, d)
        Defines the codes of columns that are not numeric.

    Examples
    --------
    >>> view = NumericView(np.array([["a", 1.0], ["b", 2.0]], dtype=object))
    >>> view.encode(np.array([["b", 3.0]], dtype=object)).tolist()
    [[1.0, 3.0]]
    >>> view.decode(np.array([[0.0, 5.0]])).tolist()
    [['a', 5.0]]
    """

    def __init__(self, X: Any) -> None:
        self.X = X
        self.levels: list[list[Any] | None] = []
        for column in raw_columns(X):
            levels = None
            if column.dtype.kind not in "iuf":
                cells = column.tolist()
                if not all(isinstance(c, int | float) and not isinstance(c, bool) for c in cells):
                    levels = sorted(set(cells), key=lambda v: (v is None, str(type(v)), str(v)))
            self.levels.append(levels)

    @property
    def categorical(self) -> list[int]:
        """Columns that are represented by codes."""
        return [number for number, levels in enumerate(self.levels) if levels is not None]

    def encode(self, X: Any) -> NDArray[np.float64]:
        """Return rows as numbers; values that ``X`` did not have get the code 0."""
        out = np.zeros((len(X), len(self.levels)))
        for number, (column, levels) in enumerate(zip(raw_columns(X), self.levels, strict=True)):
            if levels is None:
                out[:, number] = column.astype(np.float64)
            else:
                code = {value: i for i, value in enumerate(levels)}
                out[:, number] = [code.get(value, 0) for value in column.tolist()]
        return out

    def decode(self, values: NDArray[np.float64]) -> Any:
        """Return rows in the container of the table; codes are rounded."""
        columns: list[Any] = []
        for number, levels in enumerate(self.levels):
            column = values[:, number]
            if levels is not None:
                codes = np.clip(np.rint(column), 0, len(levels) - 1).astype(int)
                columns.append([levels[c] for c in codes])
            else:
                columns.append(column)
        if not is_frame(self.X):
            kind = np.asarray(self.X).dtype
            if kind.kind in "iuf":
                return values
            stacked = np.empty(values.shape, dtype=object)
            for number, column in enumerate(columns):
                stacked[:, number] = column
            return stacked
        frame = nw.from_native(self.X, eager_only=True)
        series = {}
        for name, column, levels in zip(frame.columns, columns, self.levels, strict=True):
            dtype = frame.schema[name] if levels is not None else nw.Float64()
            series[name] = nw.new_series(name, column, dtype, backend=frame.implementation)
        return nw.from_dict(series).to_native()


def make_attribution(
    name: str, model: Any, predict: Callable[[Any], NDArray[np.float64]], X: Any, seed: int
) -> Attribution:
    """Return the attribution of a method, as a function from rows to scores.

    Scores of several outputs are added up in absolute value.

    Parameters
    ----------
    name : {'TreeSHAP', 'KernelSHAP', 'LIME'}
    model : object
        The model itself; TreeSHAP supports only tree ensembles on numeric columns.
    predict : callable
        From rows to outputs of shape (n, n_classes) or (n,).
    X : data frame or array of shape (n, d)
        Background rows.
    seed : int
    """
    check_choice(name, "compare", "fidelity", METHODS)
    if name == "TreeSHAP":
        shap = require("shap", extra="audit", purpose="TreeSHAP")
        tree = shap.TreeExplainer(model)
        return lambda rows: _summed(tree.shap_values(rows))
    view = NumericView(X)
    rng = np.random.RandomState(seed)

    def predict_codes(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return predict(view.decode(np.asarray(values, dtype=np.float64)))

    if name == "KernelSHAP":
        shap = require("shap", extra="audit", purpose="KernelSHAP")
        chosen = rng.choice(len(X), min(KERNEL_BACKGROUND, len(X)), replace=False)
        kernel = shap.KernelExplainer(predict_codes, view.encode(take_rows(X, chosen)), seed=seed)
        return lambda rows: _summed(
            kernel.shap_values(view.encode(rows), nsamples=KERNEL_SAMPLES, silent=True)
        )
    lime = require("lime.lime_tabular", extra="audit", purpose="LIME")
    chosen = rng.choice(len(X), min(LIME_BACKGROUND, len(X)), replace=False)
    background = view.encode(take_rows(X, chosen))
    is_class = predict(take_rows(X, chosen[:1])).ndim == 2
    explainer = lime.LimeTabularExplainer(
        background,
        mode="classification" if is_class else "regression",
        categorical_features=view.categorical,
    )
    options = {"top_labels": 1} if is_class else {}
    ranked = from_lime(
        predict_codes, 1, explainer=explainer, random_state=seed, num_samples=LIME_SAMPLES,
        **options,
    )  # fmt: skip
    return lambda rows: ranked.scores(view.encode(rows))


def _summed(values: Any) -> NDArray[np.float64]:
    """Absolute SHAP values (n, d), added up over outputs."""
    if isinstance(values, list):
        values = np.stack(values, axis=2)
    found = abs(np.asarray(values, dtype=np.float64))
    return found.sum(axis=2) if found.ndim == 3 else found


FloatArray = NDArray[np.float64]

# Epochs of the evaluator.
EVALUATOR_EPOCHS = 40
# λ at which an explainer that was fitted for a range is evaluated.
N_WEIGHTS = 9
# Probabilities are clipped here, so that the divergence stays finite.
SMALLEST = 1e-9

OWN, EVALUATED = "SUWR", "SUWR (EVAL-X)"


@dataclass(frozen=True)
class FidelityCurve:
    """Fidelity of one method against mean cost, all of the same length.

    Attributes
    ----------
    cost : tuple of float
        Mean cost per row.
    divergence : tuple of float
        Mean Kullback–Leibler divergence in nats of the prediction from the model's probabilities;
        for values, the fraction of their variance that is not explained, ``1 - R²``.
    agreement : tuple of float
        Fraction of rows with the model's class; for values, R².
    """

    cost: tuple[float, ...]
    divergence: tuple[float, ...]
    agreement: tuple[float, ...]

    def at(self, cost: float) -> float:
        """Divergence at a mean cost, interpolated linearly; NaN outside the curve."""
        return float(np.interp(cost, self.cost, self.divergence, left=np.nan, right=np.nan))


@dataclass(frozen=True)
class Fidelity:
    """Result of `SUWRExplainer.fidelity`.

    Attributes
    ----------
    curves : dict of str to FidelityCurve
        'SUWR' is the explainer with its own predictor, truncated after 0, 1, … steps, or at several
        λ of its range. 'SUWR (EVAL-X)' are the same features with the evaluator's
        predictions. The others are the top-k features of attributions with the evaluator's
        predictions.
    n_rows, n_units : int
        Rows evaluated, and units of the table.
    regression : bool
        Whether outputs are values: ``agreement`` is then R².
    point : int, default=-1
        The point of the curve 'SUWR' that is the explainer as it is.

    Examples
    --------
    >>> curve = FidelityCurve((0.0, 2.0), (0.5, 0.01), (0.6, 0.97))
    >>> print(Fidelity({"SUWR": curve}, 100, 10, False).summary())
    From 2.00 of 10 features per row on average: agreement 97.0 %, KL divergence 0.0100 nats (100 \
rows).
    """

    curves: dict[str, FidelityCurve]
    n_rows: int
    n_units: int
    regression: bool
    point: int = -1

    @property
    def mean_cost(self) -> float:
        """Mean cost of the explainer."""
        return self.curves[OWN].cost[self.point]

    @property
    def agreement(self) -> float:
        """Agreement of the explainer, or R²."""
        return self.curves[OWN].agreement[self.point]

    @property
    def divergence(self) -> float:
        """Divergence of the explainer, or 1 - R²."""
        return self.curves[OWN].divergence[self.point]

    def summary(self) -> str:
        """Return the fidelity of the explainer, and of others at the same cost, as text."""
        what = f"From {self.mean_cost:.2f} of {self.n_units} features per row on average: "
        if self.regression:
            lines = [f"{what}R² {self.agreement:.3f} ({self.n_rows} rows)."]
        else:
            lines = [
                f"{what}agreement {100 * self.agreement:.1f} %, KL divergence "
                f"{self.divergence:.4f} nats ({self.n_rows} rows)."
            ]
        for name, curve in self.curves.items():
            value = curve.at(self.mean_cost)
            if name != OWN and np.isfinite(value):
                kind = "1 - R²" if self.regression else "KL divergence"
                lines.append(f"{name}, at the same cost: {kind} {value:.4f}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        return asdict(self)

    def to_frame(self) -> Any:
        """Return a pandas frame with one line per point of a curve."""
        pandas = require("pandas", "tables", "Fidelity.to_frame")
        lines = [
            (name, *point)
            for name, curve in self.curves.items()
            for point in zip(curve.cost, curve.divergence, curve.agreement, strict=True)
        ]
        return pandas.DataFrame(lines, columns=["method", "cost", "divergence", "agreement"])

    def plot(self, ax: Any = None, *, measure: str = "divergence") -> Any:
        """Plot the curves; see :func:`suwr.plots.plot_fidelity`."""
        return view("plots:plot_fidelity", self, ax, measure=measure)

    def _repr_html_(self) -> str:
        """Representation in notebooks."""
        return str(view("report:fidelity_html", self))


def measure_fidelity(
    explainer: Any,
    X: Any,
    compare: Sequence[str] | Mapping[str, Attribution],
    max_features: int | None,
    evaluator: Any,
) -> Fidelity:
    """Measure the fidelity of an explainer; see `SUWRExplainer.fidelity`."""
    model = explainer.estimator_
    outputs, rows = explainer.model_output(X), explainer.features(X)
    if max_features is not None:
        check_integer(max_features, "max_features", "fidelity", 1)
    masks, costs, point = _own_masks(model, rows)
    own = [model.predict_masked(rows, mask) for mask in masks]
    curves = {OWN: fidelity_curve(outputs, costs, own)}
    named = _attributions(explainer, compare)
    if named or evaluator is not None:
        evaluator = train_evaluator(explainer) if evaluator is None else evaluator
        seen = [evaluator.predict_masked(rows, mask) for mask in masks]
        curves[EVALUATED] = fidelity_curve(outputs, costs, seen)
        most = max_features or max(1, model.max_steps_)
        for name, attribution in named.items():
            chosen, paid = _ranked_masks(attribution(X), model.units_, most)
            found = [evaluator.predict_masked(rows, mask) for mask in chosen]
            curves[name] = fidelity_curve(outputs, paid, found)
    return Fidelity(curves, len(outputs), len(model.units_), outputs.ndim == 1, point)


def train_evaluator(
    explainer: Any, max_epochs: int = EVALUATOR_EPOCHS
) -> EVALXClassifier | EVALXRegressor:
    """Train a predictor of the model's outputs on random masks of all sizes."""
    model = explainer.estimator_
    options: dict[str, Any] = {
        "mask_sizes": "uniform",
        "n_bins": max(code.n_bins for code in model.encoder_.codes),
        "groups": model.groups,
        "costs": explainer.costs,
        "hidden_size": model._training_config().hidden_size,
        "max_epochs": max_epochs,
        "device": explainer.device,
        "random_state": model.random_state,
        "verbose": explainer.verbose,
    }
    rows = explainer.features(explainer.queries_)
    if explainer.outputs_.ndim == 1:
        return EVALXRegressor(**options).fit(rows, explainer.outputs_)
    return EVALXClassifier(**options).fit(rows, explainer.outputs_)


def _attributions(
    explainer: Any, compare: Sequence[str] | Mapping[str, Attribution]
) -> dict[str, Attribution]:
    if isinstance(compare, Mapping):
        return dict(compare)
    names = [compare] if isinstance(compare, str) else list(compare)
    seed = int(explainer.estimator_.random_state)
    return {
        name: make_attribution(
            name, explainer.model, explainer.model_output, explainer.queries_, seed
        )
        for name in names
    }


def _score_function(outputs: FloatArray) -> Callable[[FloatArray], tuple[float, float]]:
    """Return the function from predictions to (divergence, agreement)."""
    if outputs.ndim == 1:
        total = float(np.var(outputs))

        def of_values(prediction: FloatArray) -> tuple[float, float]:
            error = float(np.mean((outputs - prediction) ** 2))
            rest = error / total if total > 0 else float(error > 0)
            return rest, 1.0 - rest

        return of_values
    log_output = np.log(np.maximum(outputs, SMALLEST))

    def of_probabilities(prediction: FloatArray) -> tuple[float, float]:
        ratio = log_output - np.log(np.maximum(prediction, SMALLEST))
        same = outputs.argmax(axis=1) == prediction.argmax(axis=1)
        return float((outputs * ratio).sum(axis=1).mean()), float(same.mean())

    return of_probabilities


def fidelity_curve(
    outputs: FloatArray, costs: Sequence[float], predictions: Sequence[FloatArray]
) -> FidelityCurve:
    """Compare several predictions with the outputs of a model.

    Parameters
    ----------
    outputs : ndarray of shape (n, n_classes) or (n,)
        Of the model.
    costs : sequence of float
        Mean cost of each prediction.
    predictions : sequence of ndarray
        Each of the shape of ``outputs``.

    Examples
    --------
    >>> outputs = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> fidelity_curve(outputs, [0.0], [np.full((2, 2), 0.5)]).agreement
    (0.5,)
    """
    score = _score_function(outputs)
    divergence, agreement = zip(*(score(prediction) for prediction in predictions), strict=True)
    return FidelityCurve(tuple(costs), divergence, agreement)


def _own_masks(model: Any, X: Any) -> tuple[list[NDArray[np.bool_]], list[float], int]:
    """Masks and mean costs of the curve of an explainer, and the point that is its default."""
    if model.weight_range_ is None:
        fitted = model.fitted_policy()
        traces = [trace for _, trace in fitted.rollouts(fitted.read(X))]
        return *_truncations(traces, model.units_.membership, model.units_.costs), -1
    low, high = model.weight_range_.low, model.weight_range_.high
    # An odd number, so that the geometric mean is among them.
    weights = np.geomspace(high, low, N_WEIGHTS)
    masks = [model.select(X, sparsity_weight=weight) for weight in weights]
    costs = [float(model.cost(X, sparsity_weight=weight).mean()) for weight in weights]
    order = np.argsort(costs, kind="stable")
    point = int(np.flatnonzero(order == N_WEIGHTS // 2)[0])
    return [masks[i] for i in order], [costs[i] for i in order], point


def _truncations(
    traces: Sequence[Trace], membership: NDArray[np.bool_], unit_costs: FloatArray
) -> tuple[list[NDArray[np.bool_]], list[float]]:
    """Masks and mean costs of the policy, truncated after 0, 1, … steps."""
    longest = max(trace.order.shape[1] for trace in traces)
    masks, costs = [], []
    for n_steps in range(longest + 1):
        parts, paid = [], 0.0
        for trace in traces:
            order = trace.order[:, :n_steps].reshape(len(trace.mask), -1)
            units = np.zeros((len(order), len(membership)), dtype=bool)
            row, place = np.nonzero(order >= 0)
            units[row, order[row, place]] = True
            parts.append(units.astype(np.float32) @ membership.astype(np.float32) > 0)
            paid += float((units @ unit_costs).sum())
        masks.append(np.concatenate(parts))
        costs.append(paid / len(masks[-1]))
    return masks, costs


def _ranked_masks(
    scores: Any, units: Any, most: int
) -> tuple[list[NDArray[np.bool_]], list[float]]:
    """Masks and mean costs of the units with the k largest scores, for k from 1 to ``most``.

    The score of a unit is the sum of the absolute scores of its columns.
    """
    of_unit = abs(np.asarray(scores, dtype=np.float64)) @ units.membership.T.astype(np.float64)
    masks, costs = [], []
    for k in range(1, min(most, len(units)) + 1):
        chosen = top_k(of_unit, k)
        masks.append(chosen.astype(np.float32) @ units.membership.astype(np.float32) > 0)
        costs.append(float((chosen @ units.costs).mean()))
    return masks, costs
