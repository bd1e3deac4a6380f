"""A teacher: predictions from all features, of training rows and of rows that recombine them.

On few rows, rewards that come from single labels are mostly noise. A teacher predicts the expected
target of a row from all of its features, so that the gain of a step can be told from fewer rows;
and it can be asked about rows that have no label. It takes part in training only: a fitted model
contains nothing of it.

The teacher is cross-fitted. Its loss on rows that it was not fitted to says whether it knows more
than the masked predictors that are trained on the labels, or than a constant; see `Lesson.folds`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from torch import Tensor

from suwr.data.frame import take_rows
from suwr.exceptions import ModelOutputError
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss, ValueLoss
from suwr.nn.networks import SeparateNetwork
from suwr.training.data import Folds, Rows

__all__ = [
    "MIN_POSITIVE", "Lesson", "TeacherRows", "column_units", "fit_teacher", "nearest_rows",
    "recombine", "stack_members",
]  # fmt: skip

FloatArray = NDArray[np.float64]

# Folds of the cross-fitted teacher, whose prediction for a new row is the mean over the folds.
N_FOLDS = 5
# Steps of the greedy selection of the members' weights.
SELECTION_STEPS = 25
# Trees of a boosting model, of all classes together, and of a forest.
BOOSTED_TREES, FOREST_TREES = 600, 100
# Predictions for a loss with a log link are raised to it, in units of the mean.
MIN_POSITIVE = 1e-3
# Landmarks of the kernel machine.
LANDMARKS = 300
# Rows up to which forests are worth their time.
MAX_FOREST_ROWS = 5_000
# Shares of the teacher in the mean with the masked predictors that are compared.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Share of the label in the target of a row that has one.
LABEL_SHARE = 0.5
# Rows of each fold that are predicted at a time.
BLOCK = 4096
# Neighbours among which the second row of a recombination is drawn, and probability that a unit is
# taken from it.
N_NEIGHBOURS, EXCHANGE = 10, 0.5
# Rows among which neighbours are searched, which bounds the time of the search.
MAX_CANDIDATES = 20_000


def recombine(
    values: NDArray[np.floating[Any]],
    unit_of: NDArray[np.intp],
    n: int,
    rng: np.random.RandomState,
) -> NDArray[np.intp]:
    """Draw rows that recombine the units of a row and of one of its nearest neighbours.

    About half of the units are taken from the neighbour. Every cell is therefore a value of its
    column, the columns of a unit stay together, and other dependences are kept approximately.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_values)
        Encoded rows, by whose Euclidean distance neighbours are near.
    unit_of : ndarray of int, shape (n_columns,)
        The unit of each column.
    n : int
        Rows to draw, which recombine the rows in order, again and again.
    rng : RandomState

    Returns
    -------
    ndarray of int, shape (n, n_columns)
        The row from which each cell is taken.

    Examples
    --------
    >>> rows = recombine(np.array([[0.0], [1.0]]), np.array([0, 0, 1]), 4, np.random.RandomState(0))
    >>> rows.shape, bool((rows[:, 0] == rows[:, 1]).all())
    ((4, 3), True)
    """
    near, n_rows = nearest_rows(values, rng), len(values)
    base = np.arange(n) % n_rows
    other = near[base, rng.randint(near.shape[1], size=n)]
    exchanged = rng.random_sample((n, int(unit_of.max(initial=-1)) + 1)) < EXCHANGE
    return np.where(exchanged[:, unit_of], other[:, None], base[:, None])


def nearest_rows(values: NDArray[np.floating[Any]], rng: np.random.RandomState) -> NDArray[np.intp]:
    """Find the nearest neighbours of every row, ``(n_rows, at most 10)``, by Euclidean distance.

    ``rng`` chooses the rows that are searched, if there are many.
    """
    n_rows = len(values)
    candidates = np.arange(n_rows)
    if n_rows > MAX_CANDIDATES:
        candidates = rng.choice(n_rows, MAX_CANDIDATES, replace=False)
    n_found = min(N_NEIGHBOURS + 1, len(candidates))
    search = NearestNeighbors(n_neighbors=n_found).fit(values[candidates])
    found = candidates[search.kneighbors(values, return_distance=False)]
    # A row is usually its own nearest neighbour.
    return found[:, 1:] if n_found > 1 else found


def column_units(membership: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The first unit of each column; columns of no unit have numbers of their own."""
    n_units, n_columns = membership.shape
    return np.where(
        membership.any(axis=0), membership.argmax(axis=0), n_units + np.arange(n_columns)
    )


