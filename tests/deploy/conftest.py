"""A service of a model with columns of every type and a group."""

import numpy as np
import pytest

from helpers.models import randomize
from helpers.tables import mixed_table
from suwr import SUWRClassifier


@pytest.fixture(scope="session")
def grouped():
    """A model with random weights, and 40 rows for which it asks for every unit.

    It asks for several units of the first row.
    """
    X, y = mixed_table()
    groups = {"where": ["code", "city"]}
    model = SUWRClassifier(
        groups=groups, max_epochs=1, training={"hidden_size": 8}, max_steps=4, random_state=0
    ).fit(X, y)

    def accept():
        costs = model.cost(X[:40])
        several = costs[0] > 1 and len(np.unique(costs)) > 2
        return several and model.select(X[:40]).any(axis=0).all()

    return randomize(model, accept), X[:40]


@pytest.fixture(scope="session")
def rows(grouped):
    """The rows as JSON objects."""
    return [
        {k: v.item() if hasattr(v, "item") else v for k, v in row.items()}
        for row in grouped[1].to_dict("records")
    ]
