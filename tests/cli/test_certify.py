"""``suwr certify``."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import suwr
from suwr.cli import app
from suwr.cli.main import RISKS
from suwr.estimators import risks


def run(*words):
    return CliRunner().invoke(app, [str(w) for w in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table whose class follows from one column, a model of it, and calibration rows."""
    path = tmp_path_factory.mktemp("certify")
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(rng.randn(700, 4).round(3), columns=list("abcd"))
    frame["site"] = rng.choice(["north", "south"], 700)
    frame["ill"] = np.where(frame["a"] + 0.1 * frame["b"] > 0, "yes", "no")
    frame[:300].drop(columns="site").to_csv(path / "train.csv", index=False)
    frame[300:].to_csv(path / "calibration.csv", index=False)
    frame[300:].drop(columns="ill").to_csv(path / "unlabelled.csv", index=False)
    words = ["--target", "ill", "--out", path / "m.suwr", "--max-epochs", "5"]
    done = run("fit", path / "train.csv", *words)
    assert done.exit_code == 0, done.output
    return path


def test_certificate_is_that_of_python(folder):
    out = folder / "certified.suwr"
    words = ["certify", folder / "m.suwr", folder / "unlabelled.csv", "--out", out]
    done = run(*words, "--level", "0.1", "--confidence", "0.9", "--json")
    assert done.exit_code == 0, done.output
    model = suwr.load(folder / "m.suwr")
    rows = pd.read_csv(folder / "unlabelled.csv")[list("abcd")]
    expected = model.certify(rows, level=0.1, confidence=0.9)
    found = json.loads(done.output)
    sentence = found.pop("sentence")
    assert found == expected.certificate_.to_dict()
    assert sentence == expected.certificate_.sentence
    assert found["mean_cost"] < found["full_cost"]
    loaded = suwr.load(out)
    assert loaded.certificate_ == expected.certificate_
    assert np.array_equal(loaded.select(rows), expected.select(rows))
    assert loaded.target_name_ == "ill"
    text = " ".join(run(*words, "--level", "0.1", "--confidence", "0.9").output.split())
    assert sentence in text
    assert "empirical risk" in text


def test_risks_with_labels_and_groups(folder):
    words = ["certify", folder / "m.suwr", folder / "calibration.csv", "--out", folder / "e.suwr"]
    done = run(*words, "--risk", "error", "--group", "site", "--level", "0.2", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["risk"] == "error"
    assert found["groups"] == ["north", "south"]
    rows = pd.read_csv(folder / "calibration.csv")
    expected = suwr.load(folder / "m.suwr").certify(
        rows[list("abcd")], rows["ill"], risk="error", groups=rows["site"], level=0.2
    )
    assert found["empirical_risk"] == expected.certificate_.empirical_risk
    steps = run(
        *words, "--risk", "loss", "--per-steps", "--level", "0.5", "--rule", "gain", "--json"
    )
    assert json.loads(steps.output)["steps"] is not None
    assert RISKS == risks.RISKS


def test_levels_in_each_class(folder):
    model, rows = suwr.load(folder / "m.suwr"), pd.read_csv(folder / "calibration.csv")
    words = ["--out", folder / "c.suwr", "--per-class", "--level", "0.2", "--json"]
    done = run("certify", folder / "m.suwr", folder / "calibration.csv", *words)
    expected = model.certify(rows[list("abcd")], rows["ill"], level=0.2, per="class")
    found = json.loads(done.output)
    assert found["class_names"] == ["no", "yes"]
    assert found == expected.certificate_.to_dict() | {"sentence": expected.certificate_.sentence}
    done = run("certify", folder / "m.suwr", folder / "unlabelled.csv", *words)
    assert json.loads(done.output)["class_kind"] == "predicted"
    rows.loc[:6, "ill"] = None
    rows.to_csv(folder / "gaps.csv", index=False)
    done = run("certify", folder / "m.suwr", folder / "gaps.csv", *words[:-1])
    assert "7 rows without 'ill' are left out" in done.output
    assert "Certified on 393 rows" in done.output
    # The groups of these rows may be missing too.
    rows.loc[:6, "site"] = None
    rows.to_csv(folder / "gaps.csv", index=False)
    words = ["--out", folder / "c.suwr", "--risk", "error", "--group", "site", "--level", "0.3"]
    done = run("certify", folder / "m.suwr", folder / "gaps.csv", *words)
    assert "Certified on 393 rows" in done.output


@pytest.mark.filterwarnings("always::suwr.exceptions.CertificationWarning")
def test_guarantee_that_is_met_without_any_feature(folder):
    words = ["--out", folder / "n.suwr", "--level", "0.6"]
    done = run("certify", folder / "m.suwr", folder / "unlabelled.csv", *words)
    assert done.exit_code == 0
    assert "This is met without acquiring any feature" in " ".join(done.stdout.split())
    assert "Warning: This is met without acquiring any feature" in done.stderr


@pytest.mark.filterwarnings("always::suwr.exceptions.CertificationWarning")
def test_too_few_rows_are_reported(folder):
    pd.read_csv(folder / "calibration.csv")[:5].to_csv(folder / "five.csv", index=False)
    done = run("certify", folder / "m.suwr", folder / "five.csv", "--out", folder / "f.suwr")
    assert done.exit_code == 0
    text = " ".join(done.output.split())
    assert "all features are revealed" in text
    assert "At least 59 rows are needed" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--risk", "harm"], "--risk must be one of 'disagreement', 'error', 'loss'. Got 'harm'."),
        (["--rule", "none"], "--rule must be"),
        (["--level", "1"], "--level must be between 0 and 1. Got 1."),
        (["--confidence", "0"], "--confidence must be between 0 and 1. Got 0."),
        (["--risk", "error"], "ill"),
        (["--group", "nothing"], "nothing"),
        (["--tolerance", "0.1"], "tolerance"),
        (["--per-class", "--per-steps"], "--per-class and --per-steps cannot be combined"),
        (["--per-class", "--target", "sick"], "sick"),
    ],
)
def test_invalid_options(folder, words, message):
    out = folder / "none.suwr"
    done = run("certify", folder / "m.suwr", folder / "unlabelled.csv", "--out", out, *words)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
    assert not out.exists()


