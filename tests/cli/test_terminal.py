"""Names of columns, classes, categories and files are printed as data by every command."""

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import suwr
from suwr.cli import app
from suwr.cli.options import Terminal, print_error

RED, RIGHT_TO_LEFT = "\x1b[31m", "\u202e"
COLUMN = f"size{RED}[bold]"
COLOUR = "colour\nError: none\r"
CATEGORIES = [f"blue{RIGHT_TO_LEFT}", "red\x1b]0;title\x07"]
CLASSES = [f"yes{RED}", "no\x9b31m:smile:"]
FILE = f"a[bold]:smile:{RED}\n{RIGHT_TO_LEFT}"


def run(*words, **options):
    return CliRunner().invoke(app, [str(w) for w in words], **options)


def check(done, *shown):
    """Assert that the output has no control character and shows the given texts."""
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", done.output), done.output
    for text in shown:
        assert text in done.output
    # A line break in a name does not start a line.
    assert "\nError: none" not in done.output
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with hostile names in a file with a hostile name, and a model trained on it."""
    path = tmp_path_factory.mktemp("terminal") / FILE
    path.mkdir()
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({COLUMN: rng.randn(120), COLOUR: rng.choice(CATEGORIES, 120)})
    chosen = (frame[COLOUR] == CATEGORIES[0]) ^ (frame[COLUMN] > 0)
    frame["y"] = np.where(chosen, *CLASSES)
    frame.to_parquet(path / "rows.parquet")
    frame.to_csv(path / "rows.csv", index=False)
    words = ["--target", "y", "--out", path / "m.suwr", "--max-epochs", 6, "--sparsity-weight", 0]
    done = run("fit", path / "rows.parquet", *words)
    assert done.exit_code == 0, done.output
    check(done, r"Wrote ", r"a[bold]:smile:\x1b[31m\x0a\u202e")
    return path


def test_a_file_whose_name_is_also_a_pattern(folder, tmp_path):
    """Files that match the pattern are not read instead."""
    text = (folder / "rows.csv").read_text()
    (tmp_path / "data[1].csv").write_text(text)
    (tmp_path / "data1.csv").write_text("other\n1\n")
    words = ["--target", "y", "--out", tmp_path / "m.suwr", "--max-epochs", 1]
    done = run("fit", tmp_path / "data[1].csv", *words)
    assert done.exit_code == 0, done.output


def test_predict(folder):
    done = run("predict", folder / "m.suwr", folder / "rows.parquet", "--out", folder / "p.csv")
    check(done, r"a[bold]:smile:\x1b[31m\x0a\u202e/p.csv")
    parts = folder / "parts"
    parts.mkdir()
    pd.read_parquet(folder / "rows.parquet").to_parquet(parts / "0[bold].parquet")
    done = run("predict", folder / "m.suwr", parts, "--out", folder / "scored")
    check(done, r"a[bold]:smile:\x1b[31m\x0a\u202e/scored")


def test_explain(folder):
    words = ["--json", folder / "e.json", "--html", folder / "e.html"]
    done = run("explain", folder / "m.suwr", folder / "rows.parquet", "--row", 0, *words)
    assert done.exit_code == 0, done.output
    check(
        done, r"size\x1b[31m[bold] is", r"colour\x0aError: none\x0d is", r"yes\x1b[31m",
        r"no\x9b31m:smile:", r"a[bold]:smile:\x1b[31m\x0a\u202e/e.json",
    )  # fmt: skip
    assert "blue\\u202e" in done.output or r"red\x1b]0;title\x07" in done.output
    # Files keep the names as they are.
    narrative = suwr.Explanation.from_json((folder / "e.json").read_text())[0]
    assert set(narrative.classes) == set(CLASSES)


def test_ask(folder):
    done = run("ask", folder / "m.suwr", "--record", folder / "r.json", input="1\n" * 9)
    check(
        done, r"size\x1b[31m[bold] (a number", r"colour\x0aError: none\x0d (blue\u202e, red\x1b",
        r"a[bold]:smile:\x1b[31m\x0a\u202e/r.json", "Got '1'. Type it again",
    )  # fmt: skip


def test_audit(folder):
    model, report = folder / "m.suwr", folder / "r.json"
    done = run("audit", folder / "rows.csv", "--model", model, "--target", "y", "--json", report)
    assert done.exit_code == 0, done.output
    check(done, "LEAK-FREE", r"a[bold]:smile:\x1b[31m\x0a\u202e/r.json")
    shown = (pd.read_csv(folder / "rows.csv")[COLUMN] > 0).astype(int)
    pd.DataFrame({COLUMN: 1 - shown, COLOUR: 1}).to_csv(folder / "masks.csv", index=False)
    words = ["--masks", folder / "masks.csv", "--target", "y"]
    check(run("audit", folder / "rows.csv", *words), "Audit of ")


def test_audit_summary_and_witness():
    rng = np.random.RandomState(0)
    X = pd.DataFrame({COLUMN: rng.randn(200), COLOUR: rng.choice(CATEGORIES, 200)})

    def leaking(frame):
        shown = (frame[COLUMN] > 0).to_numpy()
        return np.column_stack([np.zeros(len(frame), dtype=bool), shown])

    report = suwr.audit(leaking, X, random_state=0)
    assert report.leaks
    summary = report.summary()
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", summary)
    assert r"size\x1b[31m[bold]" in summary
    assert r"colour\x0aError: none\x0d" in summary


def test_figures(folder):
    words = ["--target", "y", "--out", folder / "figures"]
    done = run("figures", folder / "m.suwr", folder / "rows.parquet", *words)
    assert done.exit_code == 0, done.output
    check(done, r"a[bold]:smile:\x1b[31m\x0a\u202e/figures")
    done = run("figures", folder / "m.suwr", folder / "rows.parquet", *words, "--pair", RED)
    check(done, r"no\x9b31m:smile:", r"Got '\x1b[31m'")


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "{}/rows.csv", "--target", RED, "--out", "{}/x.suwr"],
        ["fit", f"{{}}/{RED}.csv", "--target", "y", "--out", "{}/x.suwr"],
        ["fit", "{}/rows.csv", "--target", "y", "--out", f"{{}}/{RED}/x.suwr"],
        ["fit", "{}/rows.csv", "--target", "y", "--out", "{}/x.suwr", "--group", f"{RED}=b"],
        ["fit", "{}/rows.csv", "--target", "y", "--out", "{}/x.suwr", "--cost", f"{RED}=much"],
        ["predict", f"{{}}/{RED}.suwr", "{}/rows.csv", "--out", "{}/p.csv"],
        ["predict", "{}/m.suwr", "{}/masks.csv", "--out", "{}/p.csv"],
        ["explain", "{}/m.suwr", "{}/rows.csv", "--row", "0", "--html", "{}"],
        ["explain", "{}/m.suwr", "{}/rows.csv", "--html", "{}/e.html", "--target", RED],
        ["ask", f"{{}}/{RED}"],
        ["ask", "{}/m.suwr", "--record", "{}"],
        ["audit", f"{{}}/{RED}.csv", "--model", "{}/m.suwr"],
        ["figures", "{}/m.suwr", "{}/rows.csv", "--target", RED],
        ["demo", "--out", "{}/rows.csv"],
        [RED],
        ["ask", f"--{RED}"],
        ["ask", "a", RED],
    ],
)
def test_errors_of_every_command(folder, words):
    pd.DataFrame({"other": [1]}).to_csv(folder / "masks.csv", index=False)
    done = run(*(w.format(folder) for w in words))
    assert done.exit_code != 0
    check(done)


def test_markup_and_emoji_codes_are_text(capsys):
    terminal = Terminal()
    terminal.print_written("a[bold].csv", "[red]x[/red]")
    terminal.print(":smile: [/nothing]")
    assert capsys.readouterr().out == ("Wrote [red]x[/red] to a[bold].csv\n:smile: [/nothing]\n")
    print_error(f"one\n{RED}  two")
    assert capsys.readouterr().err == "Error: one \\x1b[31m two\n"
