"""Attributions of SHAP and LIME for any model and table, to be compared with an explainer.

SHAP and LIME work on numbers. Columns of other types are replaced by codes of their values, which
are translated back before the model is queried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import check_choice, require
from suwr.audit.adapters import from_lime
from suwr.data.frame import is_frame, raw_columns, take_rows

__all__ = ["METHODS", "Attribution", "NumericView", "make_attribution"]

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
