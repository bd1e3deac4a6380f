"""Predictions in many threads; fits in threads and in forked and spawned processes."""

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pandas as pd
import pytest

import suwr
from helpers.models import fit_and_predict
from helpers.tables import one_column
from suwr import SUWRClassifier
from suwr.baselines import L2XClassifier

FIXTURES = Path(__file__).parent / "fixtures"


def test_threads_predict_the_same():
    model = suwr.load(FIXTURES / "classifier-1.suwr")
    rows = json.loads((FIXTURES / "classifier-1.json").read_text())["rows"]
    X = pd.DataFrame(rows * 40)
    expected = model.predict_proba(X), model.select(X), model.explain(X[:12])

    def work(number):
        part = slice(0, 480 - number)
        return model.predict_proba(X[part]), model.select(X[part]), model.explain(X[:12])

    with ThreadPoolExecutor(16) as pool:
        for number, (probability, mask, explanation) in enumerate(pool.map(work, range(48))):
            np.testing.assert_array_equal(probability, expected[0][: 480 - number])
            np.testing.assert_array_equal(mask, expected[1][: 480 - number])
            assert explanation == expected[2]


def test_fits_in_threads_are_independent():
    X, y, _ = one_column(60)
    expected = [fit_and_predict(X, y, seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda seed: fit_and_predict(X, y, seed), range(3)))
    np.testing.assert_array_equal(found, expected)


# Newer Python versions warn about forking a multi-threaded process; it must work regardless.
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_fits_in_other_processes(method):
    X, y, _ = one_column(60)
    expected = fit_and_predict(X, y, 0)  # torch is initialized before the fork
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        found = pool.submit(fit_and_predict, X, y, 0).result(timeout=300)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("make", [SUWRClassifier, L2XClassifier])
def test_predictions_while_another_thread_fits(make):
    """Every prediction is that of one of the two fits: of classes, encoding and networks."""
    X, y, _ = one_column(60)
    size = {"hidden_size": 4} if make is L2XClassifier else {"training": {"hidden_size": 4}}
    settings = {"max_epochs": 1, "random_state": 0, **size}
    first, second = (make(**settings).fit(X, labels) for labels in (y, 1 - y))
    one, other = first.predict_proba(X), second.predict_proba(X)
    model, states, stop = make(**settings).fit(X, y), (vars(first), vars(second)), Event()

    def refit():
        while not stop.is_set():
            for state in states:
                with model._fit_aside() as fresh:
                    fresh.__dict__ = dict(state)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(refit)
        try:
            for _ in range(100):
                found = model.predict_proba(X)
                assert np.array_equal(found, one) or np.array_equal(found, other)
        finally:
            stop.set()
        done.result()
