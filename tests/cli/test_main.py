"""The commands ``fit``, ``predict`` and ``explain``, and errors of all commands."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import suwr
from suwr.cli import app
from suwr.cli.options import LOSSES, TARGET_TRANSFORMS
from suwr.estimators import targets as target_transform
from suwr.estimators.targets import REGRESSION_LOSSES

FAST = ["--max-epochs", "8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small table with numbers, text and missing values, and a model trained on it."""
    path = tmp_path_factory.mktemp("cli")
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {
            "age": rng.randint(20, 80, 150),
            "colour": rng.choice(["red", "blue"], 150),
            "gap": np.where(rng.rand(150) < 0.2, np.nan, rng.randn(150)),
        }
    )
    frame["ill"] = np.where(frame["colour"] == "red", "yes", "no")
    frame["price"] = frame["age"] * 2.0
    frame.to_csv(path / "data.csv", index=False)
    frame.to_parquet(path / "data.parquet")
    done = run("fit", path / "data.csv", "--target", "ill", "--out", path / "m.suwr", *FAST)
    assert done.exit_code == 0, done.output
    return path


def run(*words, **kwargs):
    return CliRunner().invoke(app, [str(w) for w in words], **kwargs)


def test_fit_writes_a_model(folder):
    model = suwr.load(folder / "m.suwr")
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.feature_names_in_.tolist() == ["age", "colour", "gap", "price"]


def test_numeric_target_gives_a_regressor(folder):
    out = folder / "r.suwr"
    words = ["--group", "who=age,colour", "--cost", "who=2", "--sparsity-weight", "0.5"]
    done = run(
        "fit", folder / "data.parquet", "--target", "price", "--out", out, *words, *FAST,
    )  # fmt: skip
    assert "regression" in done.output
    model = suwr.load(out)
    assert isinstance(model, suwr.SUWRRegressor)
    assert model.units_.names == ("who", "gap", "ill")
    assert model.units_.costs.tolist() == [2, 1, 1]
    assert model.sparsity_weight_ == 0.5


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_predict(folder, suffix):
    out = folder / f"p.{suffix}"
    done = run("predict", folder / "m.suwr", folder / "data.csv", "--out", out)
    assert done.exit_code == 0, done.output
    read = pd.read_parquet if suffix == "parquet" else pd.read_csv
    frame = read(out, **({"sep": "\t"} if suffix == "tsv" else {}))
    model = suwr.load(folder / "m.suwr")
    X = pd.read_csv(folder / "data.csv")[model.feature_names_in_.tolist()]
    assert frame["prediction"].tolist() == model.predict(X).tolist()
    assert frame["n_selected"].tolist() == model.select(X).sum(axis=1).tolist()
    np.testing.assert_allclose(frame["probability of yes"], model.predict_proba(X)[:, 1])


@pytest.mark.parametrize("out", ["p.csv", "p.tsv", "p.parquet", "folder"])
def test_labels_that_spreadsheets_take_for_formulas_are_data(out, tmp_path):
    """They are written as they are: no cell is changed because of what another program does."""
    labels = ["=cmd|' /C calc'!A0", "+1+1", "-2", "@SUM(1;2)", "\t=1", "'quoted'", 'a";"b', "1,5"]
    rng = np.random.RandomState(0)
    X = pd.DataFrame({"=1+1": rng.randn(80), "@b": rng.randn(80)})
    model = suwr.SUWRClassifier(max_epochs=1, training={"hidden_size": 8}, random_state=0)
    model.fit(X, np.resize(np.array(labels, dtype=object), 80)).save(tmp_path / "m.suwr")
    X.to_csv(tmp_path / "X.csv", index=False)
    done = run("predict", tmp_path / "m.suwr", tmp_path / "X.csv", "--out", tmp_path / out)
    assert done.exit_code == 0, done.output
    if out.startswith("p.") and out != "p.parquet":
        found = pd.read_csv(tmp_path / out, sep="\t" if out == "p.tsv" else ",", dtype=str)
    else:
        found = pd.read_parquet(tmp_path / out)
    assert found["prediction"].tolist() == model.predict(X).tolist()
    assert set(found["prediction"]) <= set(labels)
    if out != "folder":
        columns = [c.removeprefix("probability of ") for c in found if c.startswith("probability")]
        assert columns == model.classes_.tolist()


