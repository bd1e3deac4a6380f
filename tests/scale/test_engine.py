"""On a Dask cluster, sweeps and scoring give the results of one process, even if a worker dies."""

import os
from pathlib import Path

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from joblib import Parallel, delayed, parallel_config
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

import suwr
from helpers.models import FATAL_WEIGHT, FragileClassifier
from suwr import SUWRClassifier, engine, score_partitions, sparsity_path
from suwr.exceptions import MissingExtraError

SMALL = {"max_epochs": 1, "training": {"hidden_size": 4}, "random_state": 0, "device": "cpu"}
WEIGHTS = [0.01, FATAL_WEIGHT]
FIXTURES = Path(__file__).parents[1] / "estimators" / "fixtures"


@pytest.fixture(scope="module")
def deaths(tmp_path_factory):
    """The directory where workers leave a marker file before they are killed."""
    folder = tmp_path_factory.mktemp("deaths")
    os.environ["FRAGILE"] = str(folder)
    yield folder
    del os.environ["FRAGILE"]


@pytest.fixture(scope="module")
def cluster(deaths):
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def problem():
    return make_classification(40, 4, random_state=0)


@pytest.mark.slow
def test_a_path_survives_a_killed_worker(cluster, deaths, problem):
    known = sparsity_path(SUWRClassifier(**SMALL), *problem, WEIGHTS)
    with Client(cluster) as client, parallel_config("dask"):
        client.wait_for_workers(2)  # with a single thread, joblib runs locally
        path = sparsity_path(FragileClassifier(**SMALL), *problem, WEIGHTS)
    assert len(list(deaths.iterdir())) == 1
    np.testing.assert_array_equal(path.score, known.score)
    np.testing.assert_array_equal(path.n_selected, known.n_selected)


@pytest.mark.slow
def test_a_search_survives_killed_workers(cluster, deaths, problem):
    for marker in deaths.iterdir():
        marker.unlink()
    grid = {"sparsity_weight": WEIGHTS}
    with engine(cluster):
        search = GridSearchCV(FragileClassifier(**SMALL), grid, cv=2, refit=False).fit(*problem)
    assert len(list(deaths.iterdir())) == 1
    plain = GridSearchCV(SUWRClassifier(**SMALL), grid, cv=2, refit=False).fit(*problem)
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(search.cv_results_[name], plain.cv_results_[name])


@pytest.mark.slow
def test_large_arguments_and_errors_are_transferred(cluster):
    values = np.ones(400_000)
    with engine(cluster):
        assert Parallel()(delayed(np.multiply)(2, n) for n in range(5)) == [0, 2, 4, 6, 8]
        norms = Parallel()(delayed(np.dot)(values, values) for _ in range(3))
        assert norms == [400_000.0] * 3
        with pytest.raises(ZeroDivisionError):
            Parallel()(delayed(divmod)(1, n) for n in (1, 0, 2))


@pytest.mark.slow
def test_scoring_on_the_cluster(cluster, tmp_path):
    model = suwr.load(FIXTURES / "classifier-1.suwr")
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.randn(300, 3), columns=["age", "height", "width"])
    X["colour"], X["member"] = "red", X["age"] > 0
    X = X[model.encoder_.names]
    X.to_parquet(tmp_path / "x.parquet", row_group_size=100)
    with engine(cluster):
        files = score_partitions(
            model, tmp_path / "x.parquet", tmp_path / "a", rows_per_partition=100
        )
    assert files.to_frame()["prediction"].tolist() == model.predict(X).tolist()
    with Client(cluster):
        frames = score_partitions(model, dd.from_pandas(X, npartitions=3), tmp_path / "b")
    assert frames.to_frame()["prediction"].tolist() == model.predict(X).tolist()
    assert [list(s) for s in frames.to_frame()["steps"]] == [
        [t.unit for t in e.steps] for e in model.explain(X)
    ]
    again = score_partitions(model, dd.from_pandas(X, npartitions=3), tmp_path / "b")
    assert (again.n_scored, again.n_resumed) == (0, 3)


def test_a_frame_with_several_index_levels_is_scored(tmp_path):
    model = suwr.load(FIXTURES / "classifier-1.suwr")
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.randn(40, 3), columns=["age", "height", "width"])
    X["colour"], X["member"] = "red", X["age"] > 0
    X = X[model.encoder_.names]
    levels = [range(10), list("abcd")]
    for number, names in enumerate((["patient", "visit"], [None, "visit"])):
        frame = X.set_axis(pd.MultiIndex.from_product(levels, names=names))
        parts = [dask.delayed(frame[:25]), dask.delayed(frame[25:])]
        scored = score_partitions(
            model, dd.from_delayed(parts, meta=frame[:0]), tmp_path / str(number)
        ).to_frame()
        assert scored["prediction"].tolist() == model.predict(X).tolist()
        first = names[0] or "level_0"
        assert scored["row"].tolist() == [{first: i, "visit": v} for i, v in frame.index]


def test_an_invalid_address_is_a_connection_error(monkeypatch):
    monkeypatch.setattr("suwr.scale.TIMEOUT", 1)
    for address in ("nonsense", "tcp://127.0.0.1:1"):
        with (
            pytest.raises(ConnectionError, match="must be the address of a running Dask scheduler"),
            engine(address),
        ):
            pass
        # The failed client must not remain the default scheduler of the process.
        assert dask.config.get("scheduler", None) is None


def test_a_cluster_without_workers_is_a_connection_error(monkeypatch):
    monkeypatch.setattr("suwr.scale.TIMEOUT", 1)
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as cluster,
        pytest.raises(ConnectionError, match="has no workers after 1 seconds"),
        engine(cluster.scheduler_address),
    ):
        pass


def test_missing_dask_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"suwr\[dask\]"), engine("tcp://127.0.0.1:1"):
        pass
