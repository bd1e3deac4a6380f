"""Rows of JSON whose hidden cells are poisoned, for tests of the service."""

#: Cells that no column accepts, or that look like other values.
WRONG_TYPES = [{"a": [1]}, [2], "zqx", True, -1.5, 10**30, None, {}, "\ud800"]


def poisoned_rows(rows, mask, seed):
    """The rows, dicts by column, with other values in the cells that are not in the mask."""
    return [
        {
            name: value if mask[i, j] else WRONG_TYPES[(i + j + seed) % len(WRONG_TYPES)]
            for j, (name, value) in enumerate(row.items())
        }
        for i, row in enumerate(rows)
    ]