def test_explain(folder):
    out = folder / "e.json"
    done = run(
        "explain", folder / "m.suwr", folder / "data.csv", "--row", 3, "--row", 0, "--json", out
    )
    assert done.exit_code == 0, done.output
    assert "Row 3. Before anything is revealed" in done.output
    narratives = suwr.Explanation.from_json(out.read_text())
    assert [n.row for n in narratives] == [3, 0]


def test_range_of_sparsity_weights_and_mean_features(folder):
    model, data, out = folder / "range.suwr", folder / "data.csv", folder / "p.csv"
    words = ["--target", "ill", "--max-epochs", 3, "--sparsity-weight", "0.001:0.5"]
    done = run("fit", data, "--out", model, *words, "--checkpoint", folder / "c")
    assert done.exit_code == 0, done.output
    assert not (folder / "c").exists()
    most, least = suwr.load(model).weight_range_.n_units[[0, -1]]
    wanted = (most + least) / 2
    assert run("predict", model, data, "--out", out, "--mean-features", wanted).exit_code == 0
    expected = suwr.load(model).select(pd.read_csv(data).drop(columns="ill"), mean_features=wanted)
    assert pd.read_csv(out)["n_selected"].tolist() == expected.sum(axis=1).tolist()
    assert run("explain", model, data, "--row", 0, "--mean-features", wanted).exit_code == 0
    message = one_line(run("predict", model, data, "--out", out, "--mean-features", 1000))
    assert "'mean_features' parameter must be in" in message


def test_range_of_budgets(folder):
    words = ["--target", "ill", "--max-epochs", 2, "--out", folder / "budgets.suwr", "--max-cost"]
    done = run("fit", folder / "data.csv", *words, "1:3")
    assert done.exit_code == 0, done.output
    assert list(suwr.load(folder / "budgets.suwr").max_cost) == [1.0, 3.0]
    assert "--max-cost must be a range LOW:HIGH. Got '3'" in one_line(
        run("fit", folder / "data.csv", *words, "3")
    )


def test_explain_writes_a_page(folder):
    out = folder / "e.html"
    words = ["explain", folder / "m.suwr", folder / "data.csv", "--html", out, "--target", "ill"]
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert "Wrote a page with 150 rows" in " ".join(done.output.split())
    assert page_models(out)["model"] is not None
    assert page_models(out)["rows"][3]["truth"] in ("yes", "no")
    assert not page_models(out)["hidden_values"]
    assert run(*words, "--row", 5, "--hidden-values").exit_code == 0
    assert page_models(out)["hidden_values"]
    done = run(*words, "--row", 5, "--without-model", "--no-hidden-values")
    assert done.exit_code == 0
    data = page_models(out)
    assert [row["label"] for row in data["rows"]] == [5]
    assert "a page with 1 row" in " ".join(done.output.split())
    assert data["model"] is None
    assert "--target must be a column of data.csv" in one_line(run(*words[:-1], "nothing"))


def page_models(path):
    """Return the data embedded in a page."""
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def one_line(done):
    assert done.exit_code == 1
    lines = [line for line in done.output.splitlines() if line.strip()]
    assert len(lines) == 1, done.output
    assert lines[0].startswith("Error: ")
    return lines[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--target", "weight", "--out", "{}/x.suwr"],
            "--target must be a column of data.csv: age",
        ),
        (["--target", "ill", "--out", "{}/none/x.suwr"], "does not exist"),
        (["--target", "ill", "--out", "{}"], "is a folder"),
        (["--target", "ill", "--out", "{}/x.suwr", "--task", "magic"], "--task must be"),
        (["--target", "ill", "--out", "{}/x.suwr", "--cost", "age"], "NAME=VALUE"),
        (["--target", "ill", "--out", "{}/x.suwr", "--cost", "age=much"], "must be a number"),
        (["--target", "ill", "--out", "{}/x.suwr", "--cost", "age=-1"], "-1.0 for 'age'"),
        (["--target", "ill", "--out", "{}/x.suwr", "--group", "g=size"], "'size' in the group 'g'"),
        (["--target", "ill", "--out", "{}/x.suwr", "--max-steps", "0"], "'max_steps' parameter"),
        (["--target", "ill", "--out", "{}/x.suwr", "--sparsity-weight", "x"], "must be a number"),
        (["--target", "gap", "--out", "{}/x.suwr"], "missing values"),
        (["--target", "age", "--out", "{}/x.suwr", "--loss", "hinge"], "--loss must be one of"),
        (["--target", "age", "--out", "{}/x.suwr", "--quantile", "0.5"], "requires --loss"),
        (["--target", "age", "--out", "{}/x.suwr", "--loss", "quantile"], "require each other"),
        (
            ["--target", "age", "--out", "{}/x.suwr", "--loss", "quantile", "--quantile", "2"],
            "--quantile must be between 0 and 1. Got 2.",
        ),
        (
            [
                "--target",
                "age",
                "--out",
                "{}/x.suwr",
                "--loss",
                "gamma",
                "--task",
                "classification",
            ],
            "--loss is for regression",
        ),
        (
            ["--target", "age", "--out", "{}/x.suwr", "--target-transform", "sqrt"],
            "--target-transform must be one of 'log', 'log1p', 'asinh'. Got 'sqrt'.",
        ),
        (
            ["--target", "age", "--out", "{}/x", "--target-transform", "log", "--loss", "gamma"],
            "cannot be combined with --loss gamma",
        ),
    ],
)
def test_invalid_options_of_fit(folder, words, message):
    words = [w.format(folder) for w in words]
    assert message in one_line(run("fit", folder / "data.csv", *words))
    assert not (folder / "x.suwr").exists()


