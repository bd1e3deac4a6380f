"""scikit-learn's estimator checks with as little training as each of them needs."""

from sklearn.base import clone

# Checks that require a minimum score or predictions of every class.
SCORED = {
    "check_classifiers_train",
    "check_classifiers_classes",
    "check_regressors_train",
}


def with_brief_training(estimator, check):
    """Return ``estimator`` if ``check`` tests its score, otherwise a copy that trains one epoch."""
    if check.func.__name__ in SCORED or "max_epochs" not in estimator.get_params():
        return estimator
    return clone(estimator).set_params(max_epochs=1)
