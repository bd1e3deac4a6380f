"""Options, their checks, and the table files that they name.

Neither pandas nor torch is imported before a file is read, so that mistakes are reported at once.
"""

from __future__ import annotations

import fnmatch
import hashlib
import inspect
import io
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from suwr._utils.files import check_writable, file_identity, write_atomic
from suwr._utils.text import did_you_mean, printable
from suwr.data.files import (
    DelimitedFile,
    ParquetFile,
    check_suffix,
    is_parquet,
    is_separator,
    open_table,
    separator_of,
)
from suwr.data.parse import INVALID, parse_cell
from suwr.exceptions import ModelFileError, TableError


class Terminal:
    """The standard streams of a command.

    Names of columns, classes, categories and files come from data. Therefore nothing is parsed as
    markup or emoji codes, and control characters are shown as escapes. Line breaks within a name
    must be escaped by the caller, with `suwr._utils.text.printable`.
    """

    def __init__(self) -> None:
        self.console = Console(highlight=False, markup=False, emoji=False)

    def print(self, text: str = "", style: str | None = None) -> None:
        """Print a text, which may have several lines."""
        self.console.print(_as_data(text, style), soft_wrap=True)

    def print_written(self, path: Any, contents: str = "") -> None:
        """Print that a file was written, with its ``contents`` in words."""
        name = printable(path)
        self.print(f"Wrote {contents} to {name}" if contents else f"Wrote {name}")

    def input(self, *parts: tuple[str, str]) -> str:
        """Print the question, given as pairs of text and style, and read one line."""
        question = Text.assemble(*(_as_data(text, style) for text, style in parts))
        return self.console.input(question)


def print_error(message: str) -> None:
    """Print an error message as one line on the standard error stream."""
    line = " ".join(printable(message, keep="\n").split())
    typer.secho(f"Error: {line}", fg="red", err=True)


def print_warning(message: str) -> None:
    """Print a warning as one line on the standard error stream."""
    line = " ".join(printable(message, keep="\n").split())
    typer.secho(f"Warning: {line}", fg="yellow", err=True)


def _as_data(text: str, style: str | None) -> Text:
    return Text(printable(text, keep="\n"), style=style or "")


