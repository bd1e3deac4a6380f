"""``suwr serve`` as a process of its own."""

import json
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from helpers.services import free_port, start_server
from suwr.cli import app

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


def ask(port, answers):
    body = json.dumps({"answers": answers}).encode()
    with urlopen(Request(f"http://127.0.0.1:{port}/next", body), timeout=30) as response:
        return json.load(response)


@pytest.mark.slow
def test_session_survives_a_killed_server(grouped, rows, tmp_path):
    model, X = grouped
    number = max(range(len(rows)), key=lambda i: len(model.explain(X[i : i + 1])[0].steps))
    narrative = model.explain(X[number : number + 1])[0]
    assert len(narrative.steps) > 1
    model.save(tmp_path / "m.suwr")
    port, answers, n_starts = free_port(), {}, 0
    with open(tmp_path / "log", "w") as log:
        while True:
            if n_starts < 2:
                # The second question goes to another process than the first.
                process = start_server(tmp_path / "m.suwr", port, log)
                n_starts += 1
            try:
                state = ask(port, answers)
            except BaseException:
                process.kill()
                raise
            if n_starts < 2 or state["done"]:
                process.kill()
                process.wait()
            if state["done"]:
                break
            for column in state["question"]["columns"]:
                answers[column["name"]] = rows[number][column["name"]]
    assert tuple(state["answer"]["probabilities"]) == narrative.prediction
    logged = (tmp_path / "log").read_text()
    assert "POST /next 200" in logged
    assert all(str(value) not in logged for value in answers.values() if isinstance(value, float))


def test_wrong_options_are_one_line(tmp_path, grouped):
    path = tmp_path / "m.suwr"
    done = CliRunner().invoke(app, ["serve", str(path)])
    assert done.exit_code == 1
    assert len(done.stderr.strip().splitlines()) == 1
    grouped[0].save(path)
    done = CliRunner().invoke(app, ["serve", str(path), "--max-rows", "0"])
    assert "'max_rows' parameter of Limits" in done.stderr
    done = CliRunner().invoke(app, ["serve", str(path), "--mean-features", "3"])
    assert "fitted for a range" in done.stderr
