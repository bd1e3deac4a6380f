"""A group of features: one blood sample gives six values, so they are revealed together.

python examples/panel.py            # about a minute
python examples/panel.py --quick    # seconds

For which of the 442 diabetes patients of scikit-learn's data set can the progression of the disease
be predicted without a blood sample?
"""

import argparse
from typing import Any

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from suwr import SUWRRegressor

BLOOD = ["s1", "s2", "s3", "s4", "s5", "s6"]


def main(quick: bool = False) -> None:
    """Fit, count blood samples, explain two predictions, and acquire features of a new patient."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    settings: dict[str, Any] = {"max_epochs": 1, "training": {"hidden_size": 16}} if quick else {}
    reg = SUWRRegressor(groups={"blood": BLOOD}, costs={"blood": 3.0}, random_state=0, **settings)
    reg.fit(X_train, y_train)
    sampled = reg.select(X_test)[:, list(X.columns).index("s1")]
    print(
        f"R² {reg.score(X_test, y_test):.2f}; blood samples from {sampled.mean():.0%} of patients"
    )
    explanation = reg.explain(X_test)
    for row in (sampled.argmax(), sampled.argmin()):  # with and without a blood sample
        print(f"\n{explanation[int(row)].text()}")

    patient = X_test.iloc[0]
    session = reg.acquire()
    while not session.done:
        print(f"\nNext feature: {session.next_unit}")
        session.observe({name: patient[name] for name in session.next_columns})
    print(f"\nPrediction: {session.prediction:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="train for a few epochs only")
    main(parser.parse_args().quick)
