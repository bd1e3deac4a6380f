"""The report of which columns the decisions used."""

import numpy as np
import pytest
import torch

from suwr import minimisation_report
from suwr.estimators.verify import poisoned


@pytest.fixture(scope="module")
def rows(cancer, classifier):
    X, y = cancer
    return X[list(classifier.feature_names_in_)][:150], y.to_numpy()[:150]


@pytest.fixture(scope="module")
def report(classifier, rows):
    return minimisation_report(classifier, *rows)


def test_use_of_every_column(report, classifier, rows):
    mask = classifier.select(rows[0])
    assert [use.column for use in report.columns] == list(rows[0].columns)
    np.testing.assert_allclose([use.used for use in report.columns], mask.mean(axis=0))
    assert report.cells_read == pytest.approx(mask.mean())
    assert report.max_columns == mask.sum(axis=1).max()
    assert set(report.never_read) == set(rows[0].columns[~mask.any(axis=0)])


def test_dropped_column_is_never_revealed(report, classifier, rows):
    """Row by row: the best of the other units wherever the policy would take the dropped one."""
    X, y = rows
    name = max(report.columns, key=lambda use: use.used).column
    use = next(use for use in report.columns if use.column == name)
    dropped = list(X.columns).index(name)
    policy = classifier.policy_
    labels, costs = [], []
    values = classifier._encode(classifier._read(X))
    for row in values:
        mask = torch.zeros(1, 10, dtype=torch.bool)
        steps = 0
        while steps < policy.max_steps:
            with torch.inference_mode():
                decision = policy.decide(row[None], mask)
            allowed = ~mask[0]
            allowed[dropped] = False
            if not allowed.any() or decision.stop_probability[0] >= 0.5:
                break
            logits = decision.raw_logits[0].masked_fill(~allowed, -torch.inf)
            mask[0, logits.argmax()] = True
            steps += 1
        labels.append(int(policy.predict(row[None], mask).argmax()))
        costs.append(steps)
    predicted = classifier.classes_[labels]
    before = classifier.predict(X)
    assert use.changed == pytest.approx((predicted != before).mean())
    assert use.cost == pytest.approx(np.mean(costs) - classifier.cost(X).mean())
    assert use.score == pytest.approx((predicted == y).mean() - (before == y).mean())


def test_columns_that_were_never_read_change_nothing(report):
    for use in report.columns:
        assert use.used > 0 or (use.changed, use.cost, use.score) == (0, 0, 0)


def test_use_does_not_depend_on_hidden_cells(report, classifier, rows):
    """Only cells that no decision reads are replaced, those of the dropped columns included."""
    X, _ = rows
    mask = classifier.select(X)
    changed = poisoned(X, mask, "other rows", np.random.RandomState(0))
    again = minimisation_report(classifier, changed)
    assert [use.used for use in again.columns] == [use.used for use in report.columns]
    assert again.mean_columns == report.mean_columns


def test_summary_and_frame(report):
    text = report.summary()
    assert f"{1 - report.cells_read:.1%} of the cells of the table were never read" in text
    assert "For 150 decisions" in text
    assert ("Art. 5(1)(c) GDPR" in text) == bool(report.never_read)
    frame = report.to_frame()
    assert frame["used"].is_monotonic_decreasing
    assert len(frame) == 10


def test_regression(regressor, diabetes):
    X, y = diabetes[0][:60], diabetes[1][:60]
    report = minimisation_report(regressor, X, y)
    most = max(report.columns, key=lambda use: use.used)
    assert most.changed > 0
    assert all(use.score is not None for use in report.columns)
    assert minimisation_report(regressor, X).columns[0].score is None


def test_figure(report):
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    ax = report.plot()
    assert len(ax.get_yticklabels()) == 10
    assert [bar.get_width() for bar in ax.patches] == sorted(
        (100 * use.used for use in report.columns), reverse=True
    )
    assert "of the cells were never read" in ax.get_title(loc="left")


def test_empty_tables_are_refused(classifier, rows):
    with pytest.raises(ValueError, match=r"at least one row|0 sample"):
        minimisation_report(classifier, rows[0][:0])
