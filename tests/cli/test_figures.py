"""The command ``suwr figures``."""

import pytest
from typer.testing import CliRunner

import suwr
from suwr.cli import app


@pytest.fixture(scope="module")
def folder(classifier, cancer, tmp_path_factory):
    path = tmp_path_factory.mktemp("figures")
    X, y = cancer
    classifier.save(path / "m.suwr")
    X.iloc[:30, :10].assign(kind=y[:30]).to_csv(path / "test.csv", index=False)
    (path / "references.json").write_text('{"published": [[1, 2], [70, 80]], "all": 99}')
    (path / "invalid.json").write_text("[1]")
    return path


def run(folder, *options):
    command = ["figures", f"{folder}/m.suwr", f"{folder}/test.csv", *options]
    return CliRunner().invoke(app, [word.format(folder) for word in command])


def test_figures_are_written(folder, tmp_path):
    options = ["--target", "kind", "--out", str(tmp_path / "drawn"), "--pair", "0, 1"]
    options += ["--also", "{}/m.suwr", "--references", "{}/references.json"]
    result = run(folder, *options)
    assert result.exit_code == 0, result.output
    written = sorted(path.name for path in (tmp_path / "drawn").iterdir())
    assert "accuracy.png" in written
    assert result.output.count("Wrote ") == len(written)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "none"], "--target must be a column"),
        ([], "--target must be a column of test.csv"),
        (["--target", "kind", "--pair", "0"], "--pair must be two of the classes 0, 1"),
        (["--target", "kind", "--flip", "3,8"], "--flip must be two of the classes"),
        (["--target", "kind", "--out", "{}/test.csv"], "--out must be a folder"),
        (["--target", "kind", "--references", "{}/invalid.json"], "--references must be"),
    ],
)
def test_invalid_options(folder, options, message):
    result = run(folder, *options)
    assert result.exit_code != 0
    assert message in result.output


def test_target_is_by_default_that_of_the_fit(folder, tmp_path):
    named = suwr.load(folder / "m.suwr")
    named.target_name_ = "kind"
    named.save(tmp_path / "m.suwr")
    out = tmp_path / "drawn"
    command = ["figures", f"{tmp_path}/m.suwr", f"{folder}/test.csv", "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert (out / "accuracy.png").exists()
