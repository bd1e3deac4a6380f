"""How a selector behaves when it is simply asked again."""

from dataclasses import dataclass, field

import numpy as np

from suwr.audit._oracle import Oracle
from suwr.selector import BoolArray

_FEWEST_ROWS = 20


@dataclass
class Behaviour:
    """What asking again shows.

    Attributes
    ----------
    masks : bool array of shape (n_rows, n_columns)
        The first answers.
    stochastic : bool
        The same call gave another answer.
    company : bool
        The same row got another answer in a call with other rows.
    cautions : list of str
    """

    masks: BoolArray
    stochastic: bool = False
    company: bool = False
    cautions: list[str] = field(default_factory=list)


def affordable_rows(oracle: Oracle, max_seconds: float) -> int:
    """How many rows a slow selector can be asked about several times within the time allowed."""
    few = oracle.table.itself(np.arange(min(4, oracle.table.n_rows)))
    for _ in range(2):  # the first call may have to load or compile something
        oracle.select(few)
    return max(_FEWEST_ROWS, int(0.1 * max_seconds / max(oracle.seconds_per_row, 1e-9)))


def observe(oracle: Oracle) -> Behaviour:
    """Ask about all rows, again, and once more in another order.

    Masks that depend on the rest of the call are no function of the row. Rows are then asked
    about one at a time, which gives such a selector a meaning that can be audited.
    """
    table = oracle.table
    everyone = table.itself(np.arange(table.n_rows))
    masks = oracle.select(everyone)
    if (oracle.select(everyone) != masks).any():
        return Behaviour(masks, stochastic=True)
    # Half of the rows in reverse: other neighbours, other positions, another size of the call.
    part = np.arange(0, table.n_rows, 2)[::-1]
    again = oracle.select(everyone[part])
    differs = (again != masks[part]).any(axis=1)
    if not differs.any():
        return Behaviour(masks)
    share = float(differs.mean())
    behaviour = Behaviour(masks, company=share > 0.01)
    behaviour.cautions.append(
        f"The selector gave {100 * share:.2g} % of the rows another mask when they were asked "
        "about together with other rows: its answer depends on more than the row."
    )
    if behaviour.company:
        oracle.batch_size = 1
        behaviour.masks = oracle.select(everyone)
        if (oracle.select(everyone) != behaviour.masks).any():
            behaviour.stochastic = True
        else:
            behaviour.cautions.append("Rows were therefore asked about one at a time.")
    return behaviour
