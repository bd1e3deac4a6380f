"""Options that are checked before anything is imported or read, and formats of CSV files."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import suwr
from suwr.cli import app
from suwr.cli.options import CsvFormat, check_outputs
from suwr.exceptions import TableError

FAST = ["--max-epochs", "2"]


def run(*words, **kwargs):
    return CliRunner().invoke(app, [str(w) for w in words], **kwargs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same table as UTF-8 with points, and as Latin-1 with semicolons and decimal commas."""
    path = tmp_path_factory.mktemp("options")
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {"größe": rng.randn(60).round(3), "stadt": rng.choice(["Köln", "Bonn"], 60)}
    )
    frame["ziel"] = np.where(frame["größe"] > 0, "ja", "nein")
    frame.to_csv(path / "data.csv", index=False)
    frame.to_csv(path / "latin.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    for name in ("data", "latin"):
        form = ["--sep", ";", "--encoding", "latin-1", "--decimal", ","] if name == "latin" else []
        words = ["--target", "ziel", "--out", path / f"{name}.suwr", *FAST, *form]
        done = run("fit", path / f"{name}.csv", *words)
        assert done.exit_code == 0, done.output
    return path


FORM = ["--sep", ";", "--encoding", "latin-1", "--decimal", ","]


def test_formats_give_the_same_model_and_predictions(folder):
    for name in ("data", "latin"):
        model = suwr.load(folder / f"{name}.suwr")
        # The digest and the format of the file that was read.
        model.training_file_ = model.csv_format_ = None
        model.save(folder / f"{name}-alone.suwr")
    alone = [(folder / f"{name}-alone.suwr").read_bytes() for name in ("data", "latin")]
    assert alone[0] == alone[1]
    for name, form in (("data", []), ("latin", FORM)):
        words = [folder / "data.suwr", folder / f"{name}.csv", "--out", folder / f"{name}.tsv"]
        assert run("predict", *words, *form).exit_code == 0
    assert (folder / "data.tsv").read_text() == (folder / "latin.tsv").read_text()
    told = run("explain", folder / "data.suwr", folder / "data.csv", "--row", 3)
    same = run("explain", folder / "data.suwr", folder / "latin.csv", "--row", 3, *FORM)
    assert told.output == same.output
    words = ["--target", "ziel", "--out", folder / "drawn"]
    done = run("figures", folder / "data.suwr", folder / "latin.csv", *words, *FORM)
    assert done.exit_code == 0, done.output
    done = run("audit", folder / "latin.csv", "--model", folder / "data.suwr", *FORM)
    assert done.exit_code == 0, done.output


def test_a_model_remembers_the_format_of_its_table(folder):
    model, out = folder / "latin.suwr", folder / "remembered.tsv"
    done = run("predict", model, folder / "latin.csv", "--out", out)
    assert done.exit_code == 0, done.output
    assert "Compared with the column" in done.output
    assert (
        run("predict", model, folder / "latin.csv", "--out", folder / "l.tsv", *FORM).exit_code == 0
    )
    assert out.read_text() == (folder / "l.tsv").read_text()
    for words in (
        ["score", model, folder / "latin.csv"],
        ["audit", folder / "latin.csv", "--model", model],
    ):
        done = run(*words)
        assert done.exit_code == 0, done.output
    # A file of another format is read with its options, or there is a hint.
    done = run("score", model, folder / "data.csv")
    assert done.exit_code == 1
    assert "its separator may be --sep ','" in done.output
    other = ["--sep", ",", "--encoding", "utf-8", "--decimal", "."]
    assert run("score", model, folder / "data.csv", *other).exit_code == 0


def test_test_rows_have_the_format_of_the_table(folder, tmp_path):
    held_out, model = tmp_path / "test.csv", tmp_path / "m.suwr"
    words = ["--target", "ziel", "--out", model, "--test-size", 12, "--test-out", held_out]
    done = run("fit", folder / "latin.csv", *words, *FAST, *FORM)
    assert done.exit_code == 0, done.output
    lines = held_out.read_text(encoding="latin-1").splitlines()
    assert lines[0] == "größe;stadt;ziel"
    assert set(lines[1:]) <= set((folder / "latin.csv").read_text(encoding="latin-1").splitlines())
    done = run("score", model, held_out)
    assert "12 rows" in done.output


def test_hidden_cells_with_commas_do_not_matter(folder):
    """Decimal separators are replaced in each cell by itself."""
    model = suwr.load(folder / "data.suwr")
    frame = pd.read_csv(folder / "latin.csv", sep=";", encoding="latin-1", dtype=str)
    hidden = ~model.select(pd.read_csv(folder / "data.csv").drop(columns="ziel"))
    before = run("explain", folder / "data.suwr", folder / "latin.csv", "--row", 3, *FORM).output
    frame.iloc[:, :2] = frame.iloc[:, :2].mask(hidden, "x,y")
    frame.to_csv(folder / "poison.csv", index=False, sep=";", encoding="latin-1")
    after = run("explain", folder / "data.suwr", folder / "poison.csv", "--row", 3, *FORM).output
    assert after == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "{}/latin.csv", "--target", "ziel"], "the byte 0xf6 is not valid UTF-8"),
        (["fit", "{}/latin.csv", "--target", "ziel"], "try --encoding latin-1"),
        (
            ["fit", "{}/latin.csv", "--target", "ziel", "--encoding", "latin-1"],
            "The file has a single column; its separator may be --sep ';'",
        ),
        (["fit", "{}/data.csv", "--target", "zeil"], "Did you mean 'ziel'?"),
        (["fit", "{}/data.csv", "--target", "ziel", "--drop", "stad"], "Did you mean 'stadt'?"),
        (["fit", "{}/data.csv", "--target", "ziel", "--sep", "::"], "--sep must be a single"),
        (["fit", "{}/data.csv", "--target", "ziel", "--encoding", "utf9"], "--encoding must be"),
        (["fit", "{}/data.csv", "--target", "ziel", "--decimal", ";"], "--decimal must be"),
        (["fit", "{}/data.csv", "--target", "ziel", "--sep", "→"], "--sep must be a single"),
        (["fit", "{}/data.csv", "--target", "ziel", "--encoding", "hex"], "--encoding must be"),
        (["fit", "{}", "--target", "ziel", "--sep", ";"], "require a single file"),
        (["predict", "{}/data.csv", "{}/data.csv"], "is not a suwr model file"),
        (["predict", "{}/data.suwr", "{}/gone.csv"], "gone.csv' does not exist"),
    ],
)
def test_mistakes(folder, words, message):
    done = run(*(w.format(folder) for w in words), "--out", folder / "x.csv")
    assert done.exit_code == 1
    assert message in done.output
    assert len(done.output.splitlines()) == 1
    assert not (folder / "x.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["fit", "--help"],
        ["fit", "data.csv", "--target", "zeil", "--out", "x.suwr"],
        ["fit", "data.csv", "--target", "ziel", "--out", "x.suwr", "--task", "magic"],
        ["fit", "data.csv", "--target", "ziel", "--out", "x.suwr", "--cost", "a=much"],
        ["predict", "gone.suwr", "data.csv", "--out", "p.csv"],
        ["explain", "data.suwr", "data.csv"],
        ["audit", "data.csv"],
        ["ask", "gone.suwr"],
        ["figures", "data.suwr", "data.csv", "--target", "zeil"],
    ],
)
def test_mistakes_are_reported_before_heavy_imports(folder, words):
    code = (
        "import sys; sys.argv = ['suwr', *sys.argv[1:]]\n"
        "from suwr.cli import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        "print('heavy', {'torch', 'pandas', 'sklearn', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=folder, check=True
    )
    assert done.stdout.splitlines()[-1] == "heavy set()"


def test_a_long_list_of_columns_says_how_many_are_left_out(tmp_path):
    (tmp_path / "a.csv").write_text(",".join(f"c{i}" for i in range(15)) + "\n")
    with pytest.raises(TableError, match=r"c10, c11, … \(3 more\)\. Got 'z'\."):
        CsvFormat().check_column(tmp_path / "a.csv", "z", "--target")


@pytest.mark.filterwarnings("default::suwr.exceptions.ColumnWarning")
def test_identifiers_are_left_out_on_request(folder):
    frame = pd.read_csv(folder / "data.csv").assign(case=np.arange(60), other=1)
    frame.to_csv(folder / "ids.csv", index=False)
    words = ["fit", folder / "ids.csv", "--target", "ziel", "--out", folder / "i.suwr", *FAST]
    done = run(*words)
    assert "Column 'case' looks like an identifier" in done.output
    assert "case" in suwr.load(folder / "i.suwr").feature_names_in_
    done = run(*words, "--drop-identifiers", "--drop", "other")
    assert "Not used, as identifiers: case." in done.output
    assert suwr.load(folder / "i.suwr").feature_names_in_.tolist() == ["größe", "stadt"]


@pytest.mark.filterwarnings("default::suwr.exceptions.ColumnWarning")
def test_texts_that_mean_missing(folder, tmp_path):
    frame = pd.read_csv(folder / "data.csv")[["stadt", "ziel"]].assign(wert=np.arange(60) % 7 + 0.5)
    frame["wert"] = frame["wert"].astype(str).str.replace(".", ",")
    frame.loc[[3, 9], "wert"] = ["n.d.", "<0,3"]
    data, model = tmp_path / "bad.csv", tmp_path / "m.suwr"
    frame.to_csv(data, index=False, sep=";")
    words = ["fit", data, "--target", "ziel", "--out", model, *FAST, "--sep", ";", "--decimal", ","]
    done = run(*words)
    told = " ".join(done.output.split())
    assert "2 of its 60 values are not numbers: row 3 is 'n.d.', row 9 is '<0,3'" in told
    assert "--missing-values 'n.d.,<*'" in told
    done = run(*words, "--missing-values", "n.d.,<*")
    assert done.exit_code == 0, done.output
    assert "not numbers" not in done.output
    code = suwr.load(model).fitted_policy().codes["wert"]
    assert (code.type, code.has_missing) == ("number", True)
    # The model remembers them.
    done = run("predict", model, data, "--out", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output


def test_separators():
    assert CsvFormat().separator(Path("a.tsv")) == "\t"
    assert CsvFormat(sep="\\t").separator(Path("a.csv")) == "\t"


def test_outputs_do_not_replace_inputs_or_each_other(tmp_path):
    model, data, link = tmp_path / "m.suwr", tmp_path / "data.csv", tmp_path / "link.csv"
    hard = tmp_path / "hard.csv"
    data.write_text("a\n1\n")
    link.symlink_to(data)
    hard.hardlink_to(data)
    check_outputs({"--out": tmp_path / "new.csv", "--html": None}, model, data, None)
    for path in (data, link, hard, tmp_path / "." / "data.csv"):
        with pytest.raises(ValueError, match="--out must not be a file that the command also"):
            check_outputs({"--out": path}, model, data)
    with pytest.raises(ValueError, match="--html must not be"):
        check_outputs({"--json": tmp_path / "x", "--html": tmp_path / "x"}, model)


@pytest.mark.parametrize("data", ["rows/*.parquet", "rows", "rows/b.parquet"])
@pytest.mark.parametrize("out", ["rows/b.parquet", "hard.parquet"])
def test_a_fit_does_not_replace_one_of_its_files(tmp_path, data, out):
    (tmp_path / "rows").mkdir()
    for name in ("a", "b"):
        pd.DataFrame({"x": [1.0, 2], "y": [0, 1]}).to_parquet(tmp_path / f"rows/{name}.parquet")
    (tmp_path / "hard.parquet").hardlink_to(tmp_path / "rows/b.parquet")
    done = run("fit", tmp_path / data, "--target", "y", "--out", tmp_path / out, "--stream")
    assert done.exit_code == 1
    assert "--out must not be a file that the command also reads" in done.output
    assert len(pd.read_parquet(tmp_path / "rows/b.parquet")) == 2


def test_other_inputs_are_not_replaced(folder, tmp_path):
    columns = tmp_path / "columns.json"
    columns.write_text("{}")
    done = run(
        "fit", folder / "data.csv", "--target", "ziel", "--columns", columns, "--out", columns
    )
    assert "--out must not be a file that the command also reads" in done.output
    drawn = tmp_path / "drawn"
    drawn.mkdir()
    model = drawn / "usage.png"
    model.write_bytes((folder / "data.suwr").read_bytes())
    done = run("figures", model, folder / "data.csv", "--target", "ziel", "--out", drawn)
    assert done.exit_code == 1
    assert model.read_bytes() == (folder / "data.suwr").read_bytes()


@pytest.fixture(scope="module")
def uneven(folder):
    """Files whose rows have a field more or less than the header, and the line of the first."""
    lines = (folder / "data.csv").read_text().splitlines()
    comma = [lines[0], lines[1].replace(",", ",,", 1), *lines[2:]]
    files = {
        "comma": (comma, 2),
        "trailing": ([lines[0], *(f"{line}," for line in lines[1:])], 2),
        "short": ([*lines[:30], lines[30].rpartition(",")[0], *lines[31:]], 31),
    }
    for name, (text, _) in files.items():
        (folder / f"{name}.csv").write_text("\n".join(text))
    return {name: line for name, (_, line) in files.items()}


@pytest.mark.parametrize("name", ["comma", "trailing", "short"])
@pytest.mark.parametrize(
    "words",
    [
        ["fit", "{data}", "--target", "ziel", "--out", "{out}.suwr"],
        ["fit", "{data}", "--target", "größe", "--out", "{out}.suwr"],
        ["predict", "{model}", "{data}", "--out", "{out}.csv"],
        ["predict", "{model}", "{data}", "--out", "{out}"],
        ["score", "{model}", "{data}"],
        ["explain", "{model}", "{data}", "--row", "40"],
        ["explain", "{model}", "{data}", "--receipts", "{out}.jsonl"],
        ["certify", "{model}", "{data}", "--out", "{out}.suwr"],
        ["figures", "{model}", "{data}", "--out", "{out}"],
        ["audit", "{data}", "--model", "{model}"],
        ["audit", "{data}", "--masks", "{data}"],
        ["form", "{model}", "--data", "{data}", "--out", "{out}.html"],
    ],
)
def test_rows_with_another_number_of_fields(folder, uneven, tmp_path, words, name):
    """pandas would shift or drop cells, or fill them with NaN."""
    paths = {"data": folder / f"{name}.csv", "model": folder / "data.suwr", "out": tmp_path / "x"}
    done = run(*(word.format(**paths) for word in words))
    assert done.exit_code == 1, done.output
    assert "must have 3 fields in every row" in done.output
    assert f"in line {uneven[name]} instead" in done.output
    assert [path for path in tmp_path.rglob("*") if path.name not in ("x", "_plan.json")] == []


def test_files_and_folders_have_the_same_rows(tmp_path):
    """A row without text is one of a single column, whose value is missing."""
    x = np.arange(40.0)
    model = suwr.SUWRRegressor(max_epochs=1, random_state=0).fit(pd.DataFrame({"x": x}), x)
    model.save(tmp_path / "m.suwr")
    (tmp_path / "rows.csv").write_text("x\r\n1\r\n\r\n30\r\n")
    for out in ("folder", "file.parquet"):
        done = run("predict", tmp_path / "m.suwr", tmp_path / "rows.csv", "--out", tmp_path / out)
        assert done.exit_code == 0, done.output
    expected = model.predict(pd.DataFrame({"x": [1, np.nan, 30]})).tolist()
    whole = pd.read_parquet(tmp_path / "file.parquet")
    parts = pd.read_parquet(tmp_path / "folder" / "part-00000.parquet")
    assert whole["prediction"].tolist() == parts["prediction"].tolist() == expected