def test_losses_of_regression(folder):
    assert set(LOSSES) == set(REGRESSION_LOSSES)
    assert set(TARGET_TRANSFORMS) == set(target_transform.TARGET_TRANSFORMS)
    few = pd.read_csv(folder / "data.csv").assign(visits=lambda f: f["age"] % 4)
    few.drop(columns="price").to_csv(folder / "few.csv", index=False)
    words = ["fit", folder / "few.csv", "--target", "visits", "--max-epochs", "2"]
    # Four values would be classes without --loss.
    done = run(*words, "--out", folder / "p.suwr", "--loss", "poisson")
    assert "Trained a regression model" in done.output
    assert suwr.load(folder / "p.suwr").loss == "poisson"
    options = ["--loss", "quantile", "--quantile", "0.9"]
    assert run(*words, "--out", folder / "q.suwr", *options).exit_code == 0
    assert suwr.load(folder / "q.suwr").quantile == 0.9
    options = ["--target-transform", "log1p"]
    assert run(*words, "--out", folder / "t.suwr", *options).exit_code == 0
    assert suwr.load(folder / "t.suwr").target_transform == "log1p"


def test_invalid_files(folder):
    (folder / "double.csv").write_text("a,a,y\n1,2,0\n3,4,1\n")
    (folder / "empty.csv").write_text("")
    (folder / "table.txt").write_text("a\n1\n")
    (folder / "broken.parquet").write_text("no")
    out = ["--target", "y", "--out", folder / "x.suwr"]
    assert "two columns named 'a'" in one_line(run("fit", folder / "double.csv", *out))
    assert "cannot be read" in one_line(run("fit", folder / "empty.csv", *out))
    assert "must end in .csv" in one_line(run("fit", folder / "table.txt", *out))
    assert "cannot be read" in one_line(run("fit", folder / "broken.parquet", *out))
    assert "gone.csv" in one_line(run("fit", folder / "gone.csv", *out))
    words = ["predict", folder / "data.csv", folder / "data.csv", "--out", folder / "p.csv"]
    assert "not a suwr model file" in one_line(run(*words))


def test_invalid_options_of_predict_and_explain(folder):
    model, data = folder / "m.suwr", folder / "data.csv"
    read = suwr.load(model).feature_importances_ > 0
    used = suwr.load(model).feature_names_in_[read]
    pd.read_csv(data).drop(columns=used).to_csv(folder / "short.csv", index=False)
    done = run("predict", model, folder / "short.csv", "--out", folder / "p.csv")
    assert f"lacks {len(used)} column(s) of the model: {used[0]!r}" in one_line(done)
    assert "must end in" in one_line(run("predict", model, data, "--out", folder / "p.xls"))
    assert "between 0 and 149" in one_line(run("explain", model, data, "--row", 150))
    assert "--row" in one_line(run("explain", model, data))


def test_version_and_help_of_every_command():
    assert run("--version").output.strip() == f"suwr {suwr.__version__}"
    for command in ("demo", "fit", "predict", "score", "explain", "audit", "ask", "figures"):
        assert run(command, "--help").exit_code == 0
