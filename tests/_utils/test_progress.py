import re
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from suwr._utils.progress import progress_bars, training_progress


@pytest.mark.parametrize("verbose", [0, False, None])
def test_nothing_is_printed_unless_requested_or_on_a_terminal(capsys, verbose):
    with progress_bars(["a", "b"], verbose=verbose) as (first, second):
        first.expect(3)
        first(2)
        second(description="c", status="d")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_bar_appears_once_its_total_is_known(capsys):
    with progress_bars(["known", "unknown"], verbose=True) as (known, _):
        known.expect(4)
        known(4)
    assert capsys.readouterr().err == "known: 4/4 (100 %), 0:00:00\n"


def test_lines_are_written_every_ten_seconds_where_there_is_no_terminal(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress_bars(["rows"], verbose=1, total=40, unit="batch") as (bar,):
        for _ in range(24):
            now += 1.0
            bar(status="fine")
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(", 0:")[0] for line in lines] == [
        "rows: batch 10/40 (25 %), fine",
        "rows: batch 20/40 (50 %), fine",
        # The work needed less than was planned.
        "rows: batch 24/24 (100 %), fine",
    ]
    assert "left" in lines[0]


def test_work_that_fails_is_not_complete(capsys):
    def fail():
        with progress_bars(["rows"], verbose=1, total=4) as (bar,):
            bar()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "100 %" not in capsys.readouterr().err


@pytest.mark.parametrize("n", [3, 5])
def test_bars_on_a_terminal_end_at_100_percent(monkeypatch, capsys, n):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with progress_bars(["rows"], verbose=1, total=4) as (bar,):
        for _ in range(n):
            bar()
    assert re.findall(r"[0-9]+/[0-9]+", capsys.readouterr().err)[-1] == f"{n}/{n}"


def test_training_shows_phase_epochs_and_validation_objective(capsys):
    with training_progress(2, verbose=1) as report:
        report(SimpleNamespace(phase="policy", value=0.25))
        report(SimpleNamespace(phase="fine-tuning", value=0.125))
    err = capsys.readouterr().err
    assert "fine-tuning" in err
    assert "epoch 2/2" in err
    assert "validation 0.1250" in err


def test_verbose_training_prints_one_line_per_epoch(capsys):
    with training_progress(10, verbose=2) as report:
        report(SimpleNamespace(phase="predictor", value=0.5))
        report(SimpleNamespace(phase="policy", value=0.25))
    assert capsys.readouterr().err.splitlines() == [
        "[ 1/10] predictor: validation objective 0.5000",
        "[ 2/10] policy: validation objective 0.2500",
    ]


def test_names_in_progress_bars_are_data(capsys):
    with progress_bars(["a[bold]\x1b[31m"], verbose=True, total=1) as (bar,):
        bar(description="b[red].csv\x1b]0;", status="[/x]")
    shown = capsys.readouterr().err
    assert r"b[red].csv\x1b]0;" in shown
    assert "[/x]" in shown


def test_progress_is_shown_by_default_in_a_notebook(monkeypatch, capsys):
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with training_progress(2, verbose=None) as report:
        report(SimpleNamespace(phase="fine-tuning", value=0.125))
    assert "fine-tuning: epoch 1/1 (100 %), validation 0.1250" in capsys.readouterr().err
    # The shell in a terminal.
    del shell.kernel
    with training_progress(1, verbose=None) as report:
        report(SimpleNamespace(phase="actor", value=0.25))
    assert capsys.readouterr().err == ""


def test_bars_are_shown_by_default_in_the_main_thread_of_a_terminal(monkeypatch, capsys):
    def show():
        with progress_bars(["bar"], verbose=None, total=1) as (bar,):
            bar()

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show()
    assert "1/1" in capsys.readouterr().err
    thread = threading.Thread(target=show)
    thread.start()
    thread.join()
    assert capsys.readouterr().err == ""
