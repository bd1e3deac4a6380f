"""Columns of dates: ``suwr fit --dates`` and the commands that use its model file."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import suwr
from suwr.cli import app
from suwr.estimators.files import from_bytes, to_bytes
from suwr.exceptions import ModelFileError

JUNK = ["soon", "2024-02-30", "1e30", "nan", "20240301", "12", "<b>", "1999-12-31 23:59"]


def run(*words, code=0, **kwargs):
    done = CliRunner().invoke(app, [str(w) for w in words], **kwargs)
    assert done.exit_code == code, done.output
    return done.output


def table(n, seed):
    """Weekends are busy, except where the colour decides alone."""
    rng = np.random.default_rng(seed)
    days = pd.Series(pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"))
    colour = rng.choice(["red", "blue"], n)
    weekend = days.dt.day_of_week >= 5
    return pd.DataFrame(
        {
            "noise": rng.normal(size=n).round(3),
            "sold": days.dt.strftime("%d/%m/%Y"),
            "colour": colour,
            "busy": np.where((colour == "red") | weekend, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("dates")
    frame = table(400, 0)
    frame.loc[::40, "sold"] = None
    frame.to_csv(path / "train.csv", index=False)
    table(60, 1).to_csv(path / "test.csv", index=False)
    words = ["--target", "busy", "--dates", "sold", "--cost", "sold=8", "--max-epochs", 24,
             "--test-size", 50, "--test-out", path / "held.csv"]  # fmt: skip
    output = run("fit", path / "train.csv", *words, "--out", path / "m.suwr")
    (path / "fit.txt").write_text(output)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return suwr.load(folder / "m.suwr")


def test_parts_are_one_unit(folder, model):
    parts = ["sold year", "sold month", "sold day", "sold weekday"]
    assert model.feature_names_in_.tolist() == ["noise", *parts, "colour"]
    unit = model.units_.names.index("sold")
    assert [model.encoder_.names[c] for c in model.units_.columns_of(unit)] == parts
    assert model.units_.costs[unit] == 8
    assert len(model.units_) == 3
    assert "contains dates" not in (folder / "fit.txt").read_text()
    # The rows of --test-out have the original column.
    assert pd.read_csv(folder / "held.csv").columns.tolist() == ["noise", "sold", "colour", "busy"]
    table = (folder / "fit.txt").read_text().partition("training:\n")[2].partition("Wrote")[0]
    assert run("score", folder / "m.suwr", folder / "held.csv") == table


def test_commands_take_the_original_column(folder, model, tmp_path):
    raw = pd.read_csv(folder / "test.csv", dtype=str)
    X = model.dates_.transform(raw)[model.feature_names_in_]
    days = pd.to_datetime(raw["sold"], dayfirst=True)
    assert X["sold month"].tolist() == days.dt.month.tolist()
    run("predict", folder / "m.suwr", folder / "test.csv", "--out", tmp_path / "p.csv")
    found = pd.read_csv(tmp_path / "p.csv")
    assert found["prediction"].tolist() == model.predict(X).tolist()
    scored = json.loads(run("score", folder / "m.suwr", folder / "test.csv", "--json"))
    assert scored["scores"]["accuracy"]["value"] == model.score(X, raw["busy"])
    row = int(np.flatnonzero(model.select(X)[:, 1])[0])
    output = run("explain", folder / "m.suwr", folder / "test.csv", "--row", row,
                 "--html", tmp_path / "page.html")  # fmt: skip
    assert f"sold weekday is {days[row].day_name()}" in " ".join(output.split())
    assert (tmp_path / "page.html").stat().st_size > 1000
    output = run("audit", folder / "test.csv", "--model", folder / "m.suwr", "--target", "busy")
    assert "LEAK-FREE BY CONSTRUCTION" in output
    receipts = tmp_path / "r.jsonl"
    run("explain", folder / "m.suwr", folder / "test.csv", "--receipts", receipts)
    assert "60 of 60 receipts are verified" in run("verify", receipts, "--model", folder / "m.suwr")


def test_folders_of_files(folder, model, tmp_path):
    raw = pd.read_csv(folder / "test.csv")
    (tmp_path / "parts").mkdir()
    dates = pd.to_datetime(raw["sold"], dayfirst=True)
    raw.assign(sold=dates).to_parquet(tmp_path / "parts" / "a.parquet")
    run("predict", folder / "m.suwr", tmp_path / "parts", "--out", tmp_path / "scored")
    found = pd.concat([pd.read_parquet(p) for p in (tmp_path / "scored").glob("*.parquet")])
    X = model.dates_.transform(raw)[model.feature_names_in_]
    assert found["prediction"].tolist() == model.predict(X).tolist()


def test_hidden_dates_have_no_influence(folder, model, tmp_path):
    raw = pd.read_csv(folder / "test.csv", dtype=str)
    X = model.dates_.transform(raw)[model.feature_names_in_]
    hidden = np.flatnonzero(~model.select(X)[:, 1:5].any(axis=1))
    assert 0 < len(hidden) < len(raw)
    poisoned = raw.copy()
    for number, row in enumerate(hidden):
        poisoned.loc[row, "sold"] = JUNK[number % len(JUNK)]
    written = []
    for name, frame in (("clean", raw), ("poisoned", poisoned)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        run("predict", folder / "m.suwr", tmp_path / f"{name}.csv", "--out", tmp_path / "p.csv")
        written.append((tmp_path / "p.csv").read_bytes())
        run("explain", folder / "m.suwr", tmp_path / f"{name}.csv", "--json", tmp_path / "e.json")
        written.append((tmp_path / "e.json").read_bytes())
    assert written[:2] == written[2:]


@pytest.mark.parametrize("cell", ["soon", "31/02/2024", "12"])
def test_revealed_cells_must_be_dates(folder, model, tmp_path, cell):
    raw = pd.read_csv(folder / "test.csv", dtype=str)
    X = model.dates_.transform(raw)[model.feature_names_in_]
    row = int(np.flatnonzero(model.select(X)[:, 1])[0])
    raw.loc[row, "sold"] = cell
    raw.to_csv(tmp_path / "bad.csv", index=False)
    words = ["predict", folder / "m.suwr", tmp_path / "bad.csv", "--out", tmp_path / "p.csv"]
    assert f"Row {row} of column 'sold year' must be" in run(*words, code=1)
    raw[["noise", "sold", "colour", "busy"]].to_csv(tmp_path / "bad.csv", index=False)
    words = ["fit", tmp_path / "bad.csv", "--target", "busy", "--dates", "sold"]
    output = run(*words, "--out", tmp_path / "x.suwr", code=1)
    assert f"Row {row} of column 'sold' must be a date" in " ".join(output.split())


@pytest.mark.filterwarnings("ignore::suwr.exceptions.StartWarning")
def test_ask_asks_for_the_date(folder, model, tmp_path):
    record = tmp_path / "record.json"
    words = ["ask", folder / "m.suwr", "--record", record, "--known", "colour=blue",
             "--known", "noise=0"]  # fmt: skip
    output = run(*words, input="soon\n2024-03-02\n02/03/2024\n\n")
    assert output.count("sold (a date such as 31.12.2024)") == 3
    assert "Please enter a date such as 31.12.2024. Got 'soon'." in output
    log = json.loads(record.read_text())["session"]["answers"]
    assert {a["column"]: a["value"] for a in log} == {
        "sold year": 2024.0, "sold month": 3.0, "sold day": 2.0, "sold weekday": 6.0,
    }  # fmt: skip
    row = pd.DataFrame({"noise": [0.0], "sold": ["02/03/2024"], "colour": ["blue"]})
    X = model.dates_.transform(row)[model.feature_names_in_]
    known = np.isin(model.feature_names_in_, ["noise", "colour"])
    expected = model.predict(X, known=np.atleast_2d(known))[0]
    assert f"Predicted {expected}" in output
    # Enter and 'missing' are missing dates; a known date is not asked for.
    run(*words, input="missing\n\n")
    log = json.loads(record.read_text())["session"]["answers"]
    assert {a["value"] for a in log} == {None}
    known = ["ask", folder / "m.suwr", "--known", "sold=02/03/2024", "--record", record]
    assert "sold (a date" not in run(*known, input="blue\n0\n\n\n\n")
    assert "Please enter a date" in run(*words, "--known", "sold=soon", code=1)
    assert "two values for 'sold'" in run(*known, "--known", "sold=02/03/2024", code=1)


def test_groups_and_labels_may_name_dates(folder, tmp_path):
    labels = {"sold": {"label": "Date of sale"}, "noise": {"unit": "dB"}}
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    run("fit", folder / "train.csv", "--target", "busy", "--dates", "sold", "--group",
        "sale=sold,noise", "--columns", tmp_path / "labels.json", "--max-epochs", 1,
        "--out", tmp_path / "m.suwr")  # fmt: skip
    model = suwr.load(tmp_path / "m.suwr")
    assert set(model.units_.names) == {"sale", "colour"}
    assert model.columns["sold month"]["label"] == "Date of sale month"
    assert model.columns["sold weekday"]["categories"][1] == "Monday"
    assert model.columns["noise"] == {"unit": "dB"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dates", "sald"], "--dates must be a column"),
        (["--dates", "sold", "--date-order", "ydm"], "--date-order must be"),
        (["--dates", "sold", "--drop", "sold"], "--dates and --drop must not name the same"),
        (["--dates", "busy"], "--dates and --target must not name the same"),
        (["--dates", "colour"], "Row 0 of column 'colour' must be a date"),
        (["--dates", "sold", "--date-order", "mdy"], "must be a date such as 12/31/2024"),
    ],
)
def test_invalid_options(folder, tmp_path, options, message):
    words = ["fit", folder / "train.csv", "--target", "busy", "--out", tmp_path / "x.suwr"]
    assert message in " ".join(run(*words, *options, code=1).split())
    assert not (tmp_path / "x.suwr").exists()


def test_forged_files_are_refused(model):
    forged = from_bytes(to_bytes(model))
    forged.dates_ = suwr.DateParts.from_list([{"name": "x", "order": "ymd", "parts": ["year"]}])
    with pytest.raises(ModelFileError, match="The parts of its dates are not columns"):
        from_bytes(to_bytes(forged))
