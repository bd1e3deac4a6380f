import pytest
import torch

from suwr.training.data import Folds, Rows
from suwr.training.rollouts import group_by_fold


def test_group_by_fold_groups_and_pads():
    index, valid = group_by_fold(torch.tensor([0, 5, 1, 2, 9]), size=3, n_folds=4)
    assert index[0].tolist() == [0, 2, 3]
    assert (index[1, 0], index[3, 0]) == (1, 4)
    assert valid.sum(dim=1).tolist() == [3, 1, 0, 1]
    assert valid[:, 0].tolist() == [True, True, False, True]


@pytest.mark.parametrize("n_folds", [2, 4])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 25, 500])
def test_folds_are_disjoint_and_batches_cover_them(n, n_folds):
    rows = Rows(torch.zeros(n, 1), torch.zeros(n, 1), torch.ones(n))
    folds = Folds(rows, torch.Generator().manual_seed(0), n_folds=n_folds)
    batches = list(folds.batches(40))
    assert len(batches) == folds.n_batches(40) >= 8
    assert {b.shape[1] for b in batches} == {min(40 // n_folds, max(1, n // n_folds))}
    seen = [torch.cat([b[k] for b in batches]).unique() for k in range(n_folds)]
    if n >= n_folds:
        assert len(torch.cat(seen).unique()) == sum(map(len, seen))
        assert {len(rows) for rows in seen} == {n // n_folds} or n == 500


@pytest.mark.parametrize("n_folds", [2, 4])
def test_predictors_are_trained_on_all_folds_but_one(n_folds):
    rows = Rows(torch.zeros(10, 1), torch.zeros(10, 1), torch.ones(10))
    folds = Folds(rows, torch.Generator().manual_seed(0), n_folds)
    drawn = torch.stack([folds.training_folds() for _ in range(50)])
    # Every draw uses each fold once.
    assert drawn.sort(dim=1).values.equal(torch.arange(n_folds).expand(50, -1))
    for group in range(n_folds):
        assert set(drawn[:, group].tolist()) == set(range(n_folds)) - {(group + 1) % n_folds}


@pytest.mark.parametrize("n_folds", [2, 4])
@pytest.mark.parametrize("n", [4, 41, 400])
def test_folds_of_a_classifier_are_stratified(n, n_folds):
    # A rare class of every tenth row.
    classes = torch.where(torch.arange(n) % 10 == 3, 1, 0)
    classes[: n // 4] = 2
    targets = torch.nn.functional.one_hot(classes, 3).float()
    rows = Rows(torch.zeros(n, 1), targets, torch.ones(n))
    own = Folds(rows, torch.Generator().manual_seed(0), n_folds).indices
    assert len(own.unique()) == own.numel() == n_folds * (n // n_folds)
    counts = torch.stack([torch.bincount(classes[fold], minlength=3) for fold in own])
    assert (counts.max(dim=0).values - counts.min(dim=0).values).max() <= 1


def test_first_rows_of_stratified_folds_are_a_random_sample():
    classes = torch.arange(4000) % 2
    targets = torch.nn.functional.one_hot(classes, 2).float()
    rows = Rows(torch.zeros(4000, 1), targets, torch.ones(4000))
    folds = Folds(rows, torch.Generator().manual_seed(0))
    shares = classes[folds.indices[:, :1000]].float().mean(dim=1)
    assert (shares - 0.5).abs().max() < 0.06


def test_soft_targets_are_stratified_by_their_most_probable_class():
    targets = torch.full((40, 2), 0.4)
    targets[:, 0] = 0.6
    targets[::4] = torch.tensor([0.1, 0.9])
    rows = Rows(torch.zeros(40, 1), targets, torch.ones(40))
    folds = Folds(rows, torch.Generator().manual_seed(1))
    assert (targets[folds.indices].argmax(dim=-1).sum(dim=1) == 5).all()
