"""`SUWRExplainer`: leakage-free explanations of a model that is already there."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from suwr._utils.progress import progress_bars
from suwr._utils.validation import Interval, Options, check_parameters
from suwr.data.tables import as_rows, column_names, is_frame, select_columns, take_rows
from suwr.data.units import Patches, Units
from suwr.estimators.acquisition import Acquisition
from suwr.estimators.classifier import SUWRClassifier
from suwr.estimators.regressor import SUWRRegressor
from suwr.estimators.sequential import PolicyKind
from suwr.exceptions import StochasticModelWarning, TableError
from suwr.explainer.fidelity import Attribution, Fidelity, measure_fidelity
from suwr.explainer.outputs import OUTPUTS, ModelOutputs, QueryCost
from suwr.explainer.sampling import concatenate_rows, draw_rows
from suwr.explanation import Explanation
from suwr.model_narrative import ModelNarrative
from suwr.training.config import TrainingConfig

__all__ = ["SUWRExplainer"]

# Rows that are queried twice, to time the model and to compare its outputs.
N_REPEATED = 50
# Relative difference of repeated outputs above which a model counts as stochastic.
REPEAT_TOLERANCE = 1e-6
# Expected duration in seconds from which `fit` warns even if it is silent.
LONG_DURATION = 60.0
# Rows from which drawing more has not helped; see benchmarks/explainer.
MAX_ROWS = 40_000
# Epochs of the policy phase: outputs are free of label noise, and there are many rows.
DEFAULT_EPOCHS = 40


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
        of ``X_background``. A torch module is queried in evaluation mode.
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
        further ones if this is 1). See `suwr.explainer.sampling`.
    query_size : int, default=1024
        Rows per call of the model.
    sparsity_weight : float, 'auto' or tuple of two floats, default='auto'
        λ, as in `SUWRClassifier`. 'auto' is 1 % of the loss of the best constant prediction.
    max_steps, groups, costs, hidden_size, device
        As in `SUWRClassifier`.
    max_epochs : int or 'auto', default='auto'
        Epochs of the policy phase; 'auto' is 40.
    training : TrainingConfig, dict or None, default=None
        As in `SUWRClassifier`. The default of ``label_weight`` is 1, because outputs are free of
        label noise.
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
    The model says 0 98 %; from these features alone: 0 ...
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
        groups: Patches | Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | None = None,
        costs: Mapping[str, float] | ArrayLike | None = None,
        hidden_size: int = 128,
        max_epochs: int | Literal["auto"] = "auto",
        training: TrainingConfig | Mapping[str, Any] | None = None,
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
        self.hidden_size = hidden_size
        self.max_epochs = max_epochs
        self.training = training
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X_background: Any, y: Any = None) -> SUWRExplainer:
        """Query the model and train the policy.

        Parameters
        ----------
        X_background : array or data frame of shape (n, d)
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
        outputs = ModelOutputs(self.model, self.output, self.classes, name)
        rows = as_rows(X_background)
        if len(rows) < 2:
            raise TableError(f"'X_background' must have at least 2 rows. Got {len(rows)} instead.")
        rng = check_random_state(self.random_state)
        cautions = []
        caution, cost = self._examine(outputs, rows)
        if caution is not None:
            cautions.append(caution)
            warnings.warn(caution, StochasticModelWarning, stacklevel=2)
        left = max(0, self.queries_per_row * len(rows) - len(rows) - outputs.n_queries)
        drawn = draw_rows(rows, min(left, max(0, MAX_ROWS - len(rows))), rng)
        rows = concatenate_rows(rows, drawn)
        found = self._query(outputs, rows, cost)
        estimator = self._make_estimator(outputs, rng)
        if isinstance(estimator, SUWRClassifier):
            estimator.fit(rows, found, classes=outputs.classes)
        else:
            estimator.fit(rows, found)
        self.estimator_, self.queries_, self.outputs_ = estimator, rows, found
        self.n_queries_, self.n_calls_ = outputs.n_queries, outputs.n_calls
        self.cautions_ = cautions
        self.n_features_in_ = estimator.n_features_in_
        if hasattr(estimator, "feature_names_in_"):
            self.feature_names_in_ = estimator.feature_names_in_
        return self

    def _examine(self, outputs: ModelOutputs, rows: Any) -> tuple[str | None, QueryCost]:
        """Query some rows twice: is the model deterministic, and how long does it take?"""
        spare = ((self.queries_per_row - 1) * len(rows) - 1) // 2
        sample = take_rows(rows, np.arange(max(1, min(N_REPEATED, spare))) % len(rows))
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

    def _query(self, outputs: ModelOutputs, rows: Any, cost: QueryCost) -> NDArray[np.float64]:
        """Query all rows, after a statement of what it will cost."""
        n, size = len(rows), int(self.query_size)
        seconds = cost.seconds(n, size)
        message = (
            f"Querying the model on {n:,} rows in {-(-n // size):,} calls takes about "
            f"{_duration(seconds)}"
        )
        if self.verbose:
            print(f"{message}.", file=sys.stderr, flush=True)
        elif seconds >= LONG_DURATION:
            hint = "Reduce 'queries_per_row' or 'X_background' to shorten it"
            warnings.warn(f"{message}. {hint}.", UserWarning, stacklevel=3)
        with progress_bars(["queries"], verbose=self.verbose, total=n, unit="row") as (bar,):
            return outputs(rows, size, bar)

    def _make_estimator(
        self, outputs: ModelOutputs, rng: np.random.RandomState
    ) -> SUWRClassifier | SUWRRegressor:
        training = self.training
        if not isinstance(training, TrainingConfig):
            training = {"label_weight": 1.0, **(training or {})}
        kind = SUWRRegressor if outputs.kind == "value" else SUWRClassifier
        return kind(
            sparsity_weight=self.sparsity_weight,
            max_steps=self.max_steps,
            groups=self.groups,
            costs=self.costs,
            hidden_size=self.hidden_size,
            max_epochs=DEFAULT_EPOCHS if self.max_epochs == "auto" else self.max_epochs,
            training=training,
            device=self.device,
            random_state=int(rng.randint(np.iinfo(np.int32).max)),
            verbose=self.verbose,
        )

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
        outputs.expect(self.estimator_._n_outputs())
        rows = as_rows(X)
        names = column_names(self.queries_)
        if is_frame(rows) and names is not None and set(column_names(rows) or ()) == set(names):
            rows = select_columns(rows, names)
        return outputs(rows, int(self.query_size))

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
        explanation = self.estimator_.explain(X, policy=policy, random_state=random_state)
        if not query:
            return explanation
        found = self.model_output(X).reshape(len(explanation), -1)
        narratives = [
            ModelNarrative.of(narrative, tuple(output))
            for narrative, output in zip(explanation, found.tolist(), strict=True)
        ]
        return Explanation(narratives, explanation.source)

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

    # Methods of the estimator.

    @property
    def units_(self) -> Units:
        """The units that a step can reveal, with their costs."""
        return self.estimator_.units_

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One record per epoch; see `SUWRClassifier`."""
        return self.estimator_.history_

    def select(
        self, X: Any, *, policy: PolicyKind = "greedy", random_state: Any = None
    ) -> NDArray[np.bool_]:
        """Select the columns of each row; the model is not queried. See `SUWRClassifier.select`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.select(X, policy=policy, random_state=random_state)

    def mask_probability(
        self, X: Any, masks: ArrayLike, *, policy: PolicyKind = "greedy"
    ) -> NDArray[np.float64]:
        """Return ζ(h | x). See `SUWRClassifier.mask_probability`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.mask_probability(X, masks, policy=policy)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the model's class or value from the selected features alone."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(X)

    def predict_masked(self, X: Any, masks: ArrayLike) -> NDArray[np.float64]:
        """Predict the model's output from given features. See `SUWRClassifier.predict_masked`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_masked(X, masks)

    def cost(self, X: Any) -> NDArray[np.float64]:
        """Return ‖h‖ of each row. See `SUWRClassifier.cost`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.cost(X)

    def acquire(self) -> Acquisition:
        """Request the features of a new row one at a time. See `SUWRClassifier.acquire`."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.acquire()


def _duration(seconds: float) -> str:
    """Format an expected duration."""
    if seconds < 1:
        return "less than a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
