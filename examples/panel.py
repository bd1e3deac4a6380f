"""A medical panel: one blood sample gives six values, so they are one question.

python examples/panel.py            # about a minute
python examples/panel.py --quick    # seconds, to see it run

The data are the 442 diabetes patients that come with scikit-learn. For whom can the progression
of the disease be told without a blood sample?
"""

import argparse
from typing import Any

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from suwr import SUWRRegressor

BLOOD = ["s1", "s2", "s3", "s4", "s5", "s6"]


def main(quick: bool = False) -> None:
    """Fit, count the samples taken, tell two stories, and ask a patient question by question."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    settings: dict[str, Any] = {"max_epochs": 1, "hidden_size": 16} if quick else {}
    reg = SUWRRegressor(groups={"blood": BLOOD}, costs={"blood": 3.0}, random_state=0, **settings)
    reg.fit(X_train, y_train)
    sampled = reg.select(X_test)[:, list(X.columns).index("s1")]
    print(f"R² {reg.score(X_test, y_test):.2f}; blood taken from {sampled.mean():.0%} of patients")
    stories = reg.explain(X_test)
    for row in (sampled.argmax(), sampled.argmin()):  # one with a sample, one without
        print(f"\n{stories[int(row)].text()}")

    patient = X_test.iloc[0]
    session = reg.acquire()
    while not session.done:
        print(f"\nPlease find out: {session.next_unit}")
        session.observe({name: patient[name] for name in session.next_columns})
    print(f"\nEnough: {session.prediction:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="train briefly, to see it run")
    main(parser.parse_args().quick)
