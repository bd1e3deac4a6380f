"""Texts of receipts that are written from arrays."""

from types import SimpleNamespace

import numpy as np
import pytest

from suwr import Receipt
from suwr.narrative.receipt import ReceiptWriter, Recorded, cell_text, to_text

ISSUER = SimpleNamespace(model="0" * 64, environment="here", condition=None, certificate=None)


def recorded(stop=0.75):
    """Two rows with a target of regression: one step of two units, and none."""
    return Recorded.of(
        np.array([1, 0]),
        np.array([[[1, 0]], [[-1, -1]]]),
        np.array([[0.25, stop], [0.5, np.nan]], dtype=np.float32),
        np.array([[[1.0], [2.5]], [[1.0], [np.nan]]]),
        np.array([[0.25, 1e-6], [0.0, np.nan]], dtype=np.float32),
        ["everything", "decision"],
    )


def writer():
    return ReceiptWriter(ISSUER, None, [("a", [0]), ("b c", [1, 2])], ["a", "b", "c"])


CELLS = [{0: "3"}, {0: '"x"'}, {0: "null"}]


def test_texts_are_receipts():
    first = Receipt.from_json(writer().text(0, "7", recorded(), CELLS))
    assert first.narrative.row == 7
    assert first.steps[0].revealed == {"b c": {"b": "x", "c": None}, "a": {"a": 3}}
    assert first.narrative.stop_probabilities == (0.25, 0.75)
    assert first.narrative.predictions == ((1.0,), (2.5,))
    assert (first.near_ties, first.answer) == ((1,), 2.5)
    # The text of the receipt that was read is the same.
    assert first.to_json() == writer().text(0, "7", recorded(), CELLS)
    second = Receipt.from_json(writer().text(1, '"r"', recorded(), CELLS))
    assert (second.narrative.row, second.steps, second.near_ties) == ("r", (), (0,))


def test_rows_without_a_receipt():
    with pytest.raises(ValueError, match="not finite"):
        writer().text(0, "0", recorded(stop=np.nan), CELLS)
    # Only visited states count.
    writer().text(1, "0", recorded(stop=np.nan), CELLS)
    with pytest.raises(KeyError):
        writer().text(0, "0", recorded(), [{0: "3"}, {}, {0: "null"}])


@pytest.mark.parametrize("value", [3, -2.5, 1e300, None, True, "ü\n", 10**20])
def test_cells_are_those_of_json(value):
    assert cell_text(value) == to_text(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_cells_that_are_not_finite(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        cell_text(value)
