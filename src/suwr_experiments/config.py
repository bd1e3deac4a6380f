"""Configuration of a run and of a single fit.

`RunConfig` is one run of an experiment: its fields are the options of the command line, and its
command is stored with the records. `Cell` is one fit in the grid of an experiment: the same
dataclass is the configuration, the argument of ``python -m suwr_experiments cell`` and the head of
the stored record.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from suwr._utils.validation import check_choice, check_integer, parameter_error

__all__ = ["PRESETS", "Cell", "RunConfig", "option_name"]

PROGRAM = ("python", "-m", "suwr_experiments")
PRESETS = ("mini", "quick", "full", "wide")
# Experiments whose name has changed since records were written.
_RENAMED = {"mnist": "images"}
# Parameters that distinguish the points of a method's curve, in the order of a title.
_CURVE_PARAMETERS = (
    "n_units", "max_steps", "n_steps", "sparsity_weight", "mask_sparsity_weight", "share_range",
)  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """One run of an experiment.

    Every field but ``experiment`` is an option of the command line; its help text is in the field's
    metadata.

    Attributes
    ----------
    experiment : {'pareto', 'synthetic', 'images', 'tables', 'draws', 'paper'}
    preset : {'mini', 'quick', 'full', 'wide'}
    out : Path or None
        None is ``suwr-results/EXPERIMENT-PRESET``.
    methods, datasets : tuple of str
        Restrict the grid; empty is no restriction.
    seeds : int or None
        None is the number of seeds of the preset; for tables, of splits.
    splits : tuple of int
        Splits of the tables; empty is the first ``seeds``.
    jobs : int
    max_seconds : float or None
        Time after which no further fit is started.
    device : str
    scheduler : str or None
    data : Path or None
        None is the folder in the environment variable ``SUWR_DATA``, or the cache.
    audit, tables : bool

    Examples
    --------
    >>> RunConfig("synthetic", "full", methods=("SUWR", "L2X"), audit=True).command
    'python -m suwr_experiments synthetic --preset full --methods SUWR,L2X --audit'
    """

    experiment: str
    preset: str = field(
        default="quick",
        metadata={
            "help": "'quick' (minutes), 'full' (the paper's scale), 'wide' (100 columns) or 'mini'."
        },
    )
    out: Path | None = field(
        default=None, metadata={"help": "Folder for records, tables and figures."}
    )
    methods: tuple[str, ...] = field(
        default=(), metadata={"help": "Only these methods, such as L2X,SUWR."}
    )
    datasets: tuple[str, ...] = field(
        default=(), metadata={"help": "Only these data sets, such as Syn4,Syn5."}
    )
    seeds: int | None = field(
        default=None, metadata={"help": "Number of seeds; by default that of the preset."}
    )
    splits: tuple[int, ...] = field(
        default=(), metadata={"help": "Only these splits of the tables, such as 0,1."}
    )
    jobs: int = field(
        default=1, metadata={"help": "Number of fits in parallel; -1 uses every core."}
    )
    max_seconds: float | None = field(
        default=None, metadata={"help": "Start no further fit after this time; those that run end."}
    )
    device: str = field(default="cpu", metadata={"help": "'cpu', 'cuda' or 'auto'."})
    scheduler: str | None = field(
        default=None, metadata={"help": "Address of a Dask scheduler that runs the fits."}
    )
    data: Path | None = field(
        default=None,
        metadata={"help": "Folder that holds the files of images or tables; no download."},
    )
    audit: bool = field(
        default=False,
        metadata={"help": "Store the auditor's report in the records of the first seed."},
    )
    tables: bool = field(
        default=False,
        metadata={"help": "Fit nothing; write tables and figures from existing records."},
    )

    def __post_init__(self) -> None:
        check_choice(self.preset, "preset", "RunConfig", PRESETS)
        if self.seeds is not None:
            check_integer(self.seeds, "seeds", "RunConfig", 1)
        if any(split < 0 for split in self.splits):
            raise parameter_error("splits", "RunConfig", "numbers of at least 0", self.splits)
        if self.jobs == 0:
            raise parameter_error("jobs", "RunConfig", "a positive int or -1", self.jobs)

    @classmethod
    def options(cls) -> list[Field[Any]]:
        """The fields that are options of the command line."""
        return [f for f in fields(cls) if "help" in f.metadata]

    @property
    def folder(self) -> Path:
        """Folder of records, tables and figures."""
        return self.out or Path("suwr-results") / f"{self.experiment}-{self.preset}"

    @property
    def command(self) -> str:
        """Command line of this run."""
        words = [*PROGRAM, self.experiment]
        for option in self.options():
            value = getattr(self, option.name)
            if option.name == "preset" or value != option.default:
                words.append(option_name(option.name))
                if value is not True:
                    several = isinstance(value, tuple)
                    words.append(",".join(map(str, value)) if several else str(value))
        return shlex.join(words)

    def restrict(self, name: str, available: tuple[str, ...]) -> tuple[str, ...]:
        """The requested methods or data sets, in the order of ``available``."""
        requested = getattr(self, name)
        if any(item not in available for item in requested):
            expected = f"among {', '.join(available)}"
            raise parameter_error(name, "RunConfig", expected, ",".join(requested))
        return tuple(a for a in available if not requested or a in requested)


@dataclass(frozen=True)
class Cell:
    """One fit and its evaluation: data set, method, hyper-parameters and seed.

    Attributes
    ----------
    experiment : {'pareto', 'synthetic', 'images', 'tables', 'draws', 'paper'}
    data : str
        Name of the data set: ``"Syn4"``, ``"Syn4x100"``, ``"toy"``, ``"churn"``.
    method : str
        ``"SUWR"``, or the name of a baseline without 'Classifier' or 'Regressor'.
    seed : int
        Seed of the training; data sets have their own seeds. For tables also the number of the
        split, for draws that of the draw.
    n_train, n_test : int or None
        Number of rows; None is that of the experiment.
    sparsity_share : float or None
        λ relative to the loss of the best constant prediction; None leaves λ to ``params``.
    params : mapping
        Parameters of the estimator that differ from their defaults.
    audit : bool
        Whether the record contains the auditor's report.

    Examples
    --------
    >>> cell = Cell("synthetic", "Syn4", "L2X", seed=1, params={"n_units": 5})
    >>> cell.key
    'Syn4-L2X-1-f481df4e'
    >>> Cell.from_dict(cell.to_dict()) == cell
    True
    """

    experiment: str
    data: str
    method: str
    seed: int = 0
    n_train: int | None = None
    n_test: int | None = None
    sparsity_share: float | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    audit: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"params": dict(sorted(self.params.items()))}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Cell:
        """Inverse of `to_dict`; missing fields take their defaults."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(content) - known)
        if unknown:
            raise ValueError(f"A cell has the fields {sorted(known)}. Got {unknown} as well.")
        experiment = content["experiment"]
        return cls(**{**content, "experiment": _RENAMED.get(experiment, experiment)})

    @property
    def key(self) -> str:
        """Readable file name that is unique to the fit."""
        content = self.to_dict()
        # The audit does not change the fit.
        del content["audit"]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.data}-{self.method}-{self.seed}-{digest}"

    @property
    def title(self) -> str:
        """Short description for progress messages."""
        words = [self.data, self.method]
        if self.sparsity_share is not None:
            words.append(f"λ={self.sparsity_share:g}·H")
        known = [name for name in _CURVE_PARAMETERS if name in self.params]
        words += [f"{name}={format_number(self.params[name], '…')}" for name in known]
        if "stopping" in self.params:
            words.append(f"stopping={self.params['stopping']}")
        return " ".join([*words, f"seed {self.seed}"])

    @property
    def command(self) -> str:
        """Command line that runs this cell alone."""
        return shlex.join([*PROGRAM, "cell", json.dumps(self.to_dict())])


def option_name(field_name: str) -> str:
    """Name of the option of a field on the command line.

    Examples
    --------
    >>> option_name("max_seconds")
    '--max-seconds'
    """
    return "--" + field_name.replace("_", "-")


def format_number(value: Any, separator: str) -> str:
    """Format a number, or a list of numbers with a separator.

    Examples
    --------
    >>> format_number([0.0005, 0.2], " … ")
    '0.0005 … 0.2'
    """
    if isinstance(value, list):
        return separator.join(format_number(v, separator) for v in value)
    return f"{value:.4g}"
