"""Do other people's explanations leak? An audit of the top k of SHAP values, and of TabNet's masks.

python examples/audit_others.py            # a minute or two
python examples/audit_others.py --quick    # seconds, to see it run

Needs `pip install '.[audit,baselines]'`; a part whose library is missing says so and is left
out.
"""

import argparse

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import suwr
from suwr.audit import AuditReport
from suwr.audit.adapters import TopK, from_shap
from suwr.baselines import TabNetClassifier
from suwr.exceptions import MissingExtraError


def audit_weights(X, y) -> AuditReport:
    """Weight times value of a linear model: what is top depends on all values."""
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    scale, linear = model[0], model[-1]
    selector = TopK(lambda rows: scale.transform(rows) * linear.coef_[0], k=5)
    return suwr.audit(selector, X, y, gaps=False, random_state=0)


def audit_shap(X, y) -> AuditReport:
    """The five largest SHAP values of a linear model."""
    model = LogisticRegression(max_iter=5000).fit(X, y)
    selector = from_shap(model, k=5, background=X)
    return suwr.audit(selector, X, y, gaps=False, max_seconds=30, random_state=0)


def audit_tabnet(X, y, max_epochs: int) -> AuditReport:
    """The features to which TabNet pays attention."""
    model = TabNetClassifier(max_epochs=max_epochs, random_state=0).fit(X, y)
    return suwr.audit(model, X, y, gaps=False, random_state=0)


def main(quick: bool = False) -> None:
    """Run what can be run, and print the verdicts."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:, :10], y  # the ten means
    audits = {
        "weight × value, top 5": lambda: audit_weights(X, y),
        "SHAP, top 5": lambda: audit_shap(X, y),
        "TabNet": lambda: audit_tabnet(X, y, 1 if quick else 50),
    }
    for name, run in audits.items():
        try:
            report = run()
        except MissingExtraError as missing:
            print(f"{name}: left out. {missing}\n")
            continue
        print(f"{name}: {report.verdict}")
        print(f"{report.summary()}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="train briefly, to see it run")
    main(parser.parse_args().quick)
