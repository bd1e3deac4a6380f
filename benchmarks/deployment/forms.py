"""Regret of static forms, by the number of pages: to their policy, and to the exact optimum.

    python benchmarks/deployment/forms.py

Two tables, measured on rows that were not used for training, and a finite problem (five binary
columns, of which x1 selects whether x2 or x3 is the label, which is flipped with probability 0.05),
where objectives of policy and form are computed by enumeration with the best predictor for their
masks and compared with the exact optimum.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split

from common import machine, write_json
from suwr import SUWRClassifier, SUWRRegressor
from suwr.deploy import ModelPolicy, make_form, measure_regret
from suwr.exact import FiniteProblem, solve

HERE = Path(__file__).parent
PAGES = (1, 10, 30, 100)
NOISE = 0.05


def tables() -> list[dict]:
    """Regret on held-out rows."""
    results = []
    cancer = load_breast_cancer(return_X_y=True, as_frame=True)
    diabetes = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    for name, (X, y), model in (
        (
            "breast cancer",
            cancer,
            SUWRClassifier(max_epochs=25, training={"hidden_size": 64}, random_state=0),
        ),
        (
            "diabetes",
            diabetes,
            SUWRRegressor(max_epochs=25, training={"hidden_size": 64}, random_state=0),
        ),
    ):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
        model.fit(X_train, y_train)
        for n in PAGES:
            form = make_form(ModelPolicy(model), max_pages=n)
            found = measure_regret(form, model, X_test, y_test)
            results.append({"data": name, "max_pages": n, "pages": form.n_questions}
                           | vars(found))  # fmt: skip
            print(results[-1])
    return results


def objective(problem: FiniteProblem, masks: np.ndarray, weight: float) -> float:
    """Loss + λ cost of masks, with the best predictor for them."""
    cost = float((problem.p * masks.sum(axis=1)).sum())
    keys = [tuple(np.where(mask, x, -1)) for mask, x in zip(masks, problem.X, strict=True)]
    loss = 0.0
    for key in set(keys):
        rows = [i for i, other in enumerate(keys) if other == key]
        p, labels = problem.p[rows], problem.label_distribution[rows].toarray()
        mean = (p[:, None] * labels).sum(axis=0) / p.sum()
        loss -= p.sum() * float((mean * np.log(np.maximum(mean, 1e-300))).sum())
    return loss + weight * cost


def finite() -> dict:
    """Regret to the exact optimum."""
    names = [f"x{i + 1}" for i in range(5)]
    cube = np.array(list(itertools.product([0, 1], repeat=5)))
    label = np.where(cube[:, 0] == 1, cube[:, 1], cube[:, 2])
    chance = np.where(label == 1, 1 - NOISE, NOISE)
    problem = FiniteProblem(cube, np.stack([1 - chance, chance], axis=1), loss="cross_entropy")
    rng = np.random.RandomState(0)
    rows = rng.randint(32, size=3000)
    X = pd.DataFrame(cube[rows], columns=names)
    y = (rng.rand(3000) < chance[rows]).astype(int)
    weight = 0.02
    model = SUWRClassifier(
        sparsity_weight=weight, max_epochs=25, training={"hidden_size": 64}, random_state=0
    ).fit(X, y)
    frame = pd.DataFrame(problem.X, columns=names)
    best = solve(problem, weight).objective
    policy = objective(problem, model.select(frame), weight)
    forms = []
    for n in PAGES:
        form = make_form(ModelPolicy(model), max_pages=n)
        walks = [form.walk(row.get) for _, row in frame.iterrows()]
        masks = np.array([[name in walk.columns for name in names] for walk in walks])
        forms.append(
            {
                "max_pages": n,
                "pages": form.n_questions,
                "objective": objective(problem, masks, weight),
            }
        )
    return {"optimum": best, "policy": policy, "forms": forms}


def main() -> None:
    """Measure and write the record."""
    measured, exact = tables(), finite()
    print(exact)
    about = machine()
    write_json(HERE / "forms.json", {**about, "tables": measured, "finite": exact})
    lines = [
        "# Regret of static forms",
        "",
        "Regret: the difference of loss + λ cost to the policy on the same held-out rows, with its",
        f"standard error. {about['machine']}, {about['date']}.",
        "",
        "| data | pages allowed | used | other prediction, or RMS difference | cost (policy) | "
        "loss (policy) | regret |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {r['data']} | {r['max_pages']} | {r['pages']} | {r['disagreement']:.3g} | "
        f"{r['form_cost']:.2f} ({r['policy_cost']:.2f}) | "
        f"{r['form_loss']:.4g} ({r['policy_loss']:.4g}) | "
        f"{r['regret']:.3g} ± {r['standard_error']:.2g} |"
        for r in measured
    ]
    lines += [
        "",
        "Finite problem: objectives by enumeration. The exact optimum is "
        f"{exact['optimum']:.6f}, that of the policy {exact['policy']:.6f}.",
        "",
        "| pages allowed | used | objective | regret to the policy | regret to the optimum |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {f['max_pages']} | {f['pages']} | {f['objective']:.6f} | "
        f"{f['objective'] - exact['policy']:.6f} | {f['objective'] - exact['optimum']:.6f} |"
        for f in exact["forms"]
    ]
    (HERE / "forms.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
