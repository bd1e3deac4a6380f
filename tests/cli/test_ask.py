"""The command ``suwr ask``: parsing of answers and whole sessions."""

import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import suwr
from suwr.cli import app
from suwr.cli.ask import Answer, UnseenError, describe, read_answer
from suwr.data.encode import ColumnCode, number_code

try:
    import pty
except ImportError:  # Windows has no terminals of this kind.
    pty = None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with a group, a category and a name that looks like markup."""
    path = tmp_path_factory.mktemp("ask")
    rng = np.random.RandomState(0)
    X = pd.DataFrame(
        {
            "height": rng.randn(200),
            "weight": rng.randn(200),
            "[red]colour": rng.choice(["red", "blue"], 200),
        }
    )
    # Four classes, which need both the size and the colour.
    tall = np.where(X["height"] + X["weight"] > 0, "tall ", "small ")
    model = suwr.SUWRClassifier(
        groups={"size": ["height", "weight"]},
        max_epochs=15,
        training={"hidden_size": 16},
        random_state=0,
    )
    model.fit(X, tall + X["[red]colour"].to_numpy(dtype=str)).save(path / "m.suwr")
    return path


def ask(folder, *answers, options=()):
    text = "".join(f"{answer}\n" for answer in answers)
    record = folder / "record.json"
    record.unlink(missing_ok=True)
    words = ["ask", str(folder / "m.suwr"), "--record", str(record), *options]
    done = CliRunner().invoke(app, words, input=text)
    read = json.loads(record.read_text()) if record.exists() else None
    return done, read


def order(folder):
    """Return the columns asked for if every answer is 'missing'."""
    session, asked = suwr.load(folder / "m.suwr").acquire(), []
    while not session.done:
        asked.append(session.next_columns)
        session.observe(dict.fromkeys(session.next_columns))
    return asked


ANSWERS = {"height": 1.5, "weight": 1.0, "[red]colour": "red"}


def answer_all(folder):
    """Return valid answers until the model stops, and the resulting narrative."""
    session, answers = suwr.load(folder / "m.suwr").acquire(), []
    while not session.done:
        here = {name: ANSWERS[name] for name in session.next_columns}
        answers += here.values()
        session.observe(here)
    return answers, session.narrative()


def test_record_holds_narrative_and_session(folder):
    answers, narrative = answer_all(folder)
    assert len(answers) == 3
    done, record = ask(folder, *answers, "")
    assert done.exit_code == 0, done.output
    assert "[red]colour" in done.output
    assert "(blue, red)" in done.output
    assert suwr.Explanation.from_json(json.dumps(record))[0] == narrative
    assert narrative.text().removeprefix("Row asked. ") in done.output
    assert "Row asked" not in done.output
    session = record["session"]
    assert session["complete"]
    assert session["model"] == "m.suwr"
    assert len(session["model_sha256"]) == 64
    assert session["began"] <= session["ended"]
    assert [line["value"] for line in session["answers"]] == answers


@pytest.mark.filterwarnings("ignore::suwr.exceptions.StartWarning")
def test_values_known_in_advance_are_not_asked_for(folder):
    known = ["--known", "[red]colour=RED", "--known", "height=1.5"]
    done, record = ask(folder, 1.0, "", options=known)
    assert done.exit_code == 0, done.output
    assert "Known at the start: [red]colour is red; height is 1.5." in done.output
    narrative = record["narratives"][0]
    assert narrative["given"]["known"] == {"[red]colour": "red", "height": 1.5}
    assert [line["column"] for line in record["session"]["answers"]] in ([], ["weight"])


def test_what_the_model_always_knows_is_asked_for_first(tmp_path):
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.randn(100, 3), columns=["age", "size", "other"])
    model = suwr.SUWRClassifier(
        known_at_start=["age"], max_epochs=2, training={"hidden_size": 8}, random_state=0
    ).fit(X, X["age"] > 0)
    model.save(tmp_path / "m.suwr")
    expected = model.acquire(known={"age": 0.5})
    answers = ["undo", "0.5", *["0.25"] * (2 + 1)]
    done, record = ask(tmp_path, *answers)
    assert done.exit_code == 0, done.output
    assert done.output.index("age (") < done.output.index("Answer each question")
    assert "Please enter a value, or 'missing'" in done.output
    while not expected.done:
        expected.observe(dict.fromkeys(expected.next_columns, 0.25))
    narrative = suwr.Explanation.from_json(json.dumps(record))[0]
    assert narrative.given.known == {"age": 0.5}
    units = [step.units for step in narrative.steps]
    assert units == [step.units for step in expected.narrative().steps]
    assert narrative.prediction == pytest.approx(expected.narrative().prediction)
    done, record = ask(tmp_path, options=["--known", "age=0.5"])
    assert "age (" not in done.output
    done, record = ask(tmp_path)
    assert done.exit_code == 1
    assert "The input ended" in done.output
    assert record is None


def test_features_that_cannot_be_had(folder):
    (first, *_) = order(folder)
    unit = "size" if "height" in first else "[red]colour"
    rest = {"size": ["red"], "[red]colour": [1.5, 1.0]}[unit]
    done, record = ask(folder, "unavailable", *rest, "")
    assert done.exit_code == 0, done.output
    assert record["session"]["answers"][0] == {"unavailable": unit}
    assert record["narratives"][0]["given"]["unavailable"] == [unit]
    assert unit not in [u for step in record["narratives"][0]["steps"] for u in step["revealed"]]
    again, same = ask(folder, *rest, "", options=["--unavailable", unit])
    assert again.exit_code == 0, again.output
    assert same["narratives"] == record["narratives"]


def test_a_budget_limits_the_questions(folder):
    done, record = ask(folder, *["missing"] * 2, "", options=["--max-cost", "1"])
    assert done.exit_code == 0, done.output
    assert len(record["narratives"][0]["steps"]) == 1
    assert "Maximum cost: 1." in done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--known", "age=1"], "with a column of the model. Got 'age=1'"),
        (["--known", "height"], "must be COLUMN=VALUE"),
        (["--known", "height=tall"], "--known height: Please enter a finite number"),
        (["--known", "height=undo"], "must be a value"),
        (["--known", "height=1", "--known", "height=2"], "two values for 'height'"),
        (["--unavailable", "height"], "no unit 'height'"),
        (["--max-cost", "-1"], "'max_cost' parameter"),
    ],
)
def test_invalid_options(folder, options, message):
    done, record = ask(folder, options=options)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())
    assert record is None


def test_missing_answers(folder):
    names = [name for columns in order(folder) for name in columns]
    done, record = ask(folder, *["missing"] * len(names))
    assert done.exit_code == 0, done.output
    revealed = [step["revealed"] for step in record["narratives"][0]["steps"]]
    values = [v for step in revealed for unit in step.values() for v in unit.values()]
    assert values == [None] * len(names)
    assert f"{names[0]} is missing" in done.output


def test_invalid_answers_are_asked_again(folder):
    answers, narrative = answer_all(folder)
    wrong = ["abc" if isinstance(a, float) else "" for a in answers]
    typed = [text for pair in zip(wrong, answers, strict=True) for text in pair if text != ""]
    done, record = ask(folder, *typed)
    assert done.exit_code == 0, done.output
    assert done.output.count("Please enter a finite number. Got 'abc'.") == 2
    assert suwr.Explanation.from_json(json.dumps(record))[0] == narrative


def test_unusual_answers_must_be_confirmed(folder):
    answers, _ = answer_all(folder)
    typed = [text for a in answers for text in (["1e6", "1e6"] if isinstance(a, float) else [a])]
    done, record = ask(folder, *typed, "", "", "")
    assert done.output.count("Type it again to use it") == 2
    used = [line["value"] for line in record["session"]["answers"]]
    assert used.count(1e6) == 2


def test_undo_within_a_group_after_a_step_and_at_the_end(folder):
    _, narrative = answer_all(folder)
    first, last = ([ANSWERS[name] for name in step.columns] for step in narrative.steps)
    typed = ["undo", *first, "undo", *first, *last, "undo", *last]
    within = typed.index(ANSWERS["height"]) + 1
    done, record = ask(folder, *typed[:within], "undo", *typed[within - 1 :], "")
    assert done.exit_code == 0, done.output
    assert "There is no answer to take back." in done.output
    assert suwr.Explanation.from_json(json.dumps(record))[0] == narrative
    undone = [line["undo"] for line in record["session"]["answers"] if "undo" in line]
    assert sorted(undone) == sorted(["height", *(step.unit for step in narrative.steps)])


def test_incomplete_session_is_recorded(folder):
    answers, _ = answer_all(folder)
    first = len(order(folder)[0])
    done, record = ask(folder, *answers[:first])
    assert done.exit_code == 1
    assert "Error: The input ended before the model stopped asking." in done.output
    assert "Not stopped yet" in done.output
    assert not record["session"]["complete"]
    assert record["narratives"][0]["ended"] == "open"
    assert len(record["narratives"][0]["steps"]) == 1


def test_no_record_without_answers(folder):
    done, record = ask(folder)
    assert done.exit_code == 1
    assert "input ended" in done.output
    assert record is None


def test_record_options(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    model, answers = str(folder / "m.suwr"), "".join(f"{a}\n" for a in answer_all(folder)[0])
    assert CliRunner().invoke(app, ["ask", model, "--no-record"], input=answers).exit_code == 0
    assert not list(tmp_path.iterdir())
    done = CliRunner().invoke(app, ["ask", model], input=answers)
    (written,) = tmp_path.glob("m-answers-*.json")
    assert f"Wrote {written.name}" in done.output
    done = CliRunner().invoke(app, ["ask", model, "--record", "x.json", "--no-record"])
    assert "--record and --no-record exclude each other" in done.output
    done = CliRunner().invoke(app, ["ask", model, "--record", "none/x.json"])
    assert "does not exist" in done.output


@pytest.mark.slow
@pytest.mark.skipif(pty is None, reason="needs a pseudo-terminal")
def test_in_a_real_terminal(folder):
    """A session in a pseudo-terminal, answering each question after it appears."""
    answers, narrative = answer_all(folder)
    record = folder / "terminal.json"
    main, terminal = pty.openpty()
    code = "from suwr.cli import app; app()"
    words = ["ask", str(folder / "m.suwr"), "--record", str(record)]
    source = str(Path(suwr.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=terminal, stdout=terminal, stderr=terminal,
        env=os.environ | {"PYTHONPATH": source, "TERM": "dumb", "COLUMNS": "200"},
    )  # fmt: skip
    os.close(terminal)
    screen = Screen(main)
    names = [name for step in narrative.steps for name in step.columns]
    for name, answer in zip(names, answers, strict=True):
        screen.wait_for(f"{name} (")
        screen.wait_for("): ")
        os.write(main, f"{answer}\n".encode())
    screen.wait_for("Enter to finish")
    os.write(main, b"\n")
    screen.wait_for("Wrote ")
    assert process.wait(timeout=60) == 0
    os.close(main)
    assert suwr.Explanation.from_json(record.read_text())[0] == narrative


class Screen:
    """Reads a terminal until a text appears."""

    def __init__(self, handle):
        self.handle, self.unread = handle, ""

    def wait_for(self, text):
        while text not in self.unread:
            ready, _, _ = select.select([self.handle], [], [], 120)
            assert ready, f"no {text!r} in {self.unread!r}"
            self.unread += os.read(self.handle, 4096).decode()
        self.unread = self.unread.split(text, 1)[1]


NUMBER = ColumnCode(center=50.0, scale=10.0)
COLOUR = ColumnCode(categories=("Blue", "red"))
FLAG = ColumnCode(categories=(False, True))


@pytest.mark.parametrize(
    ("text", "code", "value"),
    [
        (" 4.5 ", NUMBER, 4.5),
        ("-3e1", NUMBER, -30.0),
        ("red", COLOUR, "red"),
        ("blue", COLOUR, "Blue"),
        ("true", FLAG, True),
        ("False", FLAG, False),
        ("Missing", COLOUR, None),
        ("", NUMBER, None),
        ("?", NUMBER, None),
        ("missing", FLAG, None),
    ],
)
def test_parsed_values(text, code, value):
    assert read_answer(text, code) == Answer(value)


def test_undo():
    assert read_answer("UNDO", NUMBER).undo
    assert not read_answer("red", COLOUR).undo


def test_categories_take_precedence_over_commands():
    code = ColumnCode(categories=("unknown", "undo", "a", "A"))
    assert read_answer("unknown", code) == Answer("unknown")
    assert read_answer("undo", code) == Answer("undo")
    assert read_answer(":missing", code) == Answer(None)
    assert read_answer(":undo", code).undo
    assert read_answer("A", code) == Answer("A")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("x", NUMBER, "Please enter a finite number. Got 'x'"),
        ("inf", NUMBER, "finite number"),
        ("1_000", NUMBER, "finite number"),
        ("maybe", FLAG, "one of: False, True"),
    ],
)
def test_invalid_answers(text, code, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_answer(text, code)
    assert not isinstance(caught.value, UnseenError)


def test_unseen_values_need_confirmation():
    with pytest.raises(UnseenError, match="far outside the training data") as caught:
        read_answer("5000", NUMBER)
    assert caught.value.value == 5000
    with pytest.raises(UnseenError, match="one of: Blue, red") as caught:
        read_answer("green", COLOUR)
    assert caught.value.value == "green"


def test_values_that_do_not_occur_in_a_discrete_column_need_confirmation():
    code = number_code(np.array([1.0, 2.0] * 5))
    assert read_answer("2", code) == Answer(2.0)
    with pytest.raises(UnseenError, match=r"1\.4 does not occur in the training data \(1 or 2\)"):
        read_answer("1.4", code)
    with pytest.raises(UnseenError, match=r"2\.6 is far outside"):
        read_answer("2.6", code)


def test_mean_features(tmp_path):
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.randn(80, 3), columns=list("abc"))
    model = suwr.SUWRRegressor(
        sparsity_weight=(0.001, 1.0), max_epochs=2, training={"hidden_size": 8}, random_state=0
    ).fit(X, X["a"] + X["b"])  # fmt: skip
    model.save(tmp_path / "m.suwr")
    words = ["ask", str(tmp_path / "m.suwr"), "--no-record", "--mean-features"]
    done = CliRunner().invoke(app, [*words, "99"])
    assert done.exit_code == 1
    assert "'mean_features' parameter must be in" in done.output
    most = float(model.weight_range_.n_units[0])
    asked = []
    session = model.acquire(mean_features=most)
    while not session.done:
        asked.append(session.next_columns)
        session.observe(dict.fromkeys(session.next_columns))
    done = CliRunner().invoke(app, [*words, str(most)], input="missing\n" * 9)
    assert done.exit_code == 0, done.output
    assert done.output.count("usually") == len(asked)


def test_prompt_describes_the_column():
    assert describe(NUMBER) == "a number, usually 40 to 60"
    assert describe(COLOUR) == "Blue, red"
    assert describe(number_code(np.array([2.0, 1.0, 2.0]))) == "1 or 2"
    assert describe(number_code(np.array([3.0, 0.5, 2.0]))) == "0.5, 2 or 3"
    assert describe(number_code(np.array([3.0, 3.0]))) == "3"
    ages = number_code(np.arange(100.0))
    assert describe(ages) == "a whole number, usually 9 to 89"
    assert describe(number_code(np.arange(100.0) / 100)) == "a number, usually 0.09 to 0.89"
    assert describe(ColumnCode(categories=tuple("abcdefghijklmno"))).endswith("k, l, … (3 more)")


def test_labels_units_and_positions(folder):
    model = suwr.load(folder / "m.suwr")
    model.set_params(
        columns={
            "height": {"label": "Height", "unit": "m"},
            "[red]colour": {"categories": {"red": "crimson"}},
        }
    ).save(folder / "labelled.suwr")
    session = model.acquire()
    answers = []
    while not session.done:
        values = {"height": 1.0, "weight": -0.5, "[red]colour": "red"}
        values = {name: values[name] for name in session.next_columns}
        answers += ["Crimson" if value == "red" else str(value) for value in values.values()]
        session.observe(values)
    words = ["ask", str(folder / "labelled.suwr"), "--no-record"]
    done = CliRunner().invoke(app, words, input="".join(f"{a}\n" for a in answers))
    assert done.exit_code == 0, done.output
    assert session.narrative().text().removeprefix("Row asked. ") in done.output
    assert "Height (a number, usually" in done.output
    assert " m): " in done.output
    assert "blue, crimson" in done.output
    assert "Height is 1 m (above" in done.output
    note = session.description.note("height", 1.0)
    assert f"  {note}\n" in done.output
    without = CliRunner().invoke(app, [*words, "--no-context"], input="\n".join([*answers, ""]))
    assert "of the training values" not in without.output
    assert "Height is 1 m." in without.output or "Height is 1 m," in without.output


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1.0, 2.0), "1 or 2"),
        ((1.0, 2.0, 3.0), "1, 2 or 3"),
        ((2005.0, 2006.0, 2007.0, 2008.0), "a whole number from 2005 to 2008"),
        ((1.0, 2.0, 4.0, 5.0), "1, 2, 4 or 5"),
        ((0.5, 1.0, 1.5, 2.0), "0.5, 1, 1.5 or 2"),
    ],
)
def test_few_values_are_listed(values, expected):
    assert describe(number_code(np.repeat(values, 40))) == expected


def test_large_numbers_are_written_out(rng):
    text = describe(number_code(rng.uniform(1e4, 3e4, 200)))
    low, high = re.fullmatch(r"a number, usually (\S+) to (\S+)", text).groups()
    assert re.fullmatch(r"1\d,\d{3}", low)
    assert re.fullmatch(r"2\d,\d{3}", high)
