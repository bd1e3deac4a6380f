"""The synthetic data sets and their metrics."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from suwr_experiments.synthetic import RELEVANT, selection_metrics, synthetic

# AUROC of the true p(y | x) on the test rows of the benchmark.
LIMIT = {1: 0.7023, 2: 0.9006, 3: 0.9075, 4: 0.8228, 5: 0.8273, 6: 0.9066}


@pytest.mark.parametrize("number", LIMIT)
def test_auroc_of_the_true_probabilities(number):
    data = synthetic(number, seed=100)
    assert roc_auc_score(data.y, data.probability) == pytest.approx(LIMIT[number], abs=5e-5)


@pytest.mark.parametrize("number", LIMIT)
def test_relevant_columns(number):
    data = synthetic(number, n_rows=200)
    assert data.relevant.any(axis=1).all()
    if number > 3:
        assert data.relevant[:, 10].all()
    else:
        assert data.relevant.sum(axis=1).tolist() == [len(RELEVANT[number])] * 200


def test_columns_are_drawn_before_labels():
    X = np.random.RandomState(0).randn(50, 11)
    np.testing.assert_array_equal(synthetic(1, 50).X, X)
    assert synthetic(6, 50, n_columns=100).X.shape == (50, 100)


def test_metrics_of_perfect_and_empty_selections():
    data = synthetic(4, 100)
    perfect = selection_metrics(data.relevant, data.relevant)
    assert (perfect["tpr"], perfect["fdr"], perfect["cfsr"]) == (100, 0, 100)
    nothing = selection_metrics(np.zeros_like(data.relevant), data.relevant)
    assert (nothing["tpr"], nothing["fdr"], nothing["n_selected"]) == (0, 0, 0)


@pytest.mark.parametrize("kwargs", [{"number": 7}, {"number": 1, "n_columns": 10}])
def test_invalid_arguments(kwargs):
    with pytest.raises(ValueError, match="must be"):
        synthetic(**kwargs)
