"""`TextUnits`: texts as tables whose units are sentences, spans or words.

The vector of a sentence or span is computed from its own text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from suwr._utils.validation import Interval, check_parameters, parameter_error
from suwr.exceptions import TableError
from suwr.texts.highlight import TextDisplay
from suwr.texts.splitting import (
    Spans,
    make_splitter,
    read_targets,
    read_texts,
    sentence_spans,
    word_spans,
)

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


# Defaults of 'max_units'.
MAX_SENTENCES, MAX_WORDS = 20, 200
_KINDS = ("sentence", "span", "word")


class TextUnits(TextDisplay, TransformerMixin, BaseEstimator):
    """Represent texts as rows of numbers whose units are sentences, spans or words.

    A sentence becomes a block of columns, computed from this sentence alone, so that a policy which
    reveals sentence 3 learns nothing about any other sentence, not even how many there are: that
    there is no sentence 12 is a value of this unit, which has to be revealed like any other.

    Parameters
    ----------
    unit : {'sentence', 'span', 'word'} or callable, default='sentence'
        What one step reveals. 'sentence' is the i-th sentence; 'span' the i-th run of ``span_size``
        words, for texts without punctuation; 'word' the count of one word of the vocabulary in the
        whole text. A callable divides a text into passages: it returns parts of the text as
        strings, in their order.
    max_units : int or None, default=None
        Number of units. Later sentences can never be revealed. None is 20 sentences or spans, or
        the 200 most frequent words, without English stop words.
    from_end : bool, default=False
        Whether sentences and spans are counted from the end of the text. Conclusions are often
        there.
    span_size : int, default=20
        Words per span.
    vectorizer : transformer, callable or None, default=None
        Vector of a sentence or span: a transformer of texts, such as a vectoriser of scikit-learn
        or a pipeline that begins with one, fitted to all sentences of the texts; or a function from
        texts to numbers, such as ``model.predict_proba``. None is the score of each class by a
        linear model of TF-IDF weights if ``fit`` has a target, and otherwise TF-IDF, reduced to 16
        components. For words, a ``CountVectorizer`` or a ``TfidfVectorizer`` with ``norm=None``.

    Attributes
    ----------
    groups_ : dict of str to list of int
        The columns of each unit: the parameter ``groups`` of `SUWRClassifier`.
    unit_names_ : list of str
    vectorizer_ : object
        The fitted vectoriser.
    n_features_per_unit_ : int
        Columns per unit.

    Examples
    --------
    >>> from suwr import TextUnits
    >>> texts = ["Good fun. I laughed.", "A bore. I slept. Never again."]
    >>> units = TextUnits(max_units=3, vectorizer=CountVectorizer(vocabulary=["bore", "fun"]))
    >>> units.fit_transform(texts)
    array([[ 0.,  1.,  0.,  0., nan, nan],
           [ 1.,  0.,  0.,  0.,  0.,  0.]])
    >>> units.groups_
    {'sentence 1': [0, 1], 'sentence 2': [2, 3], 'sentence 3': [4, 5]}
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "max_units": [None, Interval(Integral, 1)],
        "from_end": [bool],
        "span_size": [Interval(Integral, 1)],
    }

    def __init__(
        self,
        unit: Literal["sentence", "span", "word"] | Callable[[str], Sequence[str]] = "sentence",
        *,
        max_units: int | None = None,
        from_end: bool = False,
        span_size: int = 20,
        vectorizer: Any = None,
    ) -> None:
        self.unit = unit
        self.max_units = max_units
        self.from_end = from_end
        self.span_size = span_size
        self.vectorizer = vectorizer

    vectorizer_: Any

    def fit(self, texts: Iterable[str], y: Any = None) -> TextUnits:
        """Fit the vectoriser.

        Parameters
        ----------
        texts : iterable of str
        y : array-like or None, default=None
            A target per text, for vectorisers that use one. Sentences have the target of their
            text.

        Returns
        -------
        self
        """
        name = type(self).__name__
        check_parameters(name, self._parameter_constraints, self.get_params(deep=False))
        if not callable(self.unit) and self.unit not in _KINDS:
            expected = "'sentence', 'span', 'word' or a function from a text to its passages"
            raise parameter_error("unit", name, expected, self.unit)
        documents = read_texts(texts)
        if self.unit == "word":
            return self._fit_words(documents)
        parts = [self._parts(text) for text in documents]
        flat = [part for own in parts for part in own]
        if not flat:
            raise TableError(f"{name} requires texts with at least one {self._noun()}.")
        targets = read_targets(y, len(documents))
        if self.vectorizer is None and targets is not None:
            self.vectorizer_ = TextScores().fit(documents, targets)
        else:
            if targets is not None:
                targets = np.repeat(targets, [len(own) for own in parts], axis=0)
            self.vectorizer_ = fit_vectorizer(self.vectorizer, flat, targets, name)
        width = vectors_of(self.vectorizer_, flat[:1], name).shape[1]
        n_units = MAX_SENTENCES if self.max_units is None else int(self.max_units)
        self.n_features_per_unit_ = width
        self.unit_names_ = [self._unit_name(i) for i in range(n_units)]
        self._names = vector_names(self.vectorizer_, width)
        self._set_groups()
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> NDArray[np.float64]:
        """Fit to texts, and return one row per text to train an estimator on.

        The scores that are the default with a target are cross-fitted: those of a text come from a
        model that was fitted to other texts. They differ from ``fit(texts, y).transform(texts)``,
        which would be too good on the texts that the scores were fitted to.

        Parameters
        ----------
        texts : iterable of str
        y : array-like or None, default=None
            As in `fit`.

        Returns
        -------
        ndarray of shape (n, n_units * n_features_per_unit_)
        """
        documents = read_texts(texts)
        self.fit(documents, y)
        if not isinstance(self.vectorizer_, TextScores):
            return self.transform(documents)
        parts = [self._parts(text)[: len(self.unit_names_)] for text in documents]
        targets = np.asarray(y)
        return self._rows(cross_fitted(documents, parts, targets, type(self).__name__))

    def _fit_words(self, documents: list[str]) -> TextUnits:
        n_words = MAX_WORDS if self.max_units is None else int(self.max_units)
        vectorizer = self.vectorizer
        if vectorizer is None:
            vectorizer = CountVectorizer(stop_words="english", max_features=n_words)
        check_word_vectorizer(vectorizer, type(self).__name__)
        self.vectorizer_ = clone(vectorizer)
        if self.max_units is not None:
            self.vectorizer_.set_params(max_features=n_words)
        self.vectorizer_.fit(documents)
        self.n_features_per_unit_ = 1
        self.unit_names_ = [str(word) for word in self.vectorizer_.get_feature_names_out()]
        self._names = [""]
        self._set_groups()
        return self

    def _set_groups(self) -> None:
        width = self.n_features_per_unit_
        self.groups_ = {
            name: list(range(i * width, (i + 1) * width)) for i, name in enumerate(self.unit_names_)
        }

    def transform(self, texts: Iterable[str]) -> NDArray[np.float64]:
        """Return one row per text.

        Parameters
        ----------
        texts : iterable of str

        Returns
        -------
        ndarray of shape (n, n_units * n_features_per_unit_)
            The columns of a unit are adjacent. Those of a sentence that a text does not have are
            NaN, which estimators treat as a value of its own.
        """
        check_is_fitted(self, "vectorizer_")
        documents = read_texts(texts)
        if self.unit == "word":
            return np.asarray(self.vectorizer_.transform(documents).toarray(), dtype=np.float64)
        parts = [self._parts(text)[: len(self.unit_names_)] for text in documents]
        flat = [part for own in parts for part in own]
        vectors = vectors_of(self.vectorizer_, flat, type(self).__name__)
        ends = np.cumsum([len(own) for own in parts])[:-1]
        return self._rows(np.split(vectors, ends))

    def _rows(self, vectors: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Arrange the vectors of each text in a row."""
        rows = np.full((len(vectors), len(self.unit_names_), self.n_features_per_unit_), np.nan)
        for row, own in zip(rows, vectors, strict=True):
            row[: len(own)] = own.reshape(len(own), self.n_features_per_unit_)
        return rows.reshape(len(rows), -1)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, such as 'sentence 3: good'.

        Parameters
        ----------
        input_features : None
            Ignored.
        """
        check_is_fitted(self, "vectorizer_")
        names = [
            f"{unit}: {entry}" if entry else unit
            for unit in self.unit_names_
            for entry in self._names
        ]
        return np.array(names, dtype=object)

    def spans(self, text: str) -> Spans:
        """Find the units of a text, in the order of their numbers.

        Parameters
        ----------
        text : str

        Returns
        -------
        list of (int, int)
            Start and end of each sentence, span or passage, beyond ``max_units`` as well.
        """
        if self.unit == "word":
            raise ValueError("Words are counted in the whole text: they have no spans.")
        if self.unit == "sentence":
            found = sentence_spans(text)
        elif self.unit == "span":
            found = word_spans(text, int(self.span_size))
        else:
            found = make_splitter(self.unit)(text)
        return found[::-1] if self.from_end else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    def _parts(self, text: str) -> list[str]:
        return [text[start:end] for start, end in self.spans(text)]

    def _unit_name(self, number: int) -> str:
        if not self.from_end:
            return f"{self._noun()} {number + 1}"
        return f"{self._noun()} {number + 1} from the end"
