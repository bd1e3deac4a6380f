"""`SUWRClassifier`: instance-wise feature selection for classification."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score

from suwr._utils.validation import Interval, Options, parameter, parameter_error
from suwr.estimators.base import SUWRModel
from suwr.estimators.limits import RowLimits
from suwr.estimators.table import TableClassifier, consistent
from suwr.estimators.targets import ClassProbabilities, ClassTarget


@dataclass(kw_only=True, eq=False, repr=False)
class SUWRClassifier(TableClassifier, SUWRModel):
    """Leakage-free, instance-wise feature selection for classification.

    Each row starts with all features masked. At each step the model stops or reveals one more unit;
    both decisions read only what is already revealed, and nothing revealed is masked again
    (sequential unmasking without reversion). The prediction is computed from the revealed features
    only, and the selection itself carries no information about the unrevealed ones.

    Parameters
    ----------
    sparsity_weight : float, 'auto' or tuple of two floats, default='auto'
        λ, the price of one unit of cost, in nats of cross-entropy. 'auto' is 1 % of the
        cross-entropy of the best constant prediction. A range ``(low, high)`` trains one model for
        all λ in it; `predict` and the other methods then take ``sparsity_weight`` or
        ``mean_features``.
    max_steps : int or None, default=None
        *T*, the maximum number of steps per row. None is enough steps for every unit, but at
        most 32.
    groups : None, Patches, mapping or list of lists, default=None
        Columns that are revealed together: ``{"panel": ["a", "b"]}``, or image `Patches`. Every
        column that is in no group is a unit of its own.
    costs : None, mapping, array-like, callable or Costs, default=None
        Cost of each unit in the penalty λ · cost; 1 unless given. `suwr.Costs` also describes costs
        that several units share, costs of steps, and steps that reveal several units. `fit` takes
        costs of each row instead.
    max_cost : tuple of two floats, or None, default=None
        A range ``(low, high)`` of budgets to train for. The budget of a row, ``max_cost`` or
        ``exactly`` of `predict` and the other methods, is then an input of the policy; it is
        ``high`` unless given. Not with a range of ``sparsity_weight`` or other trainers.
    known_at_start : None, list of str, mapping of str to float or bool array, default=None
        Columns that every row knows at the start, at no cost; the probability that each is known,
        independently of the others; or masks (n_masks, d), one of which is drawn for each row. The
        policy is trained to start from there. Columns that are always known need not be named in
        ``known`` when the model is used on tables.
    missing : {'value', 'unrecorded'}, default='value'
        'value': missing is a value that a feature can have. 'unrecorded': the cell was not
        recorded, but could be acquired. Training does not reveal it in that row, and the policy may
        ask for it; a cell that turns out to be missing then reveals nothing.
    max_epochs : int or 'auto', default='auto'
        Epochs of policy training; the predictors are pretrained for at most as many epochs, and
        fine-tuned for half as many. 'auto' is 50 from 5,000 training rows on and 100 below, doubled
        after pretraining if the loss still decreases; half as many again for a range of λ, budgets.
    teacher : None, 'auto', 'targets' or estimator, default='auto'
        Where the targets of training come from. None are the labels. An estimator, such as a
        pipeline or a gradient boosting model, is cross-fitted on the training rows; after
        pretraining on the labels, the networks learn its predictions, which have less noise than
        labels, for these rows and for rows that recombine them. 'auto' does so with a stack of
        scikit-learn models, mixed with what the predictors have learned from the labels, by their
        out-of-fold losses: for 30 to 4,999 training rows of up to 64 columns, at least 20 epochs,
        ``trainer='actor'``, a fixed λ, and losses that are linear in the target; otherwise it is
        None. 'targets' states that ``y`` are outputs of another model, which have no label noise.
        ``choices_`` says what was found. Fitted models contain nothing of their teacher.
    trainer : {'auto', 'actor', 'lookahead', 'reinforce'}, default='auto'
        'actor' samples whole rollouts (actor-critic); 'lookahead' differentiates through one
        relaxed step and suits images and hundreds of units; 'auto' is 'actor' up to 128 relevant
        columns or groups, or 32 patches, and 'lookahead' beyond. With fewer than 5,000 training
        rows, 'auto' and 'actor' use the 128 most relevant. 'reinforce' is that of the paper.
    predictor : object or None, default=None
        A predictor of your own, which is used as *f* and stays as it is; only the policy is
        trained. It has a method ``predict_masked(X, masks)`` that returns class probabilities
        (n, n_classes) in the order of ``classes_`` (or of its own ``classes_``), or values (n,).
        ``X`` are rows in which hidden cells are missing, as a frame if `fit` was given one. Model
        files do not contain it: pass it to `suwr.load` again. None trains an ensemble.
    training : TrainingConfig, dict or None, default=None
        Networks and optimisation: a `suwr.TrainingConfig`, or a dict of some of its fields, as in
        ``{"hidden_size": 64, "rollouts": 4}``. None is the default of every setting.
    columns : mapping or None, default=None
        Display names, units of measurement and category labels for narratives, plots, pages and
        questions: ``{"bmi": {"label": "Body mass index", "unit": "kg/m²"}}``, with a `suwr.Column`
        or its parameters for some of the columns. Decisions do not depend on it; it may also be
        set after `fit`, with ``set_params``, and is stored in model files.
    device : str, default='auto'
        A torch device; 'auto' is CUDA if available.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights, the splits and the sampling.
    class_weight : None, 'balanced' or dict, default=None
        Weights of the classes, which multiply the weights of their rows in training and validation.
        'balanced' gives all classes the same total weight; a dict maps class labels to positive
        weights, 1 for those that it omits. `predict_proba` then estimates the class probabilities
        of the weighted rows. Dividing its columns by the weights, and each row by its sum, gives
        those of the unweighted rows.
    verbose : int or None, default=None
        0 is silent, 1 shows a progress bar, 2 prints one line per epoch. None shows a progress bar
        in a terminal and in a notebook, and is silent otherwise and in parallel workers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    n_features_in_ : int
        Number of columns of ``X``.
    feature_names_in_ : ndarray of str
        Column names of ``X``, if it had any.
    units_ : Units
        The units that a step can reveal, with their costs.
    selectable_units_ : ndarray of bool, shape (n_units,)
        Units that can be revealed. Of more than 16 units, those without a significant effect or
        pairwise interaction on the training rows are left out before training.
    max_steps_ : int
        The *T* that was used.
    choices_ : dict
        What `fit` chose by itself, such as the trainer, with the reason.
    validation_ : dict
        The objective (loss + λ · cost) on the held-out rows, beside those of the best constant and
        of a fixed subset of about the same cost; see `suwr.exceptions.UninformativeModelWarning`.
    report_ : Evaluation
        Evaluation on the held-out rows, which chose the best epoch; see `evaluate`.
    feature_importances_ : ndarray of shape (d,)
        Share of each column in the changes of the predictions of the held-out rows, step by step;
        the columns of a group share its changes. Columns that no row reveals have 0.
    dates_ : DateParts or None
        Makes the columns of the model from those of a file that ``suwr fit --dates`` has read.
    class_prior_ : ndarray of shape (n_classes,)
        Frequencies of the classes in the training rows, by weight.
    sparsity_weight_ : float
        The λ that was used; the geometric mean of a range.
    weight_range_ : WeightRange or None
        The range of λ, if the model has one, with the mean number of units that each λ reveals.
    constant_loss_ : float
        Cross-entropy of the best constant prediction; with soft targets, the entropy of their mean.
    certificate_ : Certificate
        The guarantee, of estimators that `certify` returned.
    conformal_ : Conformal
        The calibration of `predict_set`, of estimators that `conformalize` returned.
    history_ : list of dict
        One record per epoch: ``epoch`` (counted from 1 over all phases), ``phase``,
        ``training_loss``, ``validation_objective`` (loss + λ · cost on the validation rows, in
        units of ``constant_loss_``) and ``mean_cost`` (mean cost per validation row). Values that a
        phase does not measure are None. Saved in model files.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> clf.select(X).shape
    (150, 4)
    """

    class_weight: Literal["balanced"] | Mapping[Any, float] | None = parameter(
        None, None, Options("balanced"), Mapping
    )

    def _check_parameters(self) -> None:
        """See `TableModel`."""
        super()._check_parameters()
        positive, owner = Interval(Real, 0, None, closed="neither"), type(self).__name__
        for item in self.class_weight.items() if isinstance(self.class_weight, Mapping) else ():
            if item[1] not in positive:
                expected = "a dict of positive weights"
                raise parameter_error("class_weight", owner, expected, dict([item]))

    def _fit_target(
        self, y: Any, weight: NDArray[np.float64]
    ) -> tuple[ClassTarget, NDArray[Any], NDArray[np.float64]]:
        return ClassTarget.fit(y, weight, type(self).__name__, self.class_weight)

    def _restore_target(self, state: Mapping[str, Any]) -> None:
        self.target_ = ClassTarget.from_dict(state)

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        costs: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Train the policy and the predictor.

        If ``torch.distributed`` is initialized (for instance by ``torchrun``), its processes train
        one model together: all of them must call `fit` with the same data, parameters and
        ``random_state``, and all of them get the same model.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            A numeric array, or a pandas or polars frame with numeric, string, categorical or
            boolean columns. NaN means 'missing', which is treated as a value.
        y : array-like of shape (n,) or (n, n_classes)
            Class labels; or soft targets: the probability of every class, in rows that sum to 1,
            such as the output of another model.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows.
        classes : array-like of shape (n_classes,), optional
            Labels of the columns of soft targets. By default the column names of a data frame, or
            0, 1, …
        costs : array-like of shape (n, n_units) or data frame, optional
            Costs of the units of each row, as in `select`; requires that the parameter ``costs``
            has none. Rows whose costs are not given are charged the means later.
        checkpoint : path, optional
            File that holds the state of the fit after every epoch. A fit that was interrupted
            resumes from it when it is called again with the same data and parameters, with the same
            result; the file is deleted at the end. Requires ``random_state`` to be an int.

        Returns
        -------
        self
            If `fit` raises an exception or is interrupted, the estimator remains as it was.
        """
        if classes is not None:
            y = ClassProbabilities.read(y, classes, type(self).__name__)
        return super().fit(X, y, sample_weight, costs=costs, checkpoint=checkpoint)

    @consistent
    def predict_proba(self, X: Any, **limits: Unpack[RowLimits]) -> NDArray[np.float64]:
        """Predict class probabilities from the selected features; see also ``class_weight``.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        **limits
            As in `select`: ``sparsity_weight``, ``mean_features``, ``known``, ``available``,
            ``max_cost``, ``exactly`` and ``costs``.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        final = self._predict_final(X, **limits)
        return self.target_.normalized(final)

    @consistent
    def predict_log_proba(self, X: Any, **limits: Unpack[RowLimits]) -> NDArray[np.float64]:
        """Return the logarithms of the class probabilities; see `predict_proba`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        **limits
            As in `select`: ``sparsity_weight``, ``mean_features``, ``known``, ``available``,
            ``max_cost``, ``exactly`` and ``costs``.

        Returns
        -------
        ndarray of shape (n, n_classes)
        """
        probability = self.predict_proba(X, **limits)
        # Single precision may round a probability to zero.
        return np.log(np.maximum(probability, np.finfo(np.float64).tiny))

    @consistent
    def predict(self, X: Any, **limits: Unpack[RowLimits]) -> NDArray[Any]:
        """Predict the most probable class of each row from the selected features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        **limits
            As in `select`: ``sparsity_weight``, ``mean_features``, ``known``, ``available``,
            ``max_cost``, ``exactly`` and ``costs``.

        Returns
        -------
        ndarray of shape (n,)
        """
        final = self._predict_final(X, **limits)
        return self.target_.answers(final)

    @consistent
    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        **limits: Unpack[RowLimits],
    ) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        **limits
            As in `select`: ``sparsity_weight``, ``mean_features``, ``known``, ``available``,
            ``max_cost``, ``exactly`` and ``costs``.

        Returns
        -------
        float
        """
        predicted = self.predict(X, **limits)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))
