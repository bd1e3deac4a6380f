"""Credit decisions with costs per feature.

python examples/credit.py            # about a minute
python examples/credit.py --quick    # seconds

The applicants are simulated, and their decisions follow a known rule. Asking the applicant is
cheap, a look into the credit register costs more, and an appraisal of the house costs most. With
costs, the model acquires cheap features first, and expensive ones only where they matter.
"""

import argparse
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from suwr import SUWRClassifier

COSTS = {"register": 4.0, "house_value": 8.0}


def applicants(n_rows: int, seed: int) -> tuple[pd.DataFrame, Any]:
    """Simulate applicants; the register decides for low incomes, the house for large loans."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 75, n_rows),
            "income": rng.gamma(4.0, 9.0, n_rows).round(1),
            "loan": rng.gamma(2.0, 60.0, n_rows).round(0),
            "employment": rng.choice(["none", "temporary", "permanent"], n_rows, p=[0.1, 0.3, 0.6]),
            "register": rng.choice(["clean", "entries"], n_rows, p=[0.8, 0.2]),
            "house_value": rng.gamma(3.0, 90.0, n_rows).round(0),
        }
    )
    X.loc[rng.random(n_rows) < 0.1, "house_value"] = np.nan  # tenants
    poor = X["income"] < 30
    risky = np.where(poor, X["register"] == "entries", X["employment"] == "none")
    uncovered = (X["loan"] > 150) & ~(X["house_value"] > X["loan"])
    return X, np.where(risky | uncovered, "refused", "granted")


def main(quick: bool = False) -> None:
    """Fit with and without costs, and compare the cost per row."""
    X, y = applicants(400 if quick else 4000, seed=0)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    settings: dict[str, Any] = {"random_state": 0, "sparsity_weight": 0.01}
    if quick:
        settings |= {"max_epochs": 1, "training": {"hidden_size": 16}}
    plain = SUWRClassifier(**settings).fit(X_train, y_train)
    with_costs = SUWRClassifier(costs=COSTS, **settings).fit(X_train, y_train)
    costs = np.array([COSTS.get(name, 1.0) for name in X.columns])
    print("The register matters for low incomes, the house for large loans.\n")
    for name, model in (("without costs", plain), ("with costs", with_costs)):
        spent = (model.select(X_test) * costs).sum(axis=1).mean()
        print(
            f"{name:<15} accuracy {model.score(X_test, y_test):.3f}, mean cost {spent:.2f} per row"
        )
    for narrative in with_costs.explain(X_test[:2]):
        print(f"\n{narrative.text()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="train for a few epochs only")
    main(parser.parse_args().quick)