def stack_members(n_classes: int | None, n_rows: int, n_values: int, seed: int) -> dict[str, Any]:
    """The models of the stack by name; ``n_classes`` is None for regression."""
    gamma, forests = 0.5 / n_values, n_rows <= MAX_FOREST_ROWS
    boosting: dict[str, Any] = {
        "learning_rate": 0.07, "max_leaf_nodes": 12, "min_samples_leaf": 8, "random_state": seed,
        "early_stopping": False,
    }  # fmt: skip
    forest = {"n_estimators": FOREST_TREES, "min_samples_leaf": 2, "random_state": seed}
    kernel = Nystroem(gamma=gamma, n_components=min(LANDMARKS, n_rows // 2), random_state=seed)
    if n_classes is None:
        alphas = np.logspace(-3, 3, 13)
        members = {
            "ridge": RidgeCV(alphas=alphas),
            "boosting": HistGradientBoostingRegressor(max_iter=120, **boosting),
            "kernel": make_pipeline(kernel, RidgeCV(alphas=alphas)),
        }
        return members | ({"forest": ExtraTreesRegressor(**forest)} if forests else {})
    iterations = max(20, min(100, BOOSTED_TREES // n_classes))
    members = {
        "logistic": LogisticRegression(C=0.3, max_iter=300),
        "boosting": HistGradientBoostingClassifier(max_iter=iterations, **boosting),
        "kernel": make_pipeline(kernel, LogisticRegression(C=3.0, max_iter=300)),
    }
    return members | ({"forest": ExtraTreesClassifier(**forest)} if forests else {})


class TeacherRows(NamedTuple):
    """What a teacher of the user is fitted to.

    Attributes
    ----------
    own, drawn : data frame or array
        Training rows and recombined rows, in the container that was passed to ``fit``.
    targets : ndarray of shape (n,)
        Labels or values of the training rows, as the user knows them.
    to_targets : callable
        From predictions of a fitted teacher, and its ``classes_``, to targets ``(n, n_outputs)``.
    """

    own: Any
    drawn: Any
    targets: NDArray[Any]
    to_targets: Callable[[Any, Any], FloatArray]


@dataclass
class Lesson:
    """What a teacher knows of the training rows, and of rows that recombine them.

    Attributes
    ----------
    rows : Rows
        The training rows, then recombinations of each, in the order of the rows, with the
        predictions of the teacher as targets.
    validation : Rows
        Further recombinations, which choose the best epoch: there are more of them than held-out
        rows, and their targets have no label noise.
    labels : Tensor of shape (n, n_outputs)
        The targets of the training rows.
    held_out : Tensor of shape (n, n_outputs)
        Predictions of the training rows by models that were not fitted to them.
    weights : dict of str to float
        Weight of each member of the teacher.
    fixed : bool, default=False
        Whether the teacher is not mixed with predictors of the labels.
    """

    rows: Rows
    validation: Rows
    labels: Tensor
    held_out: Tensor
    weights: dict[str, float]
    fixed: bool = False
    _folds: Folds | None = None
    _recalled: tuple[Tensor, Tensor] | None = None

    @property
    def sentence(self) -> str:
        """What the teacher is, and how well it predicts, once it has been compared."""
        named = ", ".join(f"{w:.0%} {name}" for name, w in self.weights.items())
        if self._folds is None or self._folds.report is None:
            return named
        share, teacher, masked = self._folds.report[:3].tolist()
        compared = f"out-of-fold loss {teacher:.3g}, masked predictors {masked:.3g}"
        if share == 0.0:
            return f"masked predictors, rather than a teacher ({named}): {compared}"
        mixed = "" if share == 1.0 else f", for {share:.0%} of the targets besides the predictors"
        return f"{named}{mixed}: {compared}"

    def folds(
        self, network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds
    ) -> Folds:
        """The rows of the lesson, in the folds of the training rows.

        ``network`` is pretrained on the labels. The first call compares its predictions from all
        features, for rows that it was not trained on, with those of the teacher, and chooses the
        mean of the two that is best.
        """
        if self._folds is None:
            found = self._recalled or self._mixed(network, inputs, loss, folds)
            self._folds = folds.extended(replace(self.rows, targets=found[0]), found[1])
        return self._folds

    def recall(self, state: Mapping[str, Tensor]) -> None:
        """Take what `folds` has found from the checkpoint of a phase that follows it."""
        targets, report = state.get("rows/targets"), state.get("rows/report")
        if targets is not None and report is not None:
            # Other shapes are refused together with the rest of the state.
            self._recalled = targets.to(self.rows.device), report.to(self.rows.device)

    @property
    def pretrained(self) -> tuple[bool, float]:
        """Whether the loss had settled on the labels, and with which weight decay."""
        assert self._folds is not None
        assert self._folds.report is not None
        settled, weight_decay = self._folds.report[3:].tolist()
        return bool(settled), weight_decay

    @torch.no_grad()
    def _mixed(
        self, network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds
    ) -> tuple[Tensor, Tensor]:
        """The mean of teacher, masked predictors and labels, as targets of the rows.

        Also returns the share of the teacher, the losses of teacher and masked predictors, and
        `pretrained`.
        """
        network.eval()
        own = torch.empty_like(self.labels)
        for start in range(0, folds.size, BLOCK):
            index = folds.indices[:, start : start + BLOCK]
            seen = inputs.reveal_all(folds.rows[index].values)
            own[index] = network.cross_fitted(seen, loss)
        covered = folds.indices.flatten()
        labels, weight = self.labels[covered], folds.rows.weight[covered]

        def score(share: float) -> float:
            mean = own[covered].lerp(self.held_out[covered], share)
            return float((loss.of_prediction(mean, labels) * weight).mean())

        scores = {share: score(share) for share in SHARES}
        share = 1.0 if self.fixed else min(scores, key=lambda share: scores[share])
        targets = self.rows.targets
        if share < 1.0:
            parts = [
                loss.predict(network.predict(inputs.reveal_all(block.values))).mean(dim=0)
                for _, block in self.rows.blocks()
            ]
            targets = torch.cat(parts).lerp(targets, share)
        n = len(self.labels)
        targets = torch.cat([targets[:n].lerp(self.labels, LABEL_SHARE), targets[n:]])
        predictor = network.predictor
        found = (share, scores[1.0], scores[0.0], predictor.settled, predictor.weight_decay[0])
        return targets, torch.tensor([float(number) for number in found], dtype=torch.float64)


def fit_teacher(
    rows: Rows,
    inputs: MaskedInputs,
    loss: Loss,
    n_copies: int,
    seed: int,
    given: tuple[Any, Callable[[NDArray[np.intp]], TeacherRows]] | None = None,
) -> Lesson:
    """Cross-fit a teacher to the training rows, and predict them and recombinations of them.

    Parameters
    ----------
    rows : Rows
    inputs : MaskedInputs
    loss : Loss
        Linear in its targets.
    n_copies : int
        Recombinations of each row.
    seed : int
    given : estimator and callable, optional
        A teacher of the user, and a function from the sources of `recombine` to its rows. By
        default, the teacher is a stack of `stack_members` on the encoded rows.
    """
    rng = np.random.RandomState(seed)
    values = rows.values.cpu().numpy()
    # Positions in bins follow from the other values.
    plain = slice(None) if inputs.pieces is None else ~inputs.pieces.cpu().numpy()
    known = np.nan_to_num(values[:, plain].astype(np.float64))
    n, targets = len(values), rows.targets.cpu().numpy()
    unit_of = column_units(inputs.membership.cpu().numpy())
    # One more recombination of each row is for validation.
    sources = recombine(known, unit_of, (n_copies + 1) * n, rng)
    of_value = sources[:, inputs.column_of.cpu().numpy()]
    drawn = np.take_along_axis(values, of_value, axis=0)
    weight = rows.weight.cpu().numpy()
    folds = _folds(targets, rng)
    if given is None:
        every = np.concatenate([known, np.nan_to_num(drawn[:, plain].astype(np.float64))])
        n_classes = targets.shape[1] if targets.shape[1] > 1 else None
        members = stack_members(n_classes, n, every.shape[1], seed)
        y = targets[:, 0].astype(np.float64) if n_classes is None else targets.argmax(axis=1)

        positive = isinstance(loss, ValueLoss) and loss.link == "log"
        lowest = MIN_POSITIVE if positive else -np.inf

        def to_targets(predicted: FloatArray, labels: Any) -> FloatArray:
            if n_classes is None:
                return np.maximum(predicted.reshape(-1, 1), lowest)
            full = np.zeros((len(predicted), n_classes))
            full[:, labels] = predicted
            return full

        asked = TeacherRows(every[:n], every[n:], y, to_targets)
    else:
        asked = given[1](sources)
        members = {type(given[0]).__name__: given[0]}
    found = {
        name: _cross_fit(member, asked, targets, weight, folds) for name, member in members.items()
    }
    if given is None:
        constant = np.average(targets, axis=0, weights=weight)
        found["constant"] = np.tile(constant, (n, 1)), np.tile(constant, (len(sources) + n, 1))
    device = rows.device

    def tensor(array: FloatArray) -> Tensor:
        return torch.as_tensor(np.asarray(array), dtype=torch.float32, device=device)

    def score(prediction: FloatArray) -> float:
        return float((loss.of_prediction(tensor(prediction), rows.targets) * rows.weight).mean())

    weights = _greedy_weights({name: own for name, (own, _) in found.items()}, score)
    repeat = n_copies + 2
    extended = Rows(
        torch.cat([rows.values, torch.as_tensor(drawn, device=rows.values.device)]),
        tensor(sum((w * found[name][1] for name, w in weights.items()), np.zeros(()))),
        rows.weight.repeat(repeat),
        None if rows.costs is None else rows.costs.repeat(repeat, 1),
    )
    parts = (extended[slice(0, -n)], extended[slice(-n, len(extended))])
    held_out = tensor(sum((w * found[name][0] for name, w in weights.items()), np.zeros(())))
    return Lesson(*parts, rows.targets, held_out, weights, fixed=given is not None)


def _folds(
    targets: NDArray[np.float32], rng: np.random.RandomState
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    n, seed = len(targets), int(rng.randint(2**31 - 1))
    n_folds = min(N_FOLDS, n)
    classes = targets.argmax(axis=1)
    if targets.shape[1] > 1 and np.bincount(classes).max() >= n_folds:
        with warnings.catch_warnings():
            # A class of fewer rows than folds is missing in some of them.
            warnings.simplefilter("ignore", UserWarning)
            splits = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
            return list(splits.split(classes, classes))
    return list(KFold(n_folds, shuffle=True, random_state=seed).split(classes))


def _cross_fit(
    member: Any,
    asked: TeacherRows,
    targets: NDArray[np.float32],
    weight: NDArray[np.float32],
    folds: Iterable[tuple[NDArray[np.intp], NDArray[np.intp]]],
) -> tuple[FloatArray, FloatArray]:
    """Out-of-fold predictions of the own rows, and mean predictions of all rows."""
    folds = list(folds)
    n, n_outputs = targets.shape
    held_out = np.zeros((n, n_outputs))
    total: FloatArray = np.zeros((n + len(asked.drawn), n_outputs))
    for fitted_to, left_out in folds:
        y, options = asked.targets[fitted_to], {}
        if np.ptp(weight) > 0:
            # Equal weights are left out, since some models take much longer with weights.
            step = f"{member.steps[-1][0]}__" if hasattr(member, "steps") else ""
            options[f"{step}sample_weight"] = weight[fitted_to]
        if len(np.unique(y)) == 1:
            constant = targets[fitted_to].mean(axis=0)
            own = np.tile(constant, (n, 1))
            drawn = np.tile(constant, (len(asked.drawn), 1))
        else:
            model = clone(member)
            model.fit(take_rows(asked.own, fitted_to), y, **options)
            if n_outputs > 1:
                ask, labels = model.predict_proba, model.classes_
            else:
                ask, labels = model.predict, None
            own, drawn = (asked.to_targets(ask(part), labels) for part in (asked.own, asked.drawn))
        if not (np.isfinite(own).all() and np.isfinite(drawn).all()):
            raise ModelOutputError(f"The predictions of {type(member).__name__} are not finite.")
        held_out[left_out] = own[left_out]
        total = total + np.concatenate([own, drawn]) / len(folds)
    return held_out, total


def _greedy_weights(
    predictions: Mapping[str, FloatArray], score: Callable[[FloatArray], float]
) -> dict[str, float]:
    """Weights of a mean of predictions, by greedy selection with replacement."""
    chosen: list[str] = []
    best: tuple[float, list[str]] = (np.inf, [])
    total: FloatArray = np.zeros(())
    for step in range(1, SELECTION_STEPS + 1):
        scores = {name: score((total + p) / step) for name, p in predictions.items()}
        name = min(scores, key=lambda name: scores[name])
        chosen.append(name)
        total = total + predictions[name]
        if scores[name] < best[0]:
            best = (scores[name], list(chosen))
    return {name: best[1].count(name) / len(best[1]) for name in dict.fromkeys(best[1])}
