"""Every error that is ours.

Each one is also a built-in or scikit-learn kind, so that code which catches ``ValueError`` or
``ImportError`` keeps working.
"""

__all__ = [
    "DataError",
    "MissingExtraError",
    "ModelFileError",
    "ProblemTooLargeError",
    "SuwrError",
    "TableError",
    "UnsupportedModelError",
]


class SuwrError(Exception):
    """Base class of the errors that suwr raises itself.

    Examples
    --------
    >>> from suwr.exceptions import ModelFileError, SuwrError
    >>> issubclass(ModelFileError, SuwrError)
    True
    """


class TableError(SuwrError, ValueError):
    """A table, or a column of it, cannot be used.

    Examples
    --------
    >>> import suwr
    >>> suwr.audit.audit_files("nowhere.csv", model="m.suwr")
    Traceback (most recent call last):
    suwr.exceptions.TableError: There is no file nowhere.csv.
    """


class ModelFileError(SuwrError, ValueError):
    """A file is not a model that suwr can load: truncated, altered, foreign or too new.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import suwr
    >>> from suwr.exceptions import ModelFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "m.suwr"
    ...     _ = path.write_text("no model")
    ...     try:
    ...         suwr.load(path)
    ...     except ModelFileError:
    ...         print("refused")
    refused
    """


class DataError(SuwrError, OSError):
    """A published data set is damaged, or neither found nor downloaded; the message says where.

    Examples
    --------
    >>> from suwr.exceptions import DataError
    >>> issubclass(DataError, OSError)
    True
    """


class ProblemTooLargeError(SuwrError, ValueError):
    """An exact computation would need more states than are allowed.

    Examples
    --------
    >>> from suwr.exact import FiniteProblem, cube, solve
    >>> from suwr.exceptions import ProblemTooLargeError
    >>> try:
    ...     solve(FiniteProblem(cube(10), [0] * 1024, max_memory=1000), 0.1)
    ... except ProblemTooLargeError:
    ...     print("too large")
    too large
    """


class MissingExtraError(SuwrError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it.

    Examples
    --------
    >>> from suwr.exceptions import MissingExtraError
    >>> issubclass(MissingExtraError, ImportError)
    True
    """


class UnsupportedModelError(SuwrError, ValueError):
    """A model cannot be written down in the form that was asked for.

    Examples
    --------
    >>> from suwr.exceptions import UnsupportedModelError
    >>> issubclass(UnsupportedModelError, ValueError)
    True
    """
