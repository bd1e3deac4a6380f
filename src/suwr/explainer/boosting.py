"""Native models of XGBoost, LightGBM and CatBoost, whose outputs depend on their objective."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

__all__ = ["booster_query"]

Query = Callable[[Any], Any]
Kind = Literal["probability", "value"]


def booster_query(model: Any, *, raw: bool = False) -> tuple[Query, Kind | None] | None:
    """Return the function that queries a native model of a boosting library, and what it returns.

    Estimators in the manner of scikit-learn are queried by ``predict_proba`` and ``predict``, which
    agree with their objective.

    Parameters
    ----------
    model : object
    raw : bool, default=False
        Whether to query what the model predicts by itself, whatever its objective.

    Returns
    -------
    tuple of callable and {'probability', 'value'}, or None
        None if the model needs no special treatment. Probabilities have the shape (n,), of the
        second of two classes, or (n, n_classes).
    """
    library, name = type(model).__module__.split(".")[0], type(model).__name__
    if (library, name) == ("xgboost", "Booster"):
        return (_xgboost_query(model), None) if raw else _of_xgboost(model)
    if raw:
        return None
    if (library, name) == ("lightgbm", "Booster"):
        # The model of one tree suffices to read the objective, such as "binary sigmoid:1".
        objective = str(model.dump_model(num_iteration=1).get("objective", "")).split(" ")[0]
        return _of_lightgbm(model.predict, objective)
    if library == "lightgbm" and getattr(model, "objective_", None) == "multiclassova":
        return _of_lightgbm(model.predict_proba, "multiclassova")
    if (library, name) == ("catboost", "CatBoost"):
        return _of_catboost(model)
    return None


def _xgboost_query(model: Any, **options: Any) -> Query:
    # It is installed, since there is a model of it.
    import xgboost

    return lambda rows: model.predict(xgboost.DMatrix(rows, enable_categorical=True), **options)


def _of_xgboost(model: Any) -> tuple[Query, Kind]:
    objective = json.loads(model.save_config())["learner"]["objective"]["name"]
    query = _xgboost_query(model)
    if objective == "multi:softmax":
        # By itself, it returns labels.
        margins = _xgboost_query(model, output_margin=True)
        return lambda rows: softmax(margins(rows), axis=1), "probability"
    if objective == "binary:logitraw":
        return lambda rows: expit(query(rows)), "probability"
    return query, "probability" if objective in ("binary:logistic", "multi:softprob") else "value"


def _of_lightgbm(predict: Query, objective: str) -> tuple[Query, Kind]:
    if objective == "multiclassova":
        return partial(_normalized, predict), "probability"
    probabilities = ("binary", "cross_entropy", "multiclass")
    return predict, "probability" if objective in probabilities else "value"


def _of_catboost(model: Any) -> tuple[Query, Kind]:
    # A loss may have parameters, as in "Quantile:alpha=0.9".
    loss = str(model.get_all_params().get("loss_function", "")).split(":")[0]
    if loss in ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll"):
        query = partial(model.predict, prediction_type="Probability")
        return partial(_normalized, query), "probability"
    if loss in ("Poisson", "Tweedie"):
        return partial(model.predict, prediction_type="Exponent"), "value"
    return model.predict, "value"


def _normalized(query: Query, rows: Any) -> NDArray[np.float64]:
    """Divide the outputs of independent classes by their sum."""
    found = np.asarray(query(rows), dtype=np.float64)
    return found / found.sum(axis=1, keepdims=True)
