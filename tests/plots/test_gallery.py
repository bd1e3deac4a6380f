"""The registry of figures, and the rows that they show."""

from copy import copy

import matplotlib.pyplot as plt
import numpy as np
import pytest

from suwr import Explanation
from suwr.narrative.explanation import Narrative, Step
from suwr.plots import draw_figures, find_flip
from suwr.plots._style import write_figure
from suwr.plots.gallery import FIGURES, Subject, most_confused, typical_row


def make_narrative(label, n_steps):
    prediction = {"a": (0.9, 0.1), "b": (0.1, 0.9)}[label]
    steps = tuple(Step({str(t): {str(t): 0}}, 0.5, prediction, prediction) for t in range(n_steps))
    return Narrative(0, (0.5, 0.5), 0.0, steps, "decision", ("a", "b"), 5)


def test_typical_row_is_correct_and_of_median_length():
    rows = Explanation(
        [
            make_narrative("b", 2),
            make_narrative("a", 3),
            make_narrative("a", 1),
            make_narrative("a", 2),
            make_narrative("a", 2),
        ]
    )
    y = ["a", "a", "a", "a", "a"]
    assert typical_row(rows, y, "a") == 3
    assert typical_row(rows, y, "b") is None


def test_most_confused_classes():
    rows = Explanation([make_narrative("b", 1), make_narrative("a", 1), make_narrative("b", 1)])
    assert most_confused(rows, ["a", "b", "a"]) == ("a", "b")
    assert most_confused(rows, ["b", "a", "b"]) == ("a", "b")  # without errors, the first two
    with pytest.raises(ValueError, match="classes"):
        most_confused(Explanation([Narrative(0, (1.0,), 0.0, (), "decision", None, 1)]), [1.0])


@pytest.mark.slow
def test_all_figures_of_an_image_classifier(image_model, images, tmp_path):
    X, y = images
    paths = draw_figures(
        image_model, X[:60], y[:60], tmp_path, pair=("dark", "light"), flip=("dark", "light"),
        others={"other": image_model}, references={"published": ([1, 2], [70, 80]), "all": 99},
        dpi=40,
    )  # fmt: skip
    # The model has no history, and is no explainer.
    others = ("history", "fidelity")
    expected = [f.name for f in FIGURES if f.images is not False and f.name not in others]
    assert [p.stem for p in paths if p.stem != "history"] == expected
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_figures_of_tables(classifier, regressor, cancer, diabetes, tmp_path):
    X, y = cancer
    paths = draw_figures(classifier, X.iloc[:50, :10], y[:50], tmp_path / "a", dpi=40)
    expected = ["narrative", "flow", "transitions", "lengths", "accuracy", "calibration", "usage"]
    assert [p.stem for p in paths if p.stem != "history"] == expected
    X, y = diabetes
    paths = draw_figures(regressor, X[:50], y[:50], tmp_path / "b", dpi=40)
    expected = ["narrative", "flow", "transitions", "lengths", "usage"]
    assert [p.stem for p in paths if p.stem != "history"] == expected


def test_rare_classes_are_judged_by_log_loss():
    def rows(n_rare):
        step = Step({"a": {"a": 1}}, 0.9, (0.8, 0.2), (0.9, 0.1))
        narratives = [
            Narrative(i, (0.8, 0.2), 0.0, (step,), "decision", ("no", "yes"), 2) for i in range(20)
        ]
        y = np.array(["yes"] * n_rare + ["no"] * (20 - n_rare))
        return Subject(None, None, y, Explanation(narratives))

    accuracy = next(figure for figure in FIGURES if figure.name == "accuracy")
    ax = accuracy.draw(rows(2))
    assert ax.get_ylabel() == "Log loss"
    own = next(line for line in ax.get_lines() if line.get_label().startswith("this model"))
    expected = -0.9 * np.log([0.8, 0.9]) - 0.1 * np.log([0.2, 0.1])
    np.testing.assert_allclose(own.get_ydata(), expected)
    constant = next(line for line in ax.get_lines() if line.get_label() == "constant prediction")
    assert constant.get_ydata()[0] == pytest.approx(-0.9 * np.log(0.9) - 0.1 * np.log(0.1))
    assert accuracy.draw(rows(8)).get_ylabel() == "Accuracy (%)"


def test_files_are_wide_enough_for_a_projector(tmp_path):
    _, ax = plt.subplots(figsize=(3, 2), layout="constrained")
    path = write_figure(ax.figure, tmp_path / "a.png")
    assert 1_590 <= plt.imread(path).shape[1] <= 1_800
    assert plt.imread(write_figure(ax.figure, path, 50)).shape[1] < 200


@pytest.mark.slow
def test_history_is_drawn_for_models_that_have_one(regressor, diabetes, tmp_path):
    epoch = {"epoch": 1, "phase": "policy", "training_loss": 1.0, "validation_objective": 1.0}
    model = copy(regressor)
    model.history_ = [epoch | {"mean_cost": 2.0}]
    X, y = diabetes
    paths = draw_figures(model, X[:20], y[:20], tmp_path, dpi=40)
    assert "history" in [path.stem for path in paths]
    model.history_ = []
    paths = draw_figures(model, X[:20], y[:20], tmp_path / "without", dpi=40)
    assert "history" not in [path.stem for path in paths]


def test_names_of_figures_are_unique():
    names = [figure.name for figure in FIGURES]
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_hidden_pixels_that_are_not_numbers(image_model, images, tmp_path):
    X, y = images[0][:40], images[1][:40]
    hidden = X.astype(object).mask(~image_model.select(X), "maybe")
    assert (hidden == "maybe").to_numpy().any()
    names = [path.name for path in draw_figures(image_model, X, y, tmp_path / "a", dpi=20)]
    assert [p.name for p in draw_figures(image_model, hidden, y, tmp_path / "b", dpi=20)] == names
    # The others show hidden pixels faintly, or the narrative of an image after a change.
    for name in ("narrative.png", "flow.png", "lengths.png", "pixels.png", "accuracy.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_fill_of_a_counterfactual_does_not_depend_on_hidden_pixels(image_model, images):
    X, y = images
    far = X.mask(~image_model.select(X), 1e30)
    flip = find_flip(image_model, far, y, "dark", "light", fills=[1.0])
    changed = flip.changed[flip.changed != flip.image]
    assert len(changed) > 0
    assert (changed == X.to_numpy()[image_model.select(X)].max()).all()
