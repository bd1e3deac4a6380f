"""What a run can be told; the same for `suwr reproduce` and ``python -m suwr_experiments``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path

__all__ = ["HELP", "PRESETS", "Options"]

PRESETS = ("mini", "quick", "full", "wide")

HELP = {
    "experiment": "'pareto', 'synthetic' or 'mnist'.",
    "preset": "'quick' (minutes), 'full' (the paper's scale), 'wide' (100 columns) or 'mini'.",
    "out": "Folder for records, tables and figures.",
    "methods": "Only these methods, as L2X,SUWR.",
    "data": "Only these data sets, as Syn4,Syn5.",
    "seeds": "Number of seeds; the preset's own if not given.",
    "jobs": "Cells at once; -1 is one for every core.",
    "device": "'cpu', 'cuda' or 'auto'. On CUDA, SUWR models of one shape train together.",
    "together": "Most models that train together on CUDA.",
    "scheduler": "Address of a Dask scheduler that runs the cells.",
    "audit": "Put the auditor's verdict into the records of the first seed.",
    "tables": "Fit nothing: remake tables and figures from the records.",
}


@dataclass(frozen=True)
class Options:
    """One run of an experiment.

    Attributes
    ----------
    experiment : str
    preset : str
    out : Path or None
        None: ``suwr-results/EXPERIMENT-PRESET``.
    methods, data : tuple of str
        Restrict the grid; empty is everything.
    seeds : int or None
    jobs : int
    device : str
    together : int
    scheduler : str or None
    audit, tables : bool
    """

    experiment: str
    preset: str = "quick"
    out: Path | None = None
    methods: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    seeds: int | None = None
    jobs: int = 1
    device: str = "cpu"
    together: int = 60
    scheduler: str | None = None
    audit: bool = False
    tables: bool = False

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ValueError(
                f"The 'preset' parameter must be one of {', '.join(PRESETS)}. "
                f"Got {self.preset!r} instead."
            )
        for name in ("seeds", "together"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"The '{name}' parameter must be at least 1. Got {value} instead.")
        if self.jobs == 0:
            raise ValueError(
                "The 'jobs' parameter must be a positive number, or -1. Got 0 instead."
            )

    @property
    def folder(self) -> Path:
        """Where everything goes."""
        return self.out or Path("suwr-results") / f"{self.experiment}-{self.preset}"

    @property
    def command(self) -> str:
        """The command line of this run.

        Examples
        --------
        >>> Options("synthetic", "full", methods=("SUWR", "L2X"), audit=True).command
        'suwr reproduce synthetic --preset full --methods SUWR,L2X --audit'
        """
        words = ["suwr", "reproduce", self.experiment]
        for option in fields(self)[1:]:
            value = getattr(self, option.name)
            if option.name == "preset" or value != option.default:
                words.append(f"--{option.name}")
                if value is not True:
                    words.append(",".join(value) if isinstance(value, tuple) else str(value))
        return shlex.join(words)

    def pick(self, name: str, available: tuple[str, ...]) -> tuple[str, ...]:
        """The methods or data sets that this run is about, in the order of ``available``."""
        wanted = getattr(self, name)
        unknown = [w for w in wanted if w not in available]
        if unknown:
            raise ValueError(
                f"The '{name}' parameter must name some of {', '.join(available)}. "
                f"Got {', '.join(unknown)} instead."
            )
        return tuple(a for a in available if not wanted or a in wanted)
