"""Vectors of sentences and spans, each computed from its own text alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.multiclass import type_of_target

from suwr._utils.validation import parameter_error

__all__ = [
    "TextScores", "check_word_vectorizer", "cross_fitted", "fit_vectorizer", "vector_names",
    "vectors_of",
]  # fmt: skip

# Texts are vectorised in blocks of this size, the last one padded with empty texts: matrix products
# of one shape give a row the same bits whatever the other rows are.
BLOCK = 256
# Components of the default vectoriser.
N_COMPONENTS = 16
# Folds of the cross-fitted scores of training texts.
N_FOLDS = 5
# Texts of a block in `fit`, of which the first and the last one are also vectorised alone.
N_REPEATED = 32
# Largest relative difference of their vectors.
TOLERANCE = 1e-6


class TextScores:
    """Scores of the classes, or predictions of a value, by a linear model of TF-IDF weights.

    Attributes
    ----------
    model : Pipeline
    """

    def fit(self, texts: Sequence[str], y: Any) -> TextScores:
        """Fit the linear model.

        Parameters
        ----------
        texts : sequence of str
        y : array
            Classes or values.
        """
        continuous = type_of_target(y).startswith("continuous")
        linear = Ridge() if continuous else LogisticRegression(C=10.0, max_iter=1000)
        self.model = make_pipeline(TfidfVectorizer(sublinear_tf=True), linear).fit(texts, y)
        return self

    def transform(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return log-odds or predictions, of shape (n,) or (n, n_classes)."""
        score = getattr(self.model, "decision_function", self.model.predict)
        return np.asarray(score(texts), dtype=np.float64)

    def get_feature_names_out(self) -> list[str]:
        """Return the names of the scores."""
        classes = getattr(self.model, "classes_", [])
        return [f"score of {c}" for c in (classes if len(classes) > 2 else classes[1:])] or [
            "score"
        ]


def cross_fitted(
    texts: Sequence[str], parts: Sequence[Sequence[str]], y: Any, owner: str
) -> list[NDArray[np.float64]]:
    """Return the scores of the parts of each text by models that were fitted to other texts.

    Scores by a model that was fitted to the same text are too good: an estimator that is trained on
    them would rely on them too much. `sklearn.preprocessing.TargetEncoder` does the same.

    Parameters
    ----------
    texts : sequence of str
    parts : sequence of sequence of str
        The parts of each text.
    y : array of shape (n,)
    owner : str
        For errors.
    """
    found: list[NDArray[np.float64]] = [np.zeros((0, 0))] * len(texts)
    folds = KFold(min(N_FOLDS, len(texts)), shuffle=True, random_state=0)
    for train, test in folds.split(texts):
        scores = TextScores().fit([texts[i] for i in train], y[train])
        flat = [part for i in test for part in parts[i]]
        vectors = vectors_of(scores, flat, owner)
        ends = np.cumsum([len(parts[i]) for i in test])[:-1]
        for i, own in zip(test, np.split(vectors, ends), strict=True):
            found[i] = own
    return found


def fit_vectorizer(vectorizer: Any, texts: Sequence[str], y: Any, owner: str) -> Any:
    """Fit a clone of a vectoriser to texts, and check that it treats each text by itself.

    Parameters
    ----------
    vectorizer : transformer, callable or None
        None is TF-IDF, reduced to 16 components by a singular value decomposition.
    texts : sequence of str
    y : array or None
        A target per text.
    owner : str
        For errors.

    Returns
    -------
    object with ``transform``
    """
    if vectorizer is None:
        fitted = _fit_default(texts)
    elif hasattr(vectorizer, "transform"):
        fitted = clone(vectorizer)
        fitted = fitted.fit(texts) if y is None else fitted.fit(texts, y)
    elif callable(vectorizer) and not isinstance(vectorizer, type):
        fitted = FunctionTransformer(vectorizer)
    else:
        expected = "None, a transformer of texts, or a function from texts to numbers"
        raise parameter_error("vectorizer", owner, expected, vectorizer)
    check_alone(fitted, texts, owner)
    return fitted


def check_alone(fitted: Any, texts: Sequence[str], owner: str) -> None:
    """Raise a ``ValueError`` if the vector of a text depends on other texts."""
    sample = list(texts[:N_REPEATED])
    together = vectors_of(fitted, sample, owner)
    alone = np.concatenate([vectors_of(fitted, [sample[i]], owner) for i in (0, -1)])
    scale = max(1.0, float(abs(together).max(initial=0.0)))
    if abs(together[[0, -1]] - alone).max() > TOLERANCE * scale:
        expected = "a transformer that computes the vector of a text from this text alone"
        raise parameter_error("vectorizer", owner, expected, fitted)


def _fit_default(texts: Sequence[str]) -> Any:
    weights = TfidfVectorizer(sublinear_tf=True).fit(texts)
    n_terms = len(weights.vocabulary_)
    if n_terms <= N_COMPONENTS:
        return weights
    svd = TruncatedSVD(N_COMPONENTS, random_state=0).fit(weights.transform(texts))
    return make_pipeline(weights, svd)


def vectors_of(vectorizer: Any, texts: Sequence[str], owner: str) -> NDArray[np.float64]:
    """Return the vector of each text, of shape (n, k).

    Parameters
    ----------
    vectorizer : object with ``transform``
        Fitted; may return a sparse matrix, or one number per text.
    texts : sequence of str
    owner : str
        For errors.
    """
    parts = []
    for start in range(0, max(1, len(texts)), BLOCK):
        block = list(texts[start : start + BLOCK])
        found = vectorizer.transform(block + [""] * (BLOCK - len(block)))
        # The stubs of SciPy do not say that sparse matrices have `toarray`.
        dense = found.toarray() if sparse.issparse(found) else found  # type: ignore[attr-defined]
        values = np.asarray(dense, dtype=np.float64)
        if values.shape[0] != BLOCK or values.ndim > 2:
            raise ValueError(
                f"The 'vectorizer' of {owner} must return one row per text. Got shape "
                f"{values.shape} for {BLOCK} texts."
            )
        parts.append(values.reshape(BLOCK, -1)[: len(block)])
    vectors = np.concatenate(parts)
    if not np.isfinite(vectors).all():
        raise ValueError(f"The 'vectorizer' of {owner} must return finite numbers.")
    return vectors


def vector_names(vectorizer: Any, n: int) -> list[str]:
    """Return the names of the entries of a vector; numbers if the vectoriser has none."""
    names: Callable[[], Any] | None = getattr(vectorizer, "get_feature_names_out", None)
    try:
        found = [] if names is None else [str(name) for name in names()]
    except (AttributeError, ValueError):  # a step without names
        found = []
    return found if len(found) == n else [str(i) for i in range(n)]


def check_word_vectorizer(vectorizer: Any, owner: str) -> None:
    """Raise a ``ValueError`` unless each column is a function of the count of one word.

    A normalised row would depend on all words of the text.
    """
    counts = isinstance(vectorizer, CountVectorizer) and vectorizer.analyzer == "word"
    norm = getattr(vectorizer, "norm", None)
    if not counts or norm is not None:
        expected = (
            "None, CountVectorizer(), or TfidfVectorizer(norm=None) if the units are words: the "
            "norm of a row would depend on words that are not revealed"
        )
        raise parameter_error("vectorizer", owner, expected, vectorizer)
