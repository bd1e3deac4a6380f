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
