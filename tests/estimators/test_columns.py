"""The parameter ``columns`` of the estimators, and its form in model files."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import suwr
from suwr.cli import app
from suwr.estimators.container import FileCheckpoint, pack, unpack
from suwr.estimators.files import from_bytes, to_bytes
from suwr.exceptions import ModelFileError

COLUMNS = {
    "age": suwr.Column("Age", "years"),
    "city": {"label": "Town", "categories": {"Oslo": "Oslo, Norway"}},
}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.RandomState(0)
    age, city = rng.randint(18, 80, 200), rng.choice(["Oslo", "Rome"], 200)
    return pd.DataFrame({"age": age, "city": city})


@pytest.fixture(scope="module")
def model(frame):
    y = frame["age"] + 30.0 * (frame["city"] == "Oslo")
    return suwr.SUWRRegressor(
        columns=COLUMNS,
        trainer="reinforce",
        max_epochs=8,
        training={"hidden_size": 16},
        sparsity_weight=0.0,
        random_state=0,
    ).fit(frame, y)


QUICK = {"trainer": "reinforce", "max_epochs": 1, "training": {"hidden_size": 8}, "random_state": 0}


def test_classes_that_are_numbers_are_shown_with_the_name_of_the_target(frame):
    y = (frame["age"] > 40).astype(int).rename("ill")
    text = suwr.SUWRClassifier(**QUICK).fit(frame, y).explain(frame[:1]).text()
    assert "ill = 1 (" in text
    assert "Predicted ill = " in text
    unnamed = suwr.SUWRClassifier(**QUICK).fit(frame, y.to_numpy()).explain(frame[:1]).text()
    assert "ill" not in unnamed


def test_the_target_can_be_described(frame):
    y = (frame["age"] > 40).astype(int).rename("ill")
    columns = {"ill": suwr.Column(categories={0: "healthy", 1: "ill"})}
    model = suwr.SUWRClassifier(columns=columns, **QUICK).fit(frame, y)
    explanation = from_bytes(to_bytes(model)).explain(frame[:1])
    assert explanation.text() == model.explain(frame[:1]).text()
    assert "Predicted healthy" in explanation.text() or "Predicted ill" in explanation.text()
    assert "ill = " not in explanation.text()
    assert suwr.Explanation.from_json(explanation.to_json()).text() == explanation.text()
    # Labels remain those of y.
    assert explanation[0].label in (0, 1)
    wrong = {"ill": suwr.Column(categories={2: "healthy"})}
    with pytest.raises(ValueError, match=r"classes of 'ill': 0, 1\. Got 2"):
        suwr.SUWRClassifier(columns=wrong, **QUICK).fit(frame, y)


def test_descriptions_are_used_and_stored(model, frame):
    explanation = model.explain(frame[:9])
    text = explanation.text()
    assert "Age is" in text
    assert " years (" in text
    assert "Town is Oslo, Norway" in text
    # Decisions do not depend on labels: neither do predictions, masks and names in results.
    plain = from_bytes(to_bytes(model)).set_params(columns=None)
    assert (plain.predict(frame) == model.predict(frame)).all()
    assert plain.explain(frame[:9]) == explanation
    assert "Age" not in plain.explain(frame[:9]).text()
    assert set(explanation.usage()["unit"]) == {"age", "city"}
    loaded = from_bytes(to_bytes(model))
    assert loaded.explain(frame[:9]).text() == text
    assert to_bytes(loaded) == to_bytes(model)
    assert clone(model).columns == COLUMNS


def test_plots_show_labels(model, frame):
    pytest.importorskip("matplotlib")
    explanation = model.explain(frame[:9])
    labels = [t.get_text() for t in explanation[0].plot().get_yticklabels()]
    assert any("Age = " in label and "years" in label for label in labels)
    usage = suwr.plots.plot_usage(explanation)
    assert {t.get_text() for t in usage.get_yticklabels()} == {"Age", "Town"}
    flow = suwr.plots.plot_flow(explanation)
    assert any(t.get_text().startswith("Age") for t in flow.texts)


def test_fit_refuses_invalid_descriptions_before_training(frame):
    model = suwr.SUWRRegressor(columns={"height": {}})
    with pytest.raises(ValueError, match=r"'columns' parameter of SUWRRegressor .* Got 'height'"):
        model.fit(frame, frame["age"])


@pytest.mark.parametrize(
    "columns",
    [
        [], "age", {"height": {}}, {"age": []}, {"age": {"label": 3}}, {"age": {"label": ""}},
        {"age": {"label": "x" * 10**5}}, {"age": {"__patches__": [1]}}, {"age": {"unit": ["m"]}},
        {"age": {"categories": {"a": "b"}}}, {"age": {"categories": {"1": {}}}},
        {"age": {"label": "city"}}, {"city": {"categories": {str(i): "a" for i in range(2000)}}},
    ],
)  # fmt: skip
def test_files_with_invalid_descriptions_are_refused(model, columns):
    text, tensors = unpack(to_bytes(model), "m")
    state = json.loads(text)
    assert state["params"]["columns"]["age"] == {"label": "Age", "unit": "years"}
    state["params"]["columns"] = columns
    with pytest.raises(ModelFileError):
        from_bytes(pack(json.dumps(state), tensors))


def test_files_without_descriptions_have_no_such_parameter(model):
    plain = from_bytes(to_bytes(model)).set_params(columns=None)
    text, _ = unpack(to_bytes(plain), "m")
    # An earlier version refuses parameters that it does not know.
    assert "columns" not in json.loads(text)["params"]


def test_checkpoints_do_not_depend_on_descriptions(frame, tmp_path, monkeypatch):
    columns = {"age": {"categories": {18: "young", "79": "old"}}}
    model = suwr.SUWRRegressor(
        columns=columns,
        max_epochs=1,
        training={"hidden_size": 4},
        random_state=0,
    )
    monkeypatch.setattr(FileCheckpoint, "remove", lambda checkpoint: None)
    for described in (columns, None):
        model.set_params(columns=described)
        model.fit(frame, frame["age"], checkpoint=tmp_path / "c")
    with pytest.raises(ModelFileError, match="other data or parameters"):
        model.set_params(max_steps=1).fit(frame, frame["age"], checkpoint=tmp_path / "c")


def test_command_line(frame, tmp_path):
    table, columns, out = (tmp_path / n for n in ("t.csv", "c.json", "m.suwr"))
    frame.assign(y=frame["age"]).to_csv(table, index=False)
    words = ["fit", str(table), "--target", "y", "--out", str(out), "--columns", str(columns)]
    for content, message in (("{", "is not valid JSON"), ("[]", "column names as keys")):
        columns.write_text(content)
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 1
        assert message in done.output.replace("\n", " ")
    columns.write_text(json.dumps({"age": {"unit": "years"}}))
    done = CliRunner().invoke(app, [*words, "--max-epochs", "1", "--task", "regression"])
    assert done.exit_code == 0, done.output
    assert suwr.load(out).columns == {"age": {"unit": "years"}}