#: Values of --loss: those of `SUWRRegressor`, without the import of torch.
LOSSES = ("squared_error", "absolute_error", "quantile", "poisson", "gamma")
#: Values of --target-transform, likewise.
TARGET_TRANSFORMS = ("log", "log1p", "asinh")
# Separators that a file may have instead of the expected one.
_OTHER_SEPARATORS = (";", "\t", "|", ",")
_SHOWN_COLUMNS = 12


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV or TSV file is written: options of every command that reads one.

    Attributes
    ----------
    sep : str or None, default=None
        Separator of columns; None is a comma for .csv and a tab for .tsv.
    encoding : str or None, default=None
        None is UTF-8.
    decimal : {'.', ','} or None, default=None
        Decimal separator; None is a point.
    missing : tuple of str, default=()
        Further texts that mean 'missing'; '*' stands for any text.
    """

    sep: Annotated[
        str | None,
        typer.Option(help="Separator of the columns of a CSV file.", show_default="by the suffix"),
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a CSV file.", show_default="utf-8")
    ] = None
    decimal: Annotated[
        str | None,
        typer.Option(help="Decimal separator of a CSV file: '.' or ','.", show_default="."),
    ] = None
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.sep is not None and not is_separator(self.sep.replace("\\t", "\t")):
            raise ValueError(
                f"--sep must be a single ASCII character, and no quote. Got {self.sep!r}."
            )
        check_option("--decimal", self.point, (".", ","))
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except LookupError:
                raise ValueError(
                    f"--encoding must be a text encoding, such as utf-8 or latin-1. "
                    f"Got {self.encoding!r}."
                ) from None

    @property
    def point(self) -> str:
        """The decimal separator."""
        return self.decimal or "."

    def of_model(self, path: Path) -> CsvFormat:
        """Return the format in which options that are not given are those of ``suwr fit``."""
        try:
            with path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(size, path.stat().st_size)))
            stored = json.loads(header["__metadata__"]["suwr"]).get("csv") or {}
            names = [name for name in ("sep", "encoding", "decimal") if name in stored]
            remembered: dict[str, Any] = {
                n: str(stored[n]) for n in names if getattr(self, n) is None
            }
            remembered["missing"] = tuple(map(str, stored.get("missing", ())))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self  # loading the model says what is wrong
        return replace(self, **remembered)

    def to_dict(self) -> dict[str, Any]:
        """Return the options that were given, for model files."""
        given = vars(self) | {"missing": list(self.missing)}
        return {name: value for name, value in given.items() if value}

    def without_missing(self, frame: Any, *, infer_types: bool) -> Any:
        """Return a frame in which the texts that mean 'missing' are missing.

        Columns of texts that are numbers otherwise become numbers, if types are inferred.
        """
        if not self.missing:
            return frame
        pattern = re.compile("|".join(map(fnmatch.translate, self.missing)))
        frame = frame.copy()
        for name in list(frame.columns):
            cells = frame[name].tolist()
            found = [isinstance(c, str) and bool(pattern.fullmatch(c.strip())) for c in cells]
            if not any(found):
                continue
            kept = ["" if hit else cell for cell, hit in zip(cells, found, strict=True)]
            if infer_types:
                texts = [c.replace(self.point, ".") if isinstance(c, str) else c for c in kept]
                numbers = [parse_cell(cell, "number") for cell in texts]
                text = any(number is INVALID for number in numbers)
                kept = [None if cell == "" else cell for cell in (kept if text else numbers)]
            frame[name] = kept
        return frame

    def hint(self, path: Path, columns: Sequence[str]) -> str:
        """Return that a file with a single column may have another separator; '' otherwise."""
        sep = self.separator(path)
        if len(columns) != 1 or sep is None:
            return ""
        found = [s for s in _OTHER_SEPARATORS if s != sep and s in columns[0]]
        if not found:
            return ""
        shown = "\\t" if found[0] == "\t" else found[0]
        return f" The file has a single column; its separator may be --sep '{shown}'."

    def separator(self, path: Path) -> str | None:
        """Return the separator of the columns of a file; None for a Parquet file."""
        return separator_of(path) if self.sep is None else self.sep.replace("\\t", "\t")

    def open(self, path: Path, *, infer_types: bool = False) -> DelimitedFile | ParquetFile:
        """Open a file of this format, or a Parquet file."""
        sep = self.separator(path)
        return open_table(path, sep, self.encoding, infer_types=infer_types, decimal=self.point)

    def read_header(self, path: Path) -> list[str]:
        """Return the names of the columns, if they are text in the encoding."""
        with self.open(path) as file:
            names = file.names
        if any("\ufffd" in name for name in names):
            with self.open(path, infer_types=True) as file:
                names = file.names
        return names

    def read_frame(
        self, path: Path, columns: list[str] | None = None, *, infer_types: bool = False
    ) -> Any:
        """Read a CSV, TSV or Parquet file.

        Parameters
        ----------
        path : Path
        columns : list of str, optional
            The columns to read; all by default.
        infer_types : bool, default=False
            Whether the type of a column is inferred from its cells, as for ``fit``. If not, the
            cells of a CSV file are read as text, and a fitted model parses them by the types of
            its columns; `suwr.cli.predict.model_columns` replaces their decimal separators.
        """
        check_table(path)
        with self.open(path, infer_types=infer_types) as file:
            frame = file.read_frame(columns)
        return self.without_missing(frame, infer_types=infer_types)

    def check_column(self, path: Path, name: str | None, option: str) -> None:
        """Raise an error with the likely reason if a table lacks a column; None checks nothing."""
        columns = [] if name is None else self.read_header(path)
        if name is None or name in columns:
            return
        known = ", ".join(printable(c) for c in columns[:_SHOWN_COLUMNS])
        if len(columns) > _SHOWN_COLUMNS:
            known += f", … ({len(columns) - _SHOWN_COLUMNS} more)"
        hint = self.hint(path, columns) or did_you_mean(name, columns)
        raise TableError(
            f"{option} must be a column of {printable(path.name)}: {known}. Got {name!r}.{hint}"
        )


def check_model(path: Path) -> None:
    """Raise an error if a file does not exist or cannot be a model file."""
    _check_exists(path)
    with path.open("rb") as file:
        start = file.read(9)
    # A model file starts with the length of its JSON header.
    if len(start) < 9 or start[8:] != b"{":
        raise ModelFileError(f"{str(path)!r} is not a suwr model file.")


def check_table(path: Path) -> None:
    """Raise an error if a table does not exist or its format is unknown."""
    _check_exists(path)
    check_suffix(path)


def check_inputs(
    model: Path | None, data: Path | None, form: CsvFormat, **columns: str | None
) -> CsvFormat:
    """Raise an error if the model or the table cannot be read, or the table lacks a column.

    Returns the format of the table: what is not given is as in the table that the model was fitted
    to.
    """
    if model is not None:
        check_model(model)
        form = form.of_model(model)
    if data is not None:
        check_table(data)
        for option, name in columns.items():
            form.check_column(data, name, f"--{option}")
    return form


def check_outputs(outputs: Mapping[str, Path | None], *inputs: Path | None) -> None:
    """Raise an error if a file cannot be written, or is another file of the command.

    A hard link to a file is the same file.

    Parameters
    ----------
    outputs : mapping from str to Path or None
        Files to write, by the option that names them; None is no file.
    *inputs : Path or None
        Files that the command reads.
    """
    taken = {file_identity(path) for path in inputs if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        target = file_identity(check_writable(path))
        if target in taken:
            raise ValueError(
                f"{option} must not be a file that the command also reads or writes. Got "
                f"{str(path)!r}."
            )
        taken.add(target)


def check_option(option: str, value: str, choices: Sequence[str]) -> None:
    """Raise an error if the value of an option is none of its choices."""
    if value not in choices:
        expected = "one of " * (len(choices) > 1) + ", ".join(map(repr, choices))
        raise ValueError(f"{option} must be {expected}. Got {value!r}.")


def parse_loss(
    task: str, loss: str | None, quantile: float | None, target_transform: str | None = None
) -> dict[str, Any]:
    """Return the parameters of `SUWRRegressor` that state what is predicted; empty without options.

    Parameters
    ----------
    task : str
        The value of --task.
    loss, quantile : str and float, or None
        The values of --loss and --quantile.
    target_transform : str or None
        The value of --target-transform.
    """
    params: dict[str, Any] = {}
    if target_transform is not None:
        check_option("--target-transform", target_transform, TARGET_TRANSFORMS)
        if task == "classification":
            raise ValueError(
                "--target-transform is for regression: omit it, or --task classification."
            )
        if loss in ("poisson", "gamma"):
            raise ValueError(f"--target-transform cannot be combined with --loss {loss}.")
        params["target_transform"] = target_transform
    if loss is None:
        if quantile is not None:
            raise ValueError("--quantile requires --loss quantile.")
        return params
    check_option("--loss", loss, LOSSES)
    if task == "classification":
        raise ValueError("--loss is for regression: omit it, or --task classification.")
    if (loss == "quantile") != (quantile is not None):
        raise ValueError("--loss quantile and --quantile require each other.")
    if quantile is not None and not 0 < quantile < 1:
        raise ValueError(f"--quantile must be between 0 and 1. Got {quantile:g}.")
    return {"loss": loss, "quantile": quantile, **params}


def split_names(text: str | None) -> list[str]:
    """Return the names of COLUMN,COLUMN; none without a text."""
    return [] if text is None else [name.strip() for name in text.split(",")]


def parse_pairs(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Parse NAME=VALUE."""
    for text in texts:
        if "=" not in text:
            raise ValueError(f"--group and --cost must be NAME=VALUE. Got {text!r}.")
    return [(t.split("=", 1)[0].strip(), t.split("=", 1)[1]) for t in texts]


