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
]


class SuwrError(Exception):
    """Base class of the errors that suwr raises itself."""


class TableError(SuwrError, ValueError):
    """A table, or a column of it, cannot be used."""


class ModelFileError(SuwrError, ValueError):
    """A file is not a model that suwr can load: truncated, altered, foreign or too new."""


class DataError(SuwrError, OSError):
    """A published data set is damaged, or neither found nor downloaded; the message says where."""


class ProblemTooLargeError(SuwrError, ValueError):
    """An exact computation would need more states than are allowed."""


class MissingExtraError(SuwrError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""
