"""Fixtures shared by several test modules. Models are trained briefly, once per session."""

import os
import tempfile

import hypothesis
import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes

from helpers.models import SCORED, fit_random_policy, fitted_once
from helpers.pages import chromium, unavailable
from helpers.tables import mixed_table
from suwr import SUWRClassifier, SUWRRegressor


def pytest_addoption(parser):
    """Add the option --seeds."""
    parser.addoption(
        "--seeds", type=int, default=1, metavar="N",
        help="N times as many forged, hostile and hidden values in the tests of seeded cases",
    )  # fmt: skip


def pytest_configure(config):
    """Make the folder of `fitted_once`, which the workers inherit from the first process."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory()
        config.add_cleanup(folder.cleanup)
        os.environ["SUWR_TEST_MODELS"] = folder.name


# One baseline of each base class, whose `fit` the others share.
BASELINES = ("CAEClassifier", "GDFSClassifier", "INVASEClassifier")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of scikit-learn's checks, variants and those that train until a score are slow."""
    for item in items:
        check = getattr(item, "callspec", None) and item.callspec.params.get("check")
        if not check:
            continue
        name = getattr(getattr(check, "func", check), "__name__", "")
        estimator = item.callspec.params.get("estimator")
        kind = type(estimator).__name__
        scored = name in SCORED and (kind, name) != ("SUWRClassifier", "check_classifiers_train")
        other = type(estimator).__module__.startswith("suwr.baselines") and kind not in BASELINES
        if getattr(check, "keywords", None) or "equivalence" in name or scored or other:
            item.add_marker(pytest.mark.slow)


# One thread per process, because pytest-xdist already runs one process per core.
torch.set_num_threads(1)
# On a busy machine, an example may take any time.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def cancer():
    return load_breast_cancer(return_X_y=True, as_frame=True)


@pytest.fixture(scope="session")
def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True, scaled=False)


@pytest.fixture(scope="session")
@fitted_once
def classifier():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    columns = list(X.columns[:10])
    settings = {
        "max_epochs": 12,
        "training": {"n_predictors": 2, "hidden_size": 32},
        "sparsity_weight": 0.05,
    }
    return SUWRClassifier(**settings, random_state=0).fit(X[columns], y)


@pytest.fixture(scope="session")
@fitted_once
def regressor():
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return SUWRRegressor(
        max_epochs=12, training={"n_predictors": 2, "hidden_size": 32}, random_state=0
    ).fit(X, y)


@pytest.fixture(scope="session")
@fitted_once
def mixed_model():
    """A model of columns of every type with a random policy."""
    return fit_random_policy(*mixed_table())


@pytest.fixture(scope="session")
def n_seeds(pytestconfig):
    """Factor of the number of seeded cases."""
    return pytestconfig.getoption("seeds")


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.fixture(scope="session")
def browser():
    """Chromium; one for all tests, since two event loops cannot run in one thread."""
    reason = unavailable()
    if reason and os.environ.get("SUWR_REQUIRE_BROWSER") == "1":
        pytest.fail(f"SUWR_REQUIRE_BROWSER=1, but {reason}")
    if reason:
        pytest.skip(reason)
    with chromium() as browser:
        yield browser
