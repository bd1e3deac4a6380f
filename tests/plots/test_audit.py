"""The figure of an audit."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from suwr.auditing import audit
from suwr_experiments.zoo import SPECIMENS


def report_of(name, **options):
    selector, X, y = SPECIMENS[name].make(0)
    return audit(selector, X[:400], y[:400], random_state=0, n_draws=40_000, **options)


def test_bars_are_the_gaps():
    report = report_of("mask encodes the label")
    ax = report.plot()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "the label"
    assert names[1] == report.gaps.features[0].target
    assert "leaks" in ax.figure.get_suptitle()
    assert len(ax.figure.axes) == 2  # the witness is above


def test_bars_on_given_axes():
    _, ax = plt.subplots()
    assert report_of("mask encodes the label", gaps=False).plot(ax) is ax
    assert ax.get_yticklabels()[0].get_text() in ("x3", "x4")
    assert "changed the mask" in ax.get_xlabel()


@pytest.mark.parametrize(
    "name", ["decision tree", "random masks", "five blocks", "probabilities shifted by 5 %"]
)
def test_every_kind_of_report_can_be_drawn(name):
    ax = report_of(name, gaps=False).plot()
    ax.figure.canvas.draw()
    assert SPECIMENS[name].leaks == ("no leak" not in ax.figure.get_suptitle())


def test_a_clean_audit_shows_what_was_checked():
    report = report_of("decision tree", gaps=False)
    ax = report.plot()
    assert [text.get_text() for text in ax.texts] == [
        f"{report.n_probes:,} of {report.n_probes:,} probes"
    ]
    assert ax.patches[0].get_width() == 100


def test_the_figure_says_whether_the_witness_is_a_row_of_the_data():
    report = report_of("mask encodes a hidden feature", gaps=False)
    ax = report.plot()
    assert "leaks if columns vary independently" in ax.figure.get_suptitle()
    assert "combines values of several rows" in ax.figure.axes[0].get_title(loc="left")
    X = np.random.default_rng(0).integers(2, size=(200, 2))
    ax = audit(lambda X: X[:, ::-1] < X, X, random_state=0, gaps=False).plot()
    assert "combines" not in ax.figure.axes[0].get_title(loc="left")


def test_data_frames_and_strings_can_be_drawn():
    selector, X, _ = SPECIMENS["tree on a data frame"].make(0)

    def sly(X):
        masks = selector(X)
        masks[:, 3] |= (X["sex"] == "f").to_numpy()
        return masks

    report = audit(sly, X, random_state=0, gaps=False, support="product")
    assert report.leaks
    report.plot().figure.canvas.draw()
