import sys
import threading
from types import SimpleNamespace

import pytest

from suwr._utils.progress import job_progress, progress_bars, time_left, training_progress


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
        known(3)
    err = capsys.readouterr().err
    assert "known" in err
    assert "3/4" in err
    assert "unknown" not in err


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


def test_jobs_are_lines_where_there_is_no_terminal(capsys):
    with job_progress(2) as report:
        report("first", 1.4, None)
        report("second", 0.0, "ValueError: no")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[1/2, ")
    assert lines[0].endswith("first: 1 s")
    assert lines[1].endswith("second: FAILED: ValueError: no")


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "expected"),
    [(10.0, 0, 5, "-:--:--"), (7200.0, 2, 3, "1:00:00"), (60.0, 3, 12, "0:03:00")],
)
def test_time_left(elapsed, done, total, expected):
    assert time_left(elapsed, done, total) == expected


def test_names_in_progress_bars_are_data(capsys):
    with progress_bars(["a[bold]\x1b[31m"], verbose=True, total=1) as (bar,):
        bar(description="b[red].csv\x1b]0;", status="[/x]")
    shown = capsys.readouterr().err
    assert r"b[red].csv\x1b]0;" in shown
    assert "[/x]" in shown
    with job_progress(1) as report:
        report("job\x1b[2J", 1.0, "bad\x07")
    assert r"job\x1b[2J: FAILED: bad\x07" in capsys.readouterr().err


def pretend_notebook(monkeypatch):
    """Let this process look like the kernel of a notebook; return what it displays."""
    shown = []
    update = SimpleNamespace(update=lambda drawn: shown.append(drawn))

    def display(drawn, display_id):
        shown.append(drawn)
        return update

    shell = SimpleNamespace(kernel=object())
    module = SimpleNamespace(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown, shell


def test_bars_are_shown_by_default_in_a_notebook(monkeypatch, capsys):
    shown, shell = pretend_notebook(monkeypatch)
    with training_progress(2, verbose=None) as report:
        report(SimpleNamespace(phase="<actor>", value=0.25))
        report(SimpleNamespace(phase="fine-tuning", value=0.125))
    assert "epoch 0/2" in shown[0]
    assert 'fine-tuning <progress max="2" value="2"></progress> epoch 2/2' in shown[-1]
    assert "validation 0.1250" in shown[-1]
    assert capsys.readouterr().err == ""
    del shell.kernel
    shown.clear()
    with training_progress(1, verbose=None) as report:
        report(SimpleNamespace(phase="<actor>", value=0.25))
    assert shown == []


def test_hidden_bars_and_markup_in_a_notebook(monkeypatch):
    shown, _ = pretend_notebook(monkeypatch)
    with progress_bars(["<b>known", "unknown"], verbose=None) as (known, _):
        known.expect(4)
        known(4)
    assert "&lt;b&gt;known" in shown[-1]
    assert "4/4" in shown[-1]
    assert "unknown" not in shown[-1]


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
