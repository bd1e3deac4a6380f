"""The outputs of any model: probabilities or values, queried in batches and checked.

Native models of XGBoost, LightGBM and CatBoost have outputs that depend on their objective.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import is_classifier

from suwr._utils.progress import ProgressCounter
from suwr._utils.validation import parameter_error
from suwr.data.frame import is_frame, take_rows
from suwr.exceptions import ModelOutputError

__all__ = ["OUTPUTS", "ModelOutputs", "QueryCost", "booster_query", "examine_model"]

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


#: Values of the ``output`` parameter.
OUTPUTS = ("auto", "probability", "logit", "value")

# Largest deviation of the sum of probabilities from 1.
SUM_TOLERANCE = 1e-3
# Rows that are queried twice, to time the model and to compare its outputs.
N_REPEATED = 50
# Relative difference of repeated outputs above which a model counts as stochastic.
REPEAT_TOLERANCE = 1e-6


class QueryCost:
    """Expected duration of queries: a constant per call and a constant per row.

    Parameters
    ----------
    of_one, of_many : float
        Measured seconds of a call with one row, and with ``n_many`` rows.
    n_many : int
    """

    def __init__(self, of_one: float, of_many: float, n_many: int) -> None:
        self.per_row = max(0.0, of_many - of_one) / max(1, n_many - 1)
        self.per_call = max(0.0, of_one - self.per_row)

    def seconds(self, n_rows: int, batch_size: int) -> float:
        """Expected seconds of queries on ``n_rows`` rows, in calls of ``batch_size`` rows."""
        return -(-n_rows // batch_size) * self.per_call + n_rows * self.per_row

    def statement(self, n_rows: int, batch_size: int) -> str:
        """State what queries will cost.

        Examples
        --------
        >>> QueryCost(0.5, 0.5, 10).statement(2000, 1000)
        'Querying the model on 2,000 rows in 2 calls takes about 1 s'
        """
        n_calls = -(-n_rows // batch_size)
        duration = _duration(self.seconds(n_rows, batch_size))
        return f"Querying the model on {n_rows:,} rows in {n_calls:,} calls takes about {duration}"


class ModelOutputs:
    """Queries a model and validates what it returns.

    Parameters
    ----------
    model : object
        An estimator with ``predict_proba`` or ``predict``, a torch module, a native model of
        XGBoost, LightGBM or CatBoost, or a callable that takes rows.
    output : {'auto', 'probability', 'logit', 'value'}
        What the model returns; see `SUWRExplainer`.
    classes : array-like or None
        Labels of the outputs; None takes those of the model, or 0, 1, …
    owner : str
        For errors.

    Attributes
    ----------
    n_outputs : int or None
        Number of classes, 1 for values; None before the first query.
    classes : ndarray or None
        Class labels; None for values.
    n_queries, n_calls : int
        Rows and calls so far.
    """

    def __init__(
        self, model: Any, output: str, classes: ArrayLike | None, owner: str = "SUWRExplainer"
    ) -> None:
        self.output, self.owner = output, owner
        booster = booster_query(model, raw=output not in ("auto", "probability"))
        self._labels: NDArray[Any] | None = None
        self.kind: str | None = None
        if booster is not None:
            self._call, kind = booster
            self.kind = kind if output == "auto" else None
        else:
            self._call, self._labels = _find_function(model, output, owner)
        self._given = None if classes is None else np.asarray(classes)
        known = getattr(model, "classes_", None)
        self._known = None if known is None or isinstance(known, list) else np.asarray(known)
        self.classes: NDArray[Any] | None = None
        self.n_outputs: int | None = None
        self.n_queries = self.n_calls = 0
        self._width: int | None = None

    def __call__(
        self, X: Any, batch_size: int = 1024, progress: ProgressCounter | None = None
    ) -> NDArray[np.float64]:
        """Return the outputs for all rows, of shape (n, n_classes) or (n,).

        Parameters
        ----------
        X : data frame or array of shape (n, d)
        batch_size : int, default=1024
            Rows per call.
        progress : ProgressCounter, optional
            Advanced by the rows of each call.
        """
        parts = []
        for start in range(0, len(X), batch_size):
            rows = take_rows(X, np.arange(start, min(start + batch_size, len(X))))
            parts.append(self._query(rows))
            if progress is not None:
                progress(len(rows))
        return np.concatenate(parts)

    def timed(self, X: Any) -> tuple[NDArray[np.float64], float]:
        """Return the outputs of one call, and its duration in seconds."""
        start = time.perf_counter()
        found = self._query(X)
        return found, time.perf_counter() - start

    def _query(self, rows: Any) -> NDArray[np.float64]:
        try:
            # Texts are passed as a list of str.
            raw = self._call(rows.tolist() if np.ndim(rows) == 1 else rows)
        except Exception as error:
            raise ModelOutputError(
                f"The model failed on {len(rows)} rows after {self.n_queries:,} successful "
                f"queries: {type(error).__name__}: {error}"
            ) from error
        self.n_queries += len(rows)
        self.n_calls += 1
        if self._labels is not None:
            return self._one_hot(np.asarray(raw))
        try:
            found = np.asarray(raw, dtype=np.float64)
        except (TypeError, ValueError):
            raise ModelOutputError(
                f"The model must return numbers. Got {type(raw).__name__} that cannot be "
                "converted; for a model that returns labels, pass a function that returns "
                "probabilities."
            ) from None
        if found.ndim == 0 or len(found) != len(rows) or found.ndim > 2:
            raise ModelOutputError(
                "The model must return one output per row, of shape (n,) or (n, n_outputs). Got "
                f"shape {found.shape} for {len(rows)} rows."
            )
        if not np.isfinite(found).all():
            row = int((~np.isfinite(found)).reshape(len(found), -1).any(axis=1).argmax())
            raise ModelOutputError(
                f"The model must return finite numbers. Got {found[row].tolist()} for row {row} "
                f"of a call with {len(rows)} rows."
            )
        return self._convert(found[:, None] if found.ndim == 1 else found)

    def _convert(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert raw outputs (n, k) to probabilities or values."""
        width = self._width or found.shape[1]
        if found.shape[1] != width:
            raise _changed(width, found.shape[1])
        self._width = width
        if self.kind is None:
            self.kind = self._kind_of(found)
        if self.kind == "value":
            self.expect(found.shape[1])
            return found[:, 0]
        if self.kind == "logit":
            found = softmax(found, axis=1) if found.shape[1] > 1 else expit(found)
        if found.shape[1] == 1:
            found = np.column_stack([1.0 - found[:, 0], found[:, 0]])
        self.expect(found.shape[1])
        total = found.sum(axis=1)
        if (found < 0).any() or (abs(total - 1.0) > SUM_TOLERANCE).any():
            row = int(((found < 0).any(axis=1) | (abs(total - 1.0) > SUM_TOLERANCE)).argmax())
            raise ModelOutputError(
                "The model must return non-negative probabilities that sum to 1 for every row. "
                f"Got {found[row].tolist()}. Use output='logit' for logits."
            )
        return found / total[:, None]

    def _kind_of(self, found: NDArray[np.float64]) -> str:
        if self.output != "auto":
            if self.output == "value" and found.shape[1] > 1:
                raise ModelOutputError(
                    "With output='value', the model must return one number per row. Got "
                    f"{found.shape[1]} outputs; choose one of them with a function."
                )
            return self.output
        if found.shape[1] == 1:
            return "value"
        if (found >= 0).all() and (abs(found.sum(axis=1) - 1.0) <= SUM_TOLERANCE).all():
            return "probability"
        raise ModelOutputError(
            f"The model returns {found.shape[1]} outputs per row that are no probabilities. Use "
            "output='logit' for logits, or pass a function that returns one of the outputs."
        )

    def expect(self, n_outputs: int) -> None:
        """Compare the number of outputs with that of earlier calls; set the classes."""
        if self.n_outputs is None:
            self.n_outputs = n_outputs
            if n_outputs > 1:
                self.classes = self._class_labels(n_outputs)
        elif n_outputs != self.n_outputs:
            raise _changed(self.n_outputs, n_outputs)

    def _class_labels(self, n: int) -> NDArray[Any]:
        if self._given is not None:
            labels = self._given
            if labels.shape != (n,) or len(set(labels.tolist())) != n:
                expected = f"{n} different labels, one for each output of the model"
                raise parameter_error("classes", self.owner, expected, labels.tolist())
            return labels
        known = self._known
        return known if known is not None and known.shape == (n,) else np.arange(n)

    def _one_hot(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Labels of a classifier without probabilities, as probabilities of 0 and 1."""
        assert self._labels is not None
        found = np.asarray(labels.reshape(len(labels), -1)[:, :1] == self._labels[None, :], float)
        if not (found.sum(axis=1) == 1).all():
            raise ModelOutputError("The model returned a label that is not in its 'classes_'.")
        self.kind = "probability"
        self.expect(found.shape[1])
        return found


def _changed(before: int, now: int) -> ModelOutputError:
    return ModelOutputError(
        f"The model changed its number of outputs: {before} in earlier calls, {now} in this one."
    )


def _find_function(
    model: Any, output: str, owner: str
) -> tuple[Callable[[Any], Any], NDArray[Any] | None]:
    """Return the function to query, and the class labels if it returns labels."""
    if isinstance(model, torch.nn.Module):
        return _torch_function(model), None
    if output != "value" and callable(getattr(model, "predict_proba", None)):
        return model.predict_proba, None
    if callable(getattr(model, "predict", None)):
        labels = None
        known = hasattr(model, "__sklearn_tags__") and is_classifier(model)
        if output in ("auto", "probability") and known:
            labels = np.asarray(model.classes_)
        return model.predict, labels
    if callable(model) and not isinstance(model, type):
        return model, None
    expected = "an object with 'predict_proba' or 'predict', a torch module, or a callable"
    raise parameter_error("model", owner, expected, model)


def _torch_function(module: torch.nn.Module) -> Callable[[Any], Any]:
    """Query a torch module in evaluation mode, on its device and in its precision."""

    def query(rows: Any) -> Any:
        first = next(module.parameters(), None)
        values = np.asarray(rows.to_numpy() if is_frame(rows) else rows)
        tensor = torch.as_tensor(np.ascontiguousarray(values.astype(np.float64)))
        tensor = tensor.float() if first is None else tensor.to(first.device, first.dtype)
        was_training = module.training
        module.eval()
        try:
            with torch.no_grad():
                return module(tensor).detach().cpu().double().numpy()
        finally:
            module.train(was_training)

    return query


def examine_model(outputs: ModelOutputs, rows: Any, spare: int) -> tuple[str | None, QueryCost]:
    """Query some rows twice: is the model deterministic, and how long does it take?

    Parameters
    ----------
    outputs : ModelOutputs
    rows : data frame or array
    spare : int
        Queries that may be spent on it; at least 3 are.

    Returns
    -------
    caution : str or None
        Stated if repeated outputs differ.
    cost : QueryCost
    """
    n = max(1, min(N_REPEATED, (spare - 1) // 2))
    sample = take_rows(rows, np.arange(n) % len(rows))
    _, of_one = outputs.timed(take_rows(rows, np.arange(1)))
    first, _ = outputs.timed(sample)
    second, of_many = outputs.timed(sample)
    difference = float(abs(first - second).max())
    caution = None
    if difference > REPEAT_TOLERANCE * max(1.0, float(abs(first).max())):
        caution = (
            "The model is stochastic: repeated queries of the same rows differ by up to "
            f"{difference:.3g}. The explainer learns its mean output; single outputs cannot be "
            "predicted from any features."
        )
    return caution, QueryCost(of_one, of_many, len(sample))


def _duration(seconds: float) -> str:
    """Format an expected duration."""
    if seconds < 1:
        return "less than a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
