"""All figures of a model, and the selection of the rows that they show."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from suwr import Explanation, Patches, SUWRClassifier
from suwr.cli import app
from suwr.explanation import Narrative, Step
from suwr.plots.model_figures import draw_figures, find_flip, most_confused, typical_row

mpl.use("Agg")

# Images of 6 × 6 pixels: the brightness of one patch determines the class, the rest is noise.
PATCHES = Patches((6, 6), size=2, stride=2)
INFORMATIVE = "patch (2, 2)"


@pytest.fixture(scope="module")
def images():
    rng = np.random.RandomState(0)
    X = rng.randint(0, 256, size=(240, 36)).astype(float)
    y = np.where(rng.rand(240) < 0.5, "dark", "light")
    inside = PATCHES.membership()[PATCHES.names.index(INFORMATIVE)]
    X[:, inside] = np.where(y == "dark", 30.0, 220.0)[:, None] + rng.randint(-20, 20, (240, 4))
    return pd.DataFrame(X, columns=[f"pixel{i}" for i in range(36)]), y


@pytest.fixture(scope="module")
def model(images):
    clf = SUWRClassifier(
        groups=PATCHES, max_steps=3, max_epochs=16, hidden_size=16, n_layers=2, random_state=0
    )
    return clf.fit(*images)


def narrative(label, n_steps):
    prediction = {"a": (0.9, 0.1), "b": (0.1, 0.9)}[label]
    steps = tuple(Step({str(t): {str(t): 0}}, 0.5, prediction, prediction) for t in range(n_steps))
    return Narrative(0, (0.5, 0.5), 0.0, steps, "decision", ("a", "b"), 5)


def test_typical_row_is_correct_and_of_median_length():
    rows = Explanation(
        [
            narrative("b", 2),
            narrative("a", 3),
            narrative("a", 1),
            narrative("a", 2),
            narrative("a", 2),
        ]
    )
    y = ["a", "a", "a", "a", "a"]
    assert typical_row(rows, y, "a") == 3
    assert typical_row(rows, y, "b") is None


def test_most_confused_classes():
    rows = Explanation([narrative("b", 1), narrative("a", 1), narrative("b", 1)])
    assert most_confused(rows, ["a", "b", "a"]) == ("a", "b")
    assert most_confused(rows, ["b", "a", "b"]) == ("a", "b")  # no row is misclassified
    with pytest.raises(ValueError, match="classes"):
        most_confused(Explanation([Narrative(0, (1.0,), 0.0, (), "decision", None, 1)]), [1.0])


def test_informative_patch_flips_the_class(model, images):
    X, y = images
    assert model.score(X, y) > 0.95
    flip = find_flip(model, X, y, "dark", "light", fills=[1.0])
    assert flip.unit == INFORMATIVE
    assert y[flip.row] == "dark"
    assert (flip.before.label, flip.after.label) == ("dark", "light")
    # Only the patch is changed, and the narratives agree until it is revealed.
    inside = PATCHES.membership()[PATCHES.names.index(INFORMATIVE)]
    np.testing.assert_array_equal(flip.image[~inside], flip.changed[~inside])
    assert (flip.changed[inside] == X.to_numpy().max()).all()
    assert flip.before.steps[: flip.step - 1] == flip.after.steps[: flip.step - 1]
    assert model.predict(X.iloc[[flip.row]])[0] == "dark"


def test_no_flip(model, images):
    X, y = images
    assert find_flip(model, X, y, "dark", "light", fills=[0.0]) is None
    assert find_flip(model, X, y, "green", "light") is None


def test_command_draws_all_figures_of_images(model, images, tmp_path):
    X, y = images
    model.save(tmp_path / "m.suwr")
    X.iloc[:60].assign(kind=y[:60]).to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "others.json").write_text('{"published": [[1, 2], [70, 80]], "all": 99}')
    words = ["figures", tmp_path / "m.suwr", tmp_path / "test.csv", "--target", "kind"]
    words += ["--out", tmp_path / "drawn", "--pair", "dark,light", "--flip", "dark, light"]
    words += ["--also", tmp_path / "m.suwr", "--references", tmp_path / "others.json"]
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exit_code == 0, done.output
    written = {path.stem for path in (tmp_path / "drawn").iterdir()}
    assert written == {
        "narrative", "flow", "lengths", "accuracy", "pixels",
        "masks", "steps", "early-stop", "counterfactual",
    }  # fmt: skip
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in (tmp_path / "drawn").iterdir())
    assert done.output.count("Wrote ") == 9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "none"], "--target must be a column"),
        ([], "--target must be a column of test.csv. Got None."),
        (["--target", "kind", "--pair", "dark"], "--pair must be two of the classes dark, light"),
        (["--target", "kind", "--flip", "3,8"], "--flip must be two of the classes"),
        (["--target", "kind", "--out", "{}/test.csv"], "--out must be a folder"),
        (["--target", "kind", "--references", "{}/bad.json"], "--references must be"),
    ],
)
def test_invalid_options(model, images, tmp_path, words, message):
    X, y = images
    model.save(tmp_path / "m.suwr")
    X.iloc[:5].assign(kind=y[:5]).to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "bad.json").write_text("[1]")
    words = ["figures", f"{tmp_path}/m.suwr", f"{tmp_path}/test.csv", *words]
    done = CliRunner().invoke(app, [w.format(tmp_path) for w in words])
    assert done.exit_code == 1
    assert message in done.output


def test_figures_of_tables(classifier, regressor, cancer, diabetes, tmp_path):
    X, y = cancer
    paths = draw_figures(classifier, X.iloc[:50, :10], y[:50], tmp_path / "a", dpi=40)
    assert [p.stem for p in paths] == ["narrative", "flow", "lengths", "accuracy", "usage"]
    X, y = diabetes
    paths = draw_figures(regressor, X[:50], y[:50], tmp_path / "b", dpi=40)
    assert [p.stem for p in paths] == ["narrative", "flow", "lengths", "usage"]
