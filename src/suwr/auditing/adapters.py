"""Adapters that make selectors of the attributions of other libraries.

An attribution becomes a selection by keeping the k features with the largest scores, as is common
when explanations are displayed. Such a selection can leak, because the score of a feature may
depend on all other features. Each function returns an object with ``select(X)`` that
`suwr.auditing.audit` accepts.
"""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.validation import Interval, check_parameters, require
from suwr.selector import BoolArray

__all__ = ["TopK", "from_captum", "from_lime", "from_shap", "from_tabnet", "top_k"]

Scores = Callable[[Any], ArrayLike]


def top_k(scores: ArrayLike, k: int) -> BoolArray:
    """Select the ``k`` largest scores of each row; ties go to the first column.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_columns)
    k : int

    Returns
    -------
    bool array of shape (n_rows, n_columns)

    Examples
    --------
    >>> top_k([[0.1, 3.0, 2.0]], 2).tolist()
    [[False, True, True]]
    """
    array = np.asarray(scores, dtype=float)
    if array.ndim != 2:
        raise ValueError(f"Scores must have one row per row of X. Got shape {array.shape} instead.")
    valid_k = Interval(Integral, 0, array.shape[1], closed="both")
    check_parameters("top_k", {"k": [valid_k]}, {"k": k})
    best = np.argsort(-array, axis=1, kind="stable")[:, :k]
    masks = np.zeros(array.shape, dtype=bool)
    np.put_along_axis(masks, best, True, axis=1)
    return masks


class TopK:
    """Selects the ``k`` features with the largest scores.

    Parameters
    ----------
    scores : callable
        ``X -> scores`` of shape (n_rows, n_columns).
    k : int or None
        None selects all features whose score is not zero.
    absolute : bool
        Whether to rank by absolute value.

    Examples
    --------
    >>> TopK(lambda X: X, k=1).select(np.array([[1.0, -2.0]])).tolist()
    [[False, True]]
    """

    def __init__(self, scores: Scores, k: int | None, absolute: bool = True) -> None:
        self.scores = scores
        self.k = k
        self.absolute = absolute

    def select(self, X: Any) -> BoolArray:
        """Return one boolean mask per row of ``X``."""
        scores = np.asarray(self.scores(X), dtype=float)
        if self.k is None:
            return scores != 0
        return top_k(abs(scores) if self.absolute else scores, self.k)


def from_shap(model: Any, k: int, background: Any | None = None, output: int | None = None) -> TopK:
    """Select the ``k`` features with the largest absolute SHAP values.

    Parameters
    ----------
    model : object
        A shap explainer; or, with ``background``, the model or prediction function to explain.
    k : int
    background : array or data frame, optional
        Background rows for ``shap.Explainer``.
    output : int, optional
        Output to explain, if the model has several; by default, absolute values are summed over
        all outputs.

    Returns
    -------
    TopK

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from suwr.auditing.adapters import from_shap
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X, y)
    >>> from_shap(model, k=2, background=X).select(X[:3]).sum(axis=1).tolist()
    [2, 2, 2]
    """
    explainer = model
    if background is not None:
        shap = require("shap", extra="audit", purpose="SHAP values")
        explainer = shap.Explainer(model, background)

    def scores(X: Any) -> NDArray[np.float64]:
        values = np.asarray(explainer(X).values, dtype=float)
        if values.ndim == 2:
            return values
        return values[:, :, output] if output is not None else abs(values).sum(axis=2)

    return TopK(scores, k)


