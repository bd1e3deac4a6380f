"""The pyfunc flavour, and the guide's code as it is printed."""

import os
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import suwr
from helpers.services import DOCS
from helpers.tables import mixed_table
from suwr.deploy.mlflow import SuwrModel, load_model, log_model, save_model
from suwr.exceptions import MissingExtraError


def test_missing_extra_is_named(mixed_model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.delitem(sys.modules, "mlflow.pyfunc", raising=False)
    monkeypatch.delitem(sys.modules, "mlflow.models", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'suwr\[mlflow\]'"):
        save_model(mixed_model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_outputs(mixed_model):
    X = mixed_table()[0][:20]
    model = SuwrModel(mixed_model)
    assert (model.predict(X) == mixed_model.predict(X)).all()
    probabilities = model.predict(X, {"output": "probabilities"})
    assert list(probabilities.columns) == ["high", "low"]
    np.testing.assert_array_equal(probabilities, mixed_model.predict_proba(X))
    explanation = mixed_model.explain(X)
    assert model.predict(X, {"output": "narrative"})[3] == explanation[3].text()
    used = ", ".join(c for step in explanation[3].steps for c in step.columns)
    assert model.predict(X, {"output": "columns"})[3] == used
    with pytest.raises(ValueError, match="'output' parameter of predict must be one of"):
        model.predict(X, {"output": "mask"})
    with pytest.raises(ValueError, match="Got 'weight'"):
        model.predict(X, {"weight": 1})


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A tracking store in a folder, in place of a server, which mlflow-skinny cannot start."""
    import mlflow
    from mlflow.store.model_registry import file_store as registry
    from mlflow.store.tracking import file_store as tracking

    allowed = SimpleNamespace(get=lambda: True)
    for module in (registry, tracking):
        monkeypatch.setattr(module, "MLFLOW_ALLOW_FILE_STORE", allowed)
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield mlflow
    mlflow.set_tracking_uri(None)


def guide_blocks():
    """Return the code of the section on MLflow: without and with a tracking server."""
    text = (DOCS / "guides" / "saving.md").read_text()
    section = text.split("\n## MLflow\n")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```$", section, flags=re.DOTALL | re.MULTILINE)


def test_guide_runs_as_printed(mixed_model, tmp_path, monkeypatch):
    warnings.filterwarnings("ignore", module="mlflow")
    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ
    monkeypatch.chdir(tmp_path)
    [code, _] = guide_blocks()
    X = mixed_table()[0].astype({"level": float})
    namespace = {"reg": mixed_model, "X": X}
    exec(code, namespace)
    assert (namespace["loaded"].predict(X) == mixed_model.predict(X)).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:::mlflow")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_guide_runs_with_a_tracking_store(mixed_model, store):
    X = mixed_table()[0].astype({"level": float})
    namespace = {"reg": mixed_model, "X": X, "mlflow": store}
    exec(guide_blocks()[1], namespace)
    assert (namespace["loaded"].predict(X) == mixed_model.predict(X)).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:::mlflow")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_logged_model_predicts_as_the_estimator(mixed_model, store, tmp_path):
    X = mixed_table()[0]
    X = X.assign(level=X["level"].astype("int64"))
    with store.start_run():
        info = log_model(mixed_model, "risk", input_example=X[:3], metadata={"purpose": "test"})
    assert info.signature.inputs.input_names() == list(X.columns)
    assert [p.name for p in info.signature.params.params] == ["output"]
    loaded = store.pyfunc.load_model(info.model_uri)
    assert (loaded.predict(X) == mixed_model.predict(X)).all()
    texts = loaded.predict(X[:2], params={"output": "narrative"})
    assert list(texts) == [n.text() for n in mixed_model.explain(X[:2])]
    folder = store.artifacts.download_artifacts(info.model_uri)
    estimator = load_model(folder)
    assert isinstance(estimator, suwr.SUWRClassifier)
    assert (estimator.select(X) == mixed_model.select(X)).all()
    flavor = store.models.Model.load(folder).flavors["suwr"]
    assert flavor["suwr_version"] == suwr.__version__
    assert store.models.Model.load(folder).load_input_example(folder).equals(X[:3])
    # Another process finds the loader by its name, and no pickle is involved.
    code = f"import mlflow; print(mlflow.pyfunc.load_model({folder!r}).metadata.flavors.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "suwr" in done.stdout


def test_folder_must_be_empty(mixed_model, store, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "file").touch()
    with pytest.raises(FileExistsError, match="is not empty"):
        save_model(mixed_model, tmp_path / "model")
