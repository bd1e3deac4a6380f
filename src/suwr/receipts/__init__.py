"""Receipts of predictions: the document, its reading, and principal reasons."""

from suwr.receipts.reading import TOLERANCE
from suwr.receipts.reasons import Reason, principal_reasons
from suwr.receipts.receipt import MAX_BYTES, Issuer, Origin, Receipt, make_receipt

__all__ = [
    "MAX_BYTES", "TOLERANCE", "Issuer", "Origin", "Reason", "Receipt", "make_receipt",
    "principal_reasons",
]  # fmt: skip
