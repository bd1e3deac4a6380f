"""`SUWRExplainer`: leakage-free explanations of a model that is already there."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import entropy
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from suwr._utils.progress import progress_bars
from suwr._utils.validation import Interval, Options, check_parameters
from suwr.data.costs import check_unit_costs
from suwr.data.units import Patches, Units
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.evaluate import Evaluation
from suwr.estimators.files import load
from suwr.estimators.regressor import SUWRRegressor
from suwr.estimators.sequential import PolicyKind
from suwr.estimators.session import Acquisition
from suwr.estimators.table import consistent
from suwr.exceptions import StochasticModelWarning, UnsupportedModelError
from suwr.explainer.fidelity import Attribution, Fidelity, measure_fidelity
from suwr.explainer.outputs import OUTPUTS, ModelOutputs, QueryCost, examine_model
from suwr.explainer.rows import TableRows, TextRows
from suwr.narrative.explanation import Explanation, ModelNarrative
from suwr.texts import TextUnits
from suwr.training.config import TrainingConfig

# Largest number of queried rows, which bounds the duration of the fit.
MAX_ROWS = 40_000


def default_weight(outputs: NDArray[np.float64]) -> float | Literal["auto"]:
    """Return λ, from all outputs of the model, of shape (n, n_classes) or (n,).

    For probabilities, λ is 2 % of the loss of the best constant prediction, but at most 1 % of
    that of two equally probable classes: the loss grows with the number of classes, but what is
    gained by the features that tell the last two classes apart does not.

    Examples
    --------
    >>> default_weight(np.array([2.5, 3.0]))
    'auto'
    >>> round(default_weight(np.eye(4)), 5)
    0.00693
    >>> round(default_weight(np.array([[0.98, 0.02], [0.96, 0.04]])), 5)
    0.00269
    """
    if outputs.ndim == 1:
        return "auto"
    return min(0.02 * float(entropy(outputs.mean(axis=0))), 0.01 * math.log(2.0))


# Expected duration in seconds from which `fit` warns even if it is silent.
LONG_DURATION = 60.0


class SUWRExplainer(BaseEstimator):
    """Leakage-free explanations of any model: the features from which its output follows.

    The explainer queries the model on background rows and on rows that it draws itself, and trains
    a SUWR policy to reveal the features of each row from which the model's output can be predicted,
    one at a time. Every decision reads only what is already revealed. An explanation therefore
    states which features the output follows from, and the choice of these features carries no
    information about the others.

    Parameters
    ----------
    model : object
        A fitted scikit-learn estimator or pipeline, a model of XGBoost, LightGBM or CatBoost, a
        torch module, or a callable from rows to outputs. It is queried with rows in the container
        of ``X_background``. A torch module is queried in evaluation mode. `sklearn.base.clone` of
        an explainer keeps the model, since a clone of the model would not be fitted.
    output : {'auto', 'probability', 'logit', 'value'}, default='auto'
        What the model returns. 'probability' and 'logit' are those of the classes, or of the second
        of two classes if there is a single output; 'value' is one number per row. 'auto' uses
        ``predict_proba`` if the model has it; several outputs must then be probabilities, and a
        single one is a value.
    classes : array-like or None, default=None
        Labels of the outputs. None takes ``model.classes_``, or 0, 1, …
    queries_per_row : int, default=20
        Maximum number of queries per background row. One is the row itself; the others are drawn
        rows, up to 40,000 rows in all, and up to 101 queries that time and compare outputs (3
        further ones if this is 1). See `suwr.explainer.rows`.
    query_size : int, default=1024
        Rows per call of the model.
    sparsity_weight : float, 'auto' or tuple of two floats, default='auto'
        λ, as in `SUWRClassifier`. For values, 'auto' is 1 % of the loss of the best constant
        prediction; for probabilities 2 %, but at most 0.0069, which is 1 % of that of two equally
        probable classes.
    groups : Patches, TextUnits, mapping, sequence of sequences, or None, default=None
        As in `SUWRClassifier`. With `TextUnits`, rows are texts: the model takes a list of str, and
        the policy reveals sentences, spans or words.
    max_steps, costs, max_epochs, training, columns, device
        As in `SUWRClassifier` with ``teacher='targets'``: the model is the teacher. ``costs`` are
        those of units alone.
    random_state : int, RandomState or None, default=None
        Seed of the drawn rows and of the training.
    verbose : int or None, default=None
        0 is silent, 1 shows the expected duration of the queries and progress bars. None shows
        progress bars in a terminal and in a notebook.

    Attributes
    ----------
    estimator_ : SUWRClassifier or SUWRRegressor
        The model of the model; all methods of the explainer use it.
    queries_, outputs_ : data frame or array, and ndarray
        The rows on which the model was queried for training, background rows first, and its
        outputs.
    n_queries_, n_calls_ : int
        Rows and calls of the model in `fit`, repeated rows included.
    cautions_ : list of str
        What to consider when reading the explanations, such as a stochastic model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from suwr import SUWRExplainer
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=500).fit(X, y)
    >>> explainer = SUWRExplainer(model, queries_per_row=2, max_epochs=2, random_state=0).fit(X)
    >>> print(explainer.explain(X[:1])[0].text().splitlines()[-1])  # doctest: +ELLIPSIS
    The model says 0 (98 %); from these features alone: 0 ...
    """

    leak_free_by_construction: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "output": [Options(*OUTPUTS)],
        "queries_per_row": [Interval(Integral, 1)],
        "query_size": [Interval(Integral, 1)],
        "max_epochs": [Options("auto"), Interval(Integral, 1)],
        "verbose": [None, bool, Interval(Integral, 0)],
    }

    estimator_: SUWRClassifier | SUWRRegressor

    def __init__(
        self,
        model: Any,
        *,
        output: Literal["auto", "probability", "logit", "value"] = "auto",
        classes: ArrayLike | None = None,
        queries_per_row: int = 20,
        query_size: int = 1024,
        sparsity_weight: float | Literal["auto"] | tuple[float, float] = "auto",
        max_steps: int | None = None,
        groups: Patches | TextUnits | Mapping[str, Sequence[Any]] | Sequence[Any] | None = None,
        costs: Mapping[str, float] | ArrayLike | None = None,
        max_epochs: int | Literal["auto"] = "auto",
        training: TrainingConfig | Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int | None = None,
    ) -> None:
        self.model = model
        self.output = output
        self.classes = classes
        self.queries_per_row = queries_per_row
        self.query_size = query_size
        self.sparsity_weight = sparsity_weight
        self.max_steps = max_steps
        self.groups = groups
        self.costs = costs
        self.max_epochs = max_epochs
        self.training = training
        self.columns = columns
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_clone__(self) -> SUWRExplainer:
        # A clone of the model would not be fitted.
        parameters = self.get_params(deep=False)
        model = parameters.pop("model")
        return type(self)(model, **{k: clone(v, safe=False) for k, v in parameters.items()})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def fit(self, X_background: Any, y: Any = None) -> SUWRExplainer:
        """Query the model and train the policy.

        Parameters
        ----------
        X_background : array or data frame of shape (n, d), or texts
            Rows of the kind that will be explained, such as the training rows of the model. No
            labels are needed.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        name = type(self).__name__
        check_parameters(name, self._parameter_constraints, self.get_params(deep=False))
        check_unit_costs(self.costs, name)
        outputs = ModelOutputs(self.model, self.output, self.classes, name)
        groups = self.groups
        source = TextRows(groups) if isinstance(groups, TextUnits) else TableRows(groups)
        rows = source.read(X_background, min_rows=2)
        rng = check_random_state(self.random_state)
        caution, cost = examine_model(outputs, rows, (self.queries_per_row - 1) * len(rows))
        if caution is not None:
            warnings.warn(caution, StochasticModelWarning, stacklevel=2)
        left = max(0, self.queries_per_row * len(rows) - len(rows) - outputs.n_queries)
        n_drawn = min(left, max(0, MAX_ROWS - len(rows)))
        n, size = len(rows) + n_drawn, int(self.query_size)
        self._announce(cost, n)
        with progress_bars(["queries"], verbose=self.verbose, total=n, unit="row") as (bar,):
            found = outputs(rows, size, bar)
            source.fit(rows, found)
            if n_drawn:
                drawn = source.draw(rows, n_drawn, rng)
                found = np.concatenate([found, outputs(drawn, size, bar)])
                rows = source.concatenate(rows, drawn)
        features = source.features(rows)
        given = self.sparsity_weight
        weight = default_weight(found) if given == "auto" else given
        estimator = self._make_estimator(outputs, weight, source.groups, rng)
        if isinstance(estimator, SUWRClassifier):
            estimator.fit(features, found, classes=outputs.classes)
        else:
            estimator.fit(features, found)
        fitted = {
            "estimator_": estimator,
            "queries_": rows,
            "outputs_": found,
            "n_queries_": outputs.n_queries,
            "n_calls_": outputs.n_calls,
            "cautions_": [] if caution is None else [caution],
            "n_features_in_": estimator.n_features_in_,
            "_source": source,
        }
        if hasattr(estimator, "feature_names_in_"):
            fitted["feature_names_in_"] = estimator.feature_names_in_
        # A single assignment, which an interrupt cannot divide; see `consistent`.
        self.__dict__ = {k: v for k, v in vars(self).items() if not k.endswith("_")} | fitted
        return self

    def _announce(self, cost: QueryCost, n: int) -> None:
        """State what the queries will cost."""
        message = cost.statement(n, int(self.query_size))
        if self.verbose:
            print(f"{message}.", file=sys.stderr, flush=True)
        elif cost.seconds(n, int(self.query_size)) >= LONG_DURATION:
            hint = "Reduce 'queries_per_row' or 'X_background' to shorten it"
            warnings.warn(f"{message}. {hint}.", UserWarning, stacklevel=3)

    def _make_estimator(
        self,
        outputs: ModelOutputs,
        weight: Any,
        groups: Any,
        rng: np.random.RandomState,
    ) -> SUWRClassifier | SUWRRegressor:
        kind = SUWRRegressor if outputs.kind == "value" else SUWRClassifier
        return kind(
            sparsity_weight=weight,
            max_steps=self.max_steps,
            groups=groups,
            costs=self.costs,
            teacher="targets",
            max_epochs=self.max_epochs,
            training=self.training,
            columns=self.columns,
            device=self.device,
            random_state=int(rng.randint(np.iinfo(np.int32).max)),
            verbose=self.verbose,
        )

    @consistent
    def model_output(self, X: Any) -> NDArray[np.float64]:
        """Query the model on whole rows.

        Parameters
        ----------
        X : array or data frame of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_classes) or (n,)
            Probabilities, or values. The number of outputs must be that of `fit`.
        """
        check_is_fitted(self, "estimator_")
        outputs = ModelOutputs(self.model, self.output, self.classes, type(self).__name__)
        outputs.expect(self.estimator_.target_.n_outputs)
        return outputs(self._source.read(X), int(self.query_size))

    @consistent
    def explain(
        self,
        X: Any,
        *,
        policy: PolicyKind = "greedy",
        random_state: Any = None,
        query: bool = True,
    ) -> Explanation:
        """Return the narrative of each row; each ends with the output of the model.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        policy, random_state
            As in `SUWRClassifier.select`.
        query : bool, default=True
            Whether to query the model on the rows. Without, nothing depends on unrevealed cells,
            and rows may be incomplete.

        Returns
        -------
        Explanation
        """
        check_is_fitted(self, "estimator_")
        features = self.features(X)
        explanation = self.estimator_.explain(features, policy=policy, random_state=random_state)
        explanation = self._source.narrate(explanation, X)
        if not query:
            return explanation
        found = self.model_output(X).reshape(len(explanation), -1)
        narratives = [
            ModelNarrative.of(narrative, tuple(output))
            for narrative, output in zip(explanation, found.tolist(), strict=True)
        ]
        return Explanation(narratives, explanation.source)

    @consistent
    def fidelity(
        self,
        X: Any,
        *,
        compare: Sequence[str] | Mapping[str, Attribution] = (),
        max_features: int | None = None,
        evaluator: Any = None,
    ) -> Fidelity:
        """Compare the outputs of the model with what the revealed features tell about them.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Held-out rows.
        compare : sequence of {'TreeSHAP', 'KernelSHAP', 'LIME'}, or mapping, default=()
            Attributions whose top-k features are evaluated beside: names, or a mapping from name to
            a function from rows to scores of shape (n, d).
        max_features : int or None, default=None
            Largest k. None is ``max_steps``.
        evaluator : object with ``predict_masked(X, masks)``, or None, default=None
            Predicts outputs from the values of any features, without knowing how they were
            selected. None trains one on random masks of all sizes, on `queries_`, if there is
            something to compare.

        Returns
        -------
        Fidelity
        """
        check_is_fitted(self, "estimator_")
        return measure_fidelity(self, X, compare, max_features, evaluator)

    @consistent
    def evaluate(self, X: Any, y: Any = None, **options: Any) -> Evaluation:
        """Evaluate the predictions from the selected features; see `SUWRClassifier.evaluate`.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Held-out rows.
        y : array-like of shape (n,), optional
            What is compared with: by default, the classes or values that the model predicts.
        **options
            As in `SUWRClassifier.evaluate`.
        """
        if y is None:
            y = self.estimator_.target_.answers(self.model_output(X).reshape(len(X), -1))
        return self.estimator_.evaluate(self.features(X), y, **options)

    @consistent
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trained policy to one file; see `SUWRClassifier.save`.

        The file contains nothing of the model that is explained: it is passed to `load` again.
        """
        check_is_fitted(self, "estimator_")
        if isinstance(self._source, TextRows):
            raise UnsupportedModelError("An explainer of texts cannot be saved.")
        self.estimator_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Any, **parameters: Any) -> SUWRExplainer:
        """Read an explainer that `save` has written.

        Parameters
        ----------
        path : path
        model : object
            The model that is explained.
        **parameters
            Those parameters of the explainer that say how to query it: ``output``, ``classes`` and
            ``query_size``.
        """
        explainer = cls(model, **parameters)
        estimator = load(path)
        explainer.estimator_, explainer.cautions_ = estimator, []
        explainer._source = TableRows(estimator.groups)
        explainer.n_features_in_ = estimator.n_features_in_
        if hasattr(estimator, "feature_names_in_"):
            explainer.feature_names_in_ = estimator.feature_names_in_
            explainer._source.names = list(estimator.feature_names_in_)
        return explainer

    @consistent
    def features(self, X: Any) -> Any:
        """Return the table that the policy reads, whose columns `select` masks.

        Parameters
        ----------
        X : array or data frame of shape (n, d), or texts
            Rows of a table are returned as they are; texts become rows of units.
        """
        check_is_fitted(self, "estimator_")
        if isinstance(self._source, TextRows):
            return self._source.features(self._source.read(X))
        return X

    # Methods of the estimator.

    @property
    def text_units_(self) -> TextUnits:
        """The fitted units of texts, for `TextUnits.highlight` and `TextUnits.to_html`."""
        check_is_fitted(self, "estimator_")
        if not isinstance(self._source, TextRows):
            raise AttributeError("The rows of this explainer are not texts.")
        return self._source.units

    @property
    def units_(self) -> Units:
        """The units that a step can reveal, with their costs."""
        return self.estimator_.units_

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One record per epoch; see `SUWRClassifier`."""
        return self.estimator_.history_

    @consistent
    def select(
        self, X: Any, *, policy: PolicyKind = "greedy", random_state: Any = None
    ) -> NDArray[np.bool_]:
        """Select the columns of each row; the model is not queried. See `SUWRClassifier.select`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.select(self.features(X), policy=policy, random_state=random_state)

    @consistent
    def mask_probability(
        self, X: Any, masks: ArrayLike, *, policy: PolicyKind = "greedy"
    ) -> NDArray[np.float64]:
        """Return ζ(h | x). See `SUWRClassifier.mask_probability`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.mask_probability(self.features(X), masks, policy=policy)

    @consistent
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the model's class or value from the selected features alone."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(self.features(X))

    @consistent
    def predict_masked(self, X: Any, masks: ArrayLike) -> NDArray[np.float64]:
        """Predict the model's output from given features. See `SUWRClassifier.predict_masked`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_masked(self.features(X), masks)

    @consistent
    def cost(self, X: Any) -> NDArray[np.float64]:
        """Return ‖h‖ of each row. See `SUWRClassifier.cost`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.cost(self.features(X))

    @consistent
    def acquire(self) -> Acquisition:
        """Request the features of a new row one at a time. See `SUWRClassifier.acquire`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.acquire()
