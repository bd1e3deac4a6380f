"""Figures of Experiment 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["write_figures"]


def write_figures(records: list[dict[str, Any]], folder: Path) -> list[Path]:
    return []
