"""The command ``suwr demo``."""

import re

from typer.testing import CliRunner

import suwr
from suwr.cli import app


def test_demo_reports_results_and_writes_files(tmp_path, monkeypatch):
    class Brief(suwr.SUWRClassifier):
        """The same model with few epochs."""

        def fit(self, X, y):
            return self.set_params(max_epochs=6, training={"hidden_size": 32}).fit_briefly(X, y)

        fit_briefly = suwr.SUWRClassifier.fit

    Brief.__init__ = suwr.SUWRClassifier.__init__
    monkeypatch.setattr("suwr.cli.fit.SUWRClassifier", Brief)
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    for words in (
        "accuracy",
        "AUROC",
        "gradient boosting",
        "selections and predictions are bit-identical",
    ):
        assert words in done.output
    assert len(re.findall(r"Row \d+\. Before anything is revealed", done.output)) == 3
    assert "of 30, leak-free" in done.output
    narratives = suwr.Explanation.from_json((tmp_path / "out" / "narratives.json").read_text())
    assert len(narratives) == 171
    assert "breast-cancer.suwr" in done.output
    assert "every diagnosis, step by step" in (tmp_path / "out" / "narratives.html").read_text()


def test_files_of_other_programs_are_not_replaced(tmp_path):
    (tmp_path / "narratives.txt").write_text("mine")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "contains another 'narratives.txt'" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["narratives.txt"]
    assert (tmp_path / "narratives.txt").read_text() == "mine"