def from_lime(
    predict: Callable[[Any], Any],
    k: int,
    background: Any | None = None,
    explainer: Any | None = None,
    random_state: int | None = 0,
    **options: Any,
) -> TopK:
    """Select the ``k`` features with the largest absolute LIME weights.

    Parameters
    ----------
    predict : callable
        Function that returns class probabilities.
    k : int
    background : array of shape (n_rows, n_columns), optional
        Training rows for ``LimeTabularExplainer``; required without ``explainer``.
    explainer : object, optional
        A tabular explainer of LIME.
    random_state : int or None
        Seed of the perturbations. An int is used for every row, which makes the selector
        deterministic; with None it is stochastic.
    **options
        Passed to ``explain_instance``, for example ``num_samples=500``.

    Returns
    -------
    TopK

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from suwr.auditing.adapters import from_lime
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X, y)
    >>> from_lime(model.predict_proba, k=2, background=X).select(X[:3]).sum(axis=1).tolist()
    [2, 2, 2]
    """
    if explainer is None:
        if background is None:
            raise ValueError("from_lime requires either 'background' rows or an 'explainer'.")
        lime = require("lime.lime_tabular", extra="audit", purpose="LIME")
        explainer = lime.LimeTabularExplainer(np.asarray(background))

    parts = ("base", "discretizer")  # components with their own random state

    def scores(X: Any) -> NDArray[np.float64]:
        rows = np.asarray(X)
        out = np.zeros(rows.shape)
        for i, row in enumerate(rows):
            if random_state is not None:
                generator = np.random.RandomState(random_state)
                for part in (explainer, *(getattr(explainer, p, None) for p in parts)):
                    if part is not None:
                        part.random_state = generator
            explanation = explainer.explain_instance(
                row, predict, num_features=rows.shape[1], **options
            )
            for column, weight in next(iter(explanation.as_map().values())):
                out[i, column] = weight
        return out

    return TopK(scores, k)


def from_captum(
    method: Any,
    k: int,
    model: Any | None = None,
    target: int | str | None = "predicted",
    dtype: str = "float32",
    **options: Any,
) -> TopK:
    """Select the ``k`` features with the largest absolute captum attributions.

    Parameters
    ----------
    method : object or str
        An attribution object such as ``Saliency(model)``; or, with ``model``, the name of its
        class: ``"Saliency"``, ``"IntegratedGradients"``, ``"FeaturePermutation"``, ...
    k : int
    model : torch module, optional
    target : int, "predicted" or None
        Output to explain; None for a model with a single output.
    dtype : str
        Data type of the model's inputs.
    **options
        Passed to ``attribute``, for example ``baselines``.

    Returns
    -------
    TopK

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from suwr.auditing.adapters import from_captum
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(dim=1))
    >>> from_captum("Saliency", k=2, model=net).select(np.ones((2, 4))).sum(axis=1).tolist()
    [2, 2]
    """
    if isinstance(method, str):
        attr = require("captum.attr", extra="audit", purpose="Attributions")
        method = getattr(attr, method)(model)
    torch = require("torch", extra="audit", purpose="Attributions")

    def scores(X: Any) -> NDArray[np.float64]:
        inputs = torch.as_tensor(np.array(X), dtype=getattr(torch, dtype)).requires_grad_()
        chosen: Any = target
        if target == "predicted":
            with torch.no_grad():
                chosen = method.forward_func(inputs).argmax(dim=1)
        attributions = method.attribute(inputs, target=chosen, **options)
        return np.asarray(attributions.detach().cpu().numpy(), dtype=float)

    return TopK(scores, k)


def from_tabnet(model: Any, k: int | None = None) -> TopK:
    """Select features by the attention masks of pytorch-tabnet.

    Parameters
    ----------
    model : object
        A fitted ``TabNetClassifier`` or ``TabNetRegressor`` of pytorch-tabnet.
    k : int, optional
        Number of features to select; by default all with positive attention.

    Returns
    -------
    TopK

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pytorch_tabnet.tab_model import TabNetClassifier
    >>> from suwr.auditing.adapters import from_tabnet
    >>> X, y = load_iris(return_X_y=True)
    >>> tabnet = TabNetClassifier(verbose=0)
    >>> tabnet.fit(X, y, max_epochs=1)
    >>> from_tabnet(tabnet, k=2).select(X[:3]).sum(axis=1).tolist()
    [2, 2, 2]
    """

    def attention(X: Any) -> NDArray[np.float64]:
        return np.asarray(model.explain(np.asarray(X, dtype=np.float32))[0], dtype=float)

    return TopK(attention, k)
