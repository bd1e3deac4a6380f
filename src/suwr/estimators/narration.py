"""From the trace of a rollout to narratives in the user's own words and units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from suwr.data.tables import Table
from suwr.estimators.source import ModelSource
from suwr.explanation import Explanation, Narrative, Step
from suwr.nn.rollout import Policy, Trace

if TYPE_CHECKING:
    from suwr.estimators.base import BaseSUWR

__all__ = ["narrate"]


def narrate(
    model: BaseSUWR,
    table: Table,
    trace: Trace,
    labels: Sequence[Any],
    policy: Policy | None = None,
) -> Explanation:
    """One narrative per row. Of the table, only revealed cells are read.

    The explanation remembers table and policy (by default the model's own), for pages that carry
    them.
    """
    assert trace.stop_probability is not None
    assert trace.prediction is not None
    n, states = trace.stop_probability.shape
    shown = model._in_user_units(trace.prediction.reshape(n * states, -1)).reshape(n, states, -1)
    names, units, n_steps = model.encoder_.names, model.units_, trace.n_steps
    columns_of = [units.columns_of(u) for u in range(len(units))]
    classes = model._class_labels()
    narratives = []
    for row in range(n):
        predictions = [tuple(float(p) for p in shown[row, t]) for t in range(n_steps[row] + 1)]
        steps = []
        for t in range(n_steps[row]):
            revealed = {
                units.names[unit]: {names[c]: table.value(row, c) for c in columns_of[unit]}
                for unit in trace.order[row, t]
                if unit >= 0
            }
            stop = float(trace.stop_probability[row, t + 1])
            steps.append(Step(revealed, stop, predictions[t], predictions[t + 1]))
        narratives.append(
            Narrative(
                labels[row],
                predictions[0],
                float(trace.stop_probability[row, 0]),
                tuple(steps),
                _ending(model, trace, row, int(n_steps[row])),
                classes,
                len(units),
            )
        )
    return Explanation(narratives, ModelSource(model, table, policy or model.policy_))


def _ending(model: BaseSUWR, trace: Trace, row: int, n_steps: int) -> str:
    if not np.any(model.units_.membership & ~trace.mask[row]):
        return "everything"
    return "budget" if n_steps == model.max_steps_ else "decision"
