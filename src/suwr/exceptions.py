"""Exceptions of suwr.

Each class also derives from a built-in exception, so that handlers of ``ValueError`` or
``ImportError`` catch it.
"""

__all__ = [
    "CertificationWarning",
    "DataError",
    "MissingExtraError",
    "ModelFileError",
    "ProblemTooLargeError",
    "SuwrError",
    "TableError",
    "UninformativeModelWarning",
    "UnsupportedModelError",
]


class SuwrError(Exception):
    """Base class of the exceptions of suwr.

    Examples
    --------
    >>> from suwr.exceptions import ModelFileError, SuwrError
    >>> issubclass(ModelFileError, SuwrError)
    True
    """


class TableError(SuwrError, ValueError):
    """A table or one of its columns is invalid.

    Examples
    --------
    >>> import suwr
    >>> suwr.audit.audit_files("nowhere.csv", masks="masks.csv")
    Traceback (most recent call last):
    suwr.exceptions.TableError: There is no file nowhere.csv.
    """


class ModelFileError(SuwrError, ValueError):
    """A file is not a loadable model: truncated, altered, of another kind, or of a newer version.

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
    ...         print("not a model")
    not a model
    """


class DataError(SuwrError, OSError):
    """A published data set is corrupt, or can be neither found nor downloaded.

    Examples
    --------
    >>> from suwr.exceptions import DataError
    >>> issubclass(DataError, OSError)
    True
    """


class ProblemTooLargeError(SuwrError, ValueError):
    """An exact computation would exceed its limit of states or memory.

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
    """An optional dependency is not installed; the message names the extra that installs it.

    Examples
    --------
    >>> from suwr.exceptions import MissingExtraError
    >>> issubclass(MissingExtraError, ImportError)
    True
    """


class UnsupportedModelError(SuwrError, ValueError):
    """A model cannot be exported in the requested form.

    Examples
    --------
    >>> from suwr.exceptions import UnsupportedModelError
    >>> issubclass(UnsupportedModelError, ValueError)
    True
    """


class UninformativeModelWarning(UserWarning):
    """A fitted policy is no better on held-out rows than a constant or a fixed subset.

    Examples
    --------
    >>> from suwr.exceptions import UninformativeModelWarning
    >>> issubclass(UninformativeModelWarning, UserWarning)
    True
    """


class CertificationWarning(UserWarning):
    """No policy that leaves features unrevealed could be certified; see ``certify``.

    Examples
    --------
    >>> from suwr.exceptions import CertificationWarning
    >>> issubclass(CertificationWarning, UserWarning)
    True
    """
