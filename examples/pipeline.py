"""SUWR in a scikit-learn Pipeline, with λ chosen by GridSearchCV.

python examples/pipeline.py            # a few minutes
python examples/pipeline.py --quick    # seconds

Transformers before the model must treat each column separately, such as scaling. A principal
component mixes all columns, so revealing it would reveal information about all of them.
"""

import argparse
from typing import Any

from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from suwr import SUWRClassifier


def main(quick: bool = False) -> None:
    """Choose λ by cross-validation, then explain one prediction."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    settings: dict[str, Any] = (
        {"max_epochs": 1, "training": {"hidden_size": 16}} if quick else {"max_epochs": 40}
    )
    pipeline = Pipeline(
        [
            ("rounded", FunctionTransformer(lambda frame: frame.round(1))),
            ("model", SUWRClassifier(random_state=0, **settings)),
        ]
    )
    grid = {"model__sparsity_weight": [0.01, 0.1] if quick else [0.003, 0.01, 0.03, 0.1]}
    search = GridSearchCV(pipeline, grid, cv=2 if quick else 5, scoring="neg_log_loss")
    search.fit(X_train, y_train)
    best = search.best_estimator_
    print(f"λ = {search.best_params_['model__sparsity_weight']}")
    print(f"accuracy {best.score(X_test, y_test):.3f}")
    rounded = best[:-1].transform(X_test)
    print(best["model"].explain(rounded)[0].text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="train for a few epochs only")
    main(parser.parse_args().quick)