def test_a_certified_model_is_not_certified_again(folder):
    out = folder / "once.suwr"
    run("certify", folder / "m.suwr", folder / "unlabelled.csv", "--out", out)
    done = run("certify", out, folder / "unlabelled.csv", "--out", folder / "twice.suwr")
    assert done.exit_code == 1
    assert "is certified already" in " ".join(done.output.split())


def test_missing_groups(folder):
    frame = pd.read_csv(folder / "calibration.csv")
    frame.loc[3, "site"] = None
    frame.to_csv(folder / "gaps.csv", index=False)
    out = ["--out", folder / "g.suwr", "--group", "site"]
    done = run("certify", folder / "m.suwr", folder / "gaps.csv", *out)
    assert "must not have missing values" in " ".join(done.output.split())


@pytest.mark.filterwarnings("always::suwr.exceptions.CertificationWarning")
def test_regression_requires_the_tolerance(folder):
    frame = pd.read_csv(folder / "unlabelled.csv")[list("abcd")]
    reg = suwr.SUWRRegressor(max_epochs=1, training={"hidden_size": 8}, random_state=0)
    reg.fit(frame, 1e5 * frame["a"]).save(folder / "r.suwr")
    words = ["certify", folder / "r.suwr", folder / "unlabelled.csv", "--out", folder / "rc.suwr"]
    done = run(*words)
    assert done.exit_code == 1
    assert "--risk disagreement of a regression model requires --tolerance" in done.output
    done = run(*words, "--per-class", "--tolerance", "1")
    assert "--per-class requires a classification model" in done.output
    done = run(*words, "--tolerance", "500000")
    assert done.exit_code == 0, done.output
    assert "by more than 500,000 if" in " ".join(done.output.split())


def test_certificate_is_verified_with_the_calibration_rows(folder):
    out, calibration = folder / "v.suwr", folder / "calibration.csv"
    for words in (
        ["--level", "0.1"],
        ["--risk", "error", "--group", "site", "--level", "0.2"],
        ["--per-class", "--level", "0.2"],
    ):
        done = run("certify", folder / "m.suwr", calibration, "--out", out, *words)
        assert done.exit_code == 0, done.output
        group = ["--group", "site"] if "--group" in words else []
        done = run("verify", "--model", out, "--calibration", calibration, *group)
        assert (done.exit_code, done.output.splitlines()[0]) == (0, "verified")
        assert "Certified on 400 rows" in done.output
    done = run("verify", "--model", out, "--calibration", folder / "train.csv")
    assert done.exit_code == 2
    assert "refused: on these rows, 'n_rows' is 300, but the certificate states" in done.output
    done = run("verify", "--model", folder / "m.suwr", "--calibration", calibration)
    assert done.exit_code == 1
    assert "has no certificate" in " ".join(done.output.split())
    assert run("verify", "--model", out).exit_code == 1
    assert run("verify", "--model", out, "--calibration", folder / "no.csv").exit_code == 1