def parse_sparsity_weight(text: str) -> float | Literal["auto"] | tuple[float, float]:
    """Parse a number, 'auto', or LOW:HIGH."""
    if text == "auto":
        return "auto"
    if ":" not in text:
        return parse_number(text, "--sparsity-weight")
    return parse_range(text, "--sparsity-weight")


def parse_range(text: str, name: str) -> tuple[float, float]:
    """Parse LOW:HIGH; ``name`` is the option."""
    low, separator, high = text.partition(":")
    if not separator:
        raise ValueError(f"{name} must be a range LOW:HIGH. Got {text!r}.")
    return parse_number(low, name), parse_number(high, name)


def parse_number(text: str, name: str) -> float:
    """Parse a number; ``name`` is the option, for the message."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number. Got {text!r}.") from None


def read_columns(path: Path) -> dict[str, Any]:
    """Read the JSON file of ``--columns``; the estimator validates its entries."""
    _check_exists(path)
    try:
        columns = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"--columns: {str(path)!r} is not valid JSON: {error}") from error
    if not isinstance(columns, dict):
        raise ValueError(f"--columns: {str(path)!r} must have column names as keys.")
    return columns


def to_json(state: dict[str, Any]) -> str:
    """Return what a command prints as JSON."""
    return json.dumps(state, ensure_ascii=False, indent=2)


def _check_exists(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder, not a file.")
    if not path.is_file():
        raise FileNotFoundError(f"The file {str(path)!r} does not exist.")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_frame(frame: Any, path: Path, form: CsvFormat | None = None) -> None:
    """Write a CSV, TSV or Parquet file atomically; texts are written as they are."""
    form = form or CsvFormat()
    if is_parquet(path):
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        write_atomic(path, buffer.getvalue())
    else:
        text = frame.to_csv(index=False, sep=form.separator(path))
        write_atomic(path, text.encode(form.encoding or "utf-8"))


Model = Annotated[Path, typer.Argument(help="Model file, as written by 'suwr fit'.")]
Data = Annotated[Path, typer.Argument(help="CSV, TSV or Parquet file.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Target = Annotated[
    str | None,
    typer.Option(help="Column of true classes or values.", show_default="as in 'suwr fit'"),
]
MeanFeatures = Annotated[
    float | None,
    typer.Option(
        help="Target for the mean number of features per row; needs a model fitted for a range "
        "of sparsity weights."
    ),
]
Context = Annotated[
    bool,
    typer.Option("--context/--no-context", help="Say where numbers lie among the training values."),
]


def report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Print expected errors and warnings as one line each, without places in the source code.

    A parameter ``form`` of the type `CsvFormat` becomes the options of its fields.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    known = inspect.signature(CsvFormat, eval_str=True).parameters if "form" in parameters else {}
    fields = {name: p for name, p in known.items() if name != "missing"}
    options = [p for name, p in parameters.items() if name != "form"]
    options += [p.replace(kind=p.KEYWORD_ONLY) for p in fields.values()]

    @wraps(command)
    def run(**given: Any) -> None:
        shown: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, UserWarning):
                default(message, category, *place, **more)
            elif str(message) not in shown:
                shown.add(str(message))
                print_warning(str(message))

        try:
            with warnings.catch_warnings():
                default, warnings.showwarning = warnings.showwarning, show
                if fields:
                    given["form"] = CsvFormat(**{name: given.pop(name) for name in fields})
                command(**given)
        except (ValueError, OSError, ImportError, KeyError) as error:
            text = str(error) if not isinstance(error, KeyError) else str(error.args[0])
            if isinstance(error, OSError) and error.strerror and error.filename:
                text = f"{printable(error.filename)}: {error.strerror}"
            print_error(text)
            raise typer.Exit(1) from None

    run.__dict__["__signature__"] = inspect.Signature(options)
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run
