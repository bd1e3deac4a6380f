"""Exceptions of suwr.

Each class also derives from a built-in exception, so that handlers of ``ValueError`` or
``ImportError`` catch it.
"""

__all__ = [
    "CertificationWarning",
    "ColumnWarning",
    "DataError",
    "MissingExtraError",
    "ModelFileError",
    "ModelOutputError",
    "ProblemTooLargeError",
    "ReceiptError",
    "SessionError",
    "StartWarning",
    "StochasticModelWarning",
    "SuwrError",
    "TableError",
    "UninformativeModelWarning",
    "UnsupportedModelError",
    "UnusualValueWarning",
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
    >>> suwr.auditing.audit_files("nowhere.csv", masks="masks.csv")
    Traceback (most recent call last):
    suwr.exceptions.TableError: 'nowhere.csv' cannot be read: [Errno 2] No such file or ...
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


class ModelOutputError(SuwrError, ValueError):
    """A model that is explained failed, or returned something other than finite outputs.

    Examples
    --------
    >>> from suwr.exceptions import ModelOutputError
    >>> issubclass(ModelOutputError, ValueError)
    True
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


class ReceiptError(SuwrError, ValueError):
    """A text is not a receipt: malformed, altered, too long, or of a newer format.

    Examples
    --------
    >>> import suwr
    >>> from suwr.exceptions import ReceiptError
    >>> try:
    ...     suwr.Receipt.from_json("{}")
    ... except ReceiptError:
    ...     print("not a receipt")
    not a receipt
    """


class SessionError(SuwrError, ValueError):
    """The JSON of a session is invalid, altered, or of another model; see ``acquire``.

    Examples
    --------
    >>> from suwr.exceptions import SessionError
    >>> issubclass(SessionError, ValueError)
    True
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


class StochasticModelWarning(UserWarning):
    """A model that is explained returned different outputs for the same rows.

    Examples
    --------
    >>> from suwr.exceptions import StochasticModelWarning
    >>> issubclass(StochasticModelWarning, UserWarning)
    True
    """


class UnusualValueWarning(UserWarning):
    """A prediction used a value far outside the training range, or an unknown category.

    Only values that the policy revealed are checked.

    Examples
    --------
    >>> from suwr.exceptions import UnusualValueWarning
    >>> issubclass(UnusualValueWarning, UserWarning)
    True
    """


class CertificationWarning(UserWarning):
    """A certificate is worth less than expected; see ``certify``.

    No policy that leaves features unrevealed could be certified; or the policy that stops at once
    meets the level as well; or the calibration rows are not new draws, since the model was fitted
    on some of them or most of them are the same row.

    Examples
    --------
    >>> from suwr.exceptions import CertificationWarning
    >>> issubclass(CertificationWarning, UserWarning)
    True
    """


class ColumnWarning(UserWarning):
    """Columns are probably not meant as they are read: identifiers, dates or free text.

    Examples
    --------
    >>> from suwr.exceptions import ColumnWarning
    >>> issubclass(ColumnWarning, UserWarning)
    True
    """


class StartWarning(UserWarning):
    """Known values start a row in a state that training has not visited; see ``known_at_start``.

    Examples
    --------
    >>> from suwr.exceptions import StartWarning
    >>> issubclass(StartWarning, UserWarning)
    True
    """
