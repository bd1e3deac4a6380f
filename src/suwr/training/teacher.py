"""A teacher: predictions from all features, on training rows and on rows that recombine them.

On few rows, rewards that come from single labels are mostly noise. A teacher predicts the expected
target of a row from all of its features, so that the gain of a step can be told from fewer rows;
and it can be asked about rows that have no label. It takes part in training only: a fitted model
contains nothing of it.

The teacher is cross-fitted. Its loss on rows that it was not fitted to says whether it knows more
than the masked predictors that are trained on the labels (see `Lesson.mix`), or than a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from torch import Tensor

from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import SeparateNetwork
from suwr.training.data import Folds, Rows

__all__ = ["Lesson", "fit_stack", "recombined", "stack_members"]

FloatArray = NDArray[np.float64]

# Folds of the cross-fitted teacher, whose prediction for a new row is the mean over the folds.
N_FOLDS = 5
# Steps of the greedy selection of the members' weights.
SELECTION_STEPS = 25
# Trees of a boosting model, of all classes together.
BOOSTED_TREES = 600
# Landmarks of the kernel machine.
LANDMARKS = 300
# Neighbours among which the second row of a recombination is drawn, and probability that a unit is
# taken from it.
N_NEIGHBOURS, EXCHANGE = 10, 0.5
# Shares of the teacher in the mean with the masked predictors that are compared.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Share of the label in the target of a row that has one.
LABEL_SHARE = 0.5
# Rows of each fold that are predicted at a time.
BLOCK = 4096
# Rows among which neighbours are searched, which bounds the time of the search.
MAX_CANDIDATES = 20_000


def stack_members(n_classes: int | None, n_values: int, seed: int) -> dict[str, Any]:
    """The models of the stack by name; ``n_classes`` is None for regression."""
    gamma = 0.5 / n_values
    if n_classes is None:
        return {
            "ridge": RidgeCV(alphas=np.logspace(-1, 3, 9)),
            "boosting": HistGradientBoostingRegressor(
                learning_rate=0.08, max_iter=120, max_leaf_nodes=12, min_samples_leaf=8,
                random_state=seed,
            ),
            "extra trees": ExtraTreesRegressor(150, min_samples_leaf=2, random_state=seed),
            "kernel": KernelRidge(alpha=0.1, kernel="rbf", gamma=gamma),
            "smooth kernel": KernelRidge(alpha=0.3, kernel="rbf", gamma=0.2 * gamma),
        }  # fmt: skip
    iterations = max(20, min(120, BOOSTED_TREES // n_classes))
    return {
        "logistic": LogisticRegression(C=0.3, max_iter=300),
        "boosting": HistGradientBoostingClassifier(
            learning_rate=0.06, max_iter=iterations, max_leaf_nodes=10, min_samples_leaf=8,
            random_state=seed,
        ),
        "extra trees": ExtraTreesClassifier(150, min_samples_leaf=2, random_state=seed),
        "kernel": make_pipeline(
            Nystroem(gamma=gamma, n_components=LANDMARKS, random_state=seed),
            LogisticRegression(C=3.0, max_iter=300),
        ),
    }  # fmt: skip


@dataclass(frozen=True)
class Lesson:
    """What a teacher knows of the training rows, and of rows that recombine them.

    Attributes
    ----------
    rows : Rows
        The training rows, then ``n_copies`` recombinations of each, in the order of the rows, with
        the predictions of the teacher as targets.
    labels : Tensor of shape (n, n_outputs)
        The targets of the training rows.
    held_out : Tensor of shape (n, n_outputs)
        Predictions of the training rows by models that were not fitted to them.
    weights : dict of str to float
        Weight of each member of the teacher.
    """

    rows: Rows
    labels: Tensor
    held_out: Tensor
    weights: dict[str, float]

    @property
    def n_copies(self) -> int:
        """Recombinations of each training row."""
        return len(self.rows) // len(self.labels) - 1

    @torch.no_grad()
    def mix(
        self, network: SeparateNetwork, inputs: MaskedInputs, loss: Loss, folds: Folds
    ) -> tuple[Rows, float, float, float]:
        """The taught rows, with the mean of the teacher and of the network that does best.

        ``network`` was pretrained on the labels. Returns the rows, the share of the teacher, and
        the out-of-fold losses of the network and of the mean.
        """
        network.eval()
        own = torch.empty_like(self.labels)
        for part in range(0, folds.size, BLOCK):
            index = folds.indices[:, part : part + BLOCK]
            values = folds.rows[index].values
            mask = torch.ones((*index.shape, inputs.n_columns), dtype=torch.bool, device=values.device)
            own[index] = network.cross_fitted(inputs.reveal(values, mask), loss)
        covered = torch.unique(folds.indices)

        def score(share: float) -> float:
            mean = own[covered].lerp(self.held_out[covered], share)
            weight = folds.rows.weight[covered]
            return float((loss.of_prediction(mean, self.labels[covered]) * weight).mean())

        scores = {share: score(share) for share in SHARES}
        share = min(scores, key=lambda s: scores[s])
        targets = self.rows.targets
        if share < 1:
            parts = []
            for _, block in self.rows.blocks():
                every = torch.ones(len(block), inputs.n_columns, dtype=torch.bool, device=block.device)
                parts.append(loss.predict(network.predict(inputs.reveal(block.values, every))).mean(dim=0))
            targets = torch.cat(parts).lerp(targets, share)
        targets = targets.clone()
        n = len(self.labels)
        targets[:n] = targets[:n].lerp(self.labels, LABEL_SHARE)
        return replace(self.rows, targets=targets), share, scores[0.0], scores[share]


def fit_stack(
    rows: Rows,
    inputs: MaskedInputs,
    loss: Loss,
    n_copies: int,
    seed: int,
    members: dict[str, Any] | None = None,
) -> Lesson:
    """Cross-fit a stack to the training rows, and predict them and their recombinations.

    Parameters
    ----------
    rows : Rows
    inputs : MaskedInputs
    loss : Loss
        Linear in its targets.
    n_copies : int
        Recombinations of each row.
    seed : int
    members : dict of str to estimator, optional
        By default those of `stack_members`.
    """
    rng = np.random.RandomState(seed)
    plain = np.ones(rows.values.shape[1], dtype=bool)
    if inputs.pieces is not None:
        # Positions in bins follow from the other values.
        plain = ~inputs.pieces.cpu().numpy()
    values = rows.values.cpu().numpy()
    drawn = recombined(values, plain, value_units(inputs), n_copies, rng)
    every = np.nan_to_num(np.concatenate([values, drawn])[:, plain].astype(np.float64))
    targets, weight = rows.targets.cpu().numpy(), rows.weight.cpu().numpy()
    n_classes = targets.shape[1] if targets.shape[1] > 1 else None
    members = stack_members(n_classes, every.shape[1], seed) if members is None else members
    classes = None if n_classes is None else targets.argmax(axis=1)
    folds = _folds(classes, len(targets), rng)
    found = {
        name: _cross_fit(member, every, targets, classes, weight, folds)
        for name, member in members.items()
    }
    constant = np.average(targets, axis=0, weights=weight)
    found["constant"] = tuple(
        np.broadcast_to(constant, (n, targets.shape[1])) for n in (len(targets), len(every))
    )
    device = rows.device

    def tensor(array: FloatArray) -> Tensor:
        return torch.as_tensor(np.asarray(array), dtype=torch.float32, device=device)

    def score(prediction: FloatArray) -> float:
        losses = loss.of_prediction(tensor(prediction), rows.targets)
        return float((losses * rows.weight).mean())

    weights = _greedy_weights([own for own, _ in found.values()], score)
    named = {name: w for name, w in zip(found, weights, strict=True) if w > 0}
    held_out = tensor(sum(w * found[name][0] for name, w in named.items()))
    taught = tensor(sum(w * found[name][1] for name, w in named.items()))
    repeat = n_copies + 1
    extended = Rows(
        torch.cat([rows.values, torch.as_tensor(drawn, device=device)]),
        taught,
        rows.weight.repeat(repeat),
        None if rows.costs is None else rows.costs.repeat(repeat, 1),
    )
    return Lesson(extended, rows.targets, held_out, named)


def value_units(inputs: MaskedInputs) -> NDArray[np.intp]:
    """The first unit of each encoded value; values of no unit have numbers of their own."""
    member = inputs.membership.cpu().numpy()
    first = np.where(member.any(axis=0), member.argmax(axis=0), len(member) + np.arange(member.shape[1]))
    return first[inputs.column_of.cpu().numpy()]


def recombined(
    values: NDArray[np.float32],
    plain: NDArray[np.bool_],
    unit_of: NDArray[np.intp],
    n_copies: int,
    rng: np.random.RandomState,
) -> NDArray[np.float32]:
    """Recombine each row with one of its nearest neighbours, ``n_copies`` times.

    About half of the units are taken from the neighbour. Every cell is therefore a value of its
    column, the columns of a unit stay together, and other dependences are kept approximately.
    """
    n = len(values)
    known = np.nan_to_num(values[:, plain])
    candidates = np.arange(n)
    if n > MAX_CANDIDATES:
        candidates = rng.choice(n, MAX_CANDIDATES, replace=False)
    n_found = min(N_NEIGHBOURS + 1, len(candidates))
    search = NearestNeighbors(n_neighbors=n_found).fit(known[candidates])
    # A row is usually its own nearest neighbour.
    near = candidates[search.kneighbors(known, return_distance=False)]
    near = near[:, 1:] if n_found > 1 else near
    parts = []
    for _ in range(n_copies):
        other = near[np.arange(n), rng.randint(near.shape[1], size=n)]
        exchanged = rng.random_sample((n, int(unit_of.max()) + 1)) < EXCHANGE
        parts.append(np.where(exchanged[:, unit_of], values[other], values))
    return np.concatenate([values[:0], *parts])


def _folds(
    classes: NDArray[np.intp] | None, n: int, rng: np.random.RandomState
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    n_folds, seed = min(N_FOLDS, n), rng.randint(2**31 - 1)
    if classes is not None and np.bincount(classes).max() >= n_folds:
        import warnings
        with warnings.catch_warnings():
            # A class of fewer rows than folds is missing in some of them.
            warnings.simplefilter("ignore", UserWarning)
            return list(
                StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(classes, classes)
            )
    return list(KFold(n_folds, shuffle=True, random_state=seed).split(np.empty(n)))


def _cross_fit(
    member: Any,
    values: FloatArray,
    targets: NDArray[np.float32],
    classes: NDArray[np.intp] | None,
    weight: NDArray[np.float32],
    folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]],
) -> tuple[FloatArray, FloatArray]:
    """Out-of-fold predictions of the training rows, and mean predictions of all ``values``."""
    n, n_outputs = targets.shape
    own, mean = np.zeros((n, n_outputs)), np.zeros((len(values), n_outputs))
    y = targets[:, 0].astype(np.float64) if classes is None else classes
    for fitted_to, held_out in folds:
        model = clone(member)
        if classes is not None and len(np.unique(y[fitted_to])) < 2:
            found = np.broadcast_to(targets[fitted_to].mean(axis=0), (len(values), n_outputs))
        else:
            last = model.steps[-1][0] + "__" if hasattr(model, "steps") else ""
            model.fit(values[fitted_to], y[fitted_to], **{f"{last}sample_weight": weight[fitted_to]})
            if classes is None:
                found = model.predict(values).reshape(-1, 1)
            else:
                found = np.zeros((len(values), n_outputs))
                found[:, model.classes_] = model.predict_proba(values)
        own[held_out] = found[held_out]
        mean += found / len(folds)
    return own, mean


def _greedy_weights(
    predictions: Sequence[FloatArray], score: Callable[[FloatArray], float]
) -> FloatArray:
    """Weights of a mean of predictions, by greedy selection with replacement."""
    counts, total = np.zeros(len(predictions)), np.zeros_like(predictions[0])
    best = (np.inf, counts)
    for step in range(1, SELECTION_STEPS + 1):
        scores = [score((total + p) / step) for p in predictions]
        chosen = int(np.argmin(scores))
        counts[chosen] += 1
        total = total + predictions[chosen]
        if scores[chosen] < best[0]:
            best = (scores[chosen], counts.copy())
    return best[1] / best[1].sum()
