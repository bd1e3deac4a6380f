import pytest
import torch

from suwr.training.data import Folds, Rows, group_by_fold


def test_group_by_fold_groups_and_pads():
    index, valid = group_by_fold(torch.tensor([0, 5, 1, 2]), size=3)
    assert index[0].tolist() == [0, 2, 3]
    assert index[1, 0] == 1
    assert valid.tolist() == [[True, True, True], [True, False, False]]


@pytest.mark.parametrize("n", [1, 2, 3, 25, 500])
def test_folds_are_disjoint_and_batches_cover_them(n):
    rows = Rows(torch.zeros(n, 1), torch.zeros(n, 1), torch.ones(n))
    folds = Folds(rows, torch.Generator().manual_seed(0))
    batches = list(folds.batches(40))
    assert len(batches) == folds.n_batches(40) >= 8
    seen = [torch.cat([b[k] for b in batches]).unique() for k in (0, 1)]
    if n > 1:
        assert not set(seen[0].tolist()) & set(seen[1].tolist())
        assert len(seen[0]) == len(seen[1]) == n // 2 or n == 500


@pytest.mark.parametrize("n_tables", [1, 2])
@pytest.mark.parametrize("n", [2, 41, 400])
def test_folds_of_a_classifier_are_stratified(n, n_tables):
    generator = torch.Generator().manual_seed(0)
    # A rare class of every tenth row, and a class that only the first table has.
    classes = torch.where(torch.arange(n * n_tables) % 10 == 3, 1, 0)
    classes[: n // 4] = 2
    targets = torch.nn.functional.one_hot(classes, 3).float()
    rows = Rows(torch.zeros(len(classes), 1), targets, torch.ones(len(classes)))
    folds = Folds(rows, generator, n_tables)
    for table in range(n_tables):
        own = folds.indices[2 * table : 2 * table + 2]
        assert len(own.unique()) == own.numel() == 2 * (n // 2)
        assert set(own.flatten().tolist()) <= set(range(table * n, (table + 1) * n))
        first, second = (torch.bincount(classes[fold], minlength=3) for fold in own)
        assert (first - second).abs().max() <= 1


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
