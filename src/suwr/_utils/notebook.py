"""Progress bars in the output of a notebook cell."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

__all__ = ["NotebookBars", "in_notebook"]

# Seconds between two updates of the output.
INTERVAL = 0.2


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # The shell in a terminal has no kernel.
    return getattr(shell, "kernel", None) is not None


class NotebookBars:
    """Bars as HTML, with the methods of ``rich.progress.Progress`` that `progress_bars` calls.

    rich draws bars in notebooks only if ipywidgets is installed.

    Parameters
    ----------
    unit : str
        What is counted.
    """

    def __init__(self, unit: str = "") -> None:
        self.unit = unit
        self._tasks: list[dict[str, Any]] = []
        self._start = time.monotonic()
        self._shown = 0.0
        self._handle: Any = None

    def add_task(self, description: str, **fields: Any) -> int:
        """Add a bar and return its number."""
        self._tasks.append({"description": description, **fields})
        self.refresh(force=True)
        return len(self._tasks) - 1

    def update(self, task: int, *, advance: int = 0, **changes: Any) -> None:
        """Advance a bar and change its texts."""
        self._tasks[task] |= changes
        self._tasks[task]["completed"] += advance
        finished = self._tasks[task]["completed"] == self._tasks[task]["total"]
        self.refresh(force=finished)

    def refresh(self, *, force: bool = False) -> None:
        """Draw all bars, at most a few times per second."""
        now = time.monotonic()
        if not force and now - self._shown < INTERVAL:
            return
        self._shown = now
        from IPython.display import HTML, display

        drawn = HTML(self.to_html())
        if self._handle is None:
            self._handle = display(drawn, display_id=True)
        else:
            self._handle.update(drawn)

    def to_html(self) -> str:
        """Return the visible bars as HTML."""
        elapsed = time.monotonic() - self._start
        return "".join(
            f"<div>{html.escape(task['description'])} "
            f'<progress max="{task["total"]}" value="{task["completed"]}"></progress> '
            f"{html.escape(self.unit)} {task['completed']}/{task['total']} "
            f"{html.escape(task['status'])}, {elapsed:.0f} s</div>"
            for task in self._tasks
            if task["visible"]
        )

    def __enter__(self) -> NotebookBars:
        return self

    def __exit__(self, *error: object) -> None:
        self.refresh(force=True)
