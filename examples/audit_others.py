"""Audit other selectors: the top features of a linear model, of SHAP values, and TabNet's masks.

python examples/audit_others.py            # a minute or two
python examples/audit_others.py --quick    # seconds

Requires `pip install '.[audit,baselines]'`. Audits whose library is not installed are skipped.
"""

import argparse

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import suwr
from suwr.auditing import AuditReport
from suwr.auditing.adapters import TopK, from_shap
from suwr.baselines import TabNetClassifier
from suwr.exceptions import MissingExtraError


def audit_weights(X, y) -> AuditReport:
    """The five largest products of weight and value of a linear model."""
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
    """The features with non-zero attention in TabNet."""
    model = TabNetClassifier(max_epochs=max_epochs, random_state=0).fit(X, y)
    return suwr.audit(model, X, y, gaps=False, random_state=0)


def main(quick: bool = False) -> None:
    """Run every audit and print its verdict."""
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
            print(f"{name}: skipped. {missing}\n")
            continue
        print(f"{name}: {report.verdict}")
        print(f"{report.summary()}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="train for a few epochs only")
    main(parser.parse_args().quick)
