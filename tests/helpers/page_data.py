"""Three kinds of data that the page must handle: numbers, a mixed table, images."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits

from suwr import Patches, SUWRClassifier

HOSTILE = "<script>alert(1)</script>"
BREAKING = "</script><img src=x onerror=alert(2)>"


def mixed_table(n=400, seed=0):
    """Numbers with gaps, text, booleans, a group; some names would break a careless page."""
    rng = np.random.RandomState(seed)
    age = rng.randint(18, 90, n).astype(float)
    town = rng.choice(["north", "south & west", BREAKING, '"quoted"'], n, p=[0.4, 0.3, 0.2, 0.1])
    smoker = rng.rand(n) < 0.3
    pressure = 90 + 0.6 * age + 10 * smoker + 8 * rng.randn(n)
    pulse = 70 + 5 * rng.randn(n)
    risk = 0.05 * (age - 50) + 1.5 * smoker + 0.03 * (pressure - 120) + (town == "north")
    y = np.where(risk + 0.3 * rng.randn(n) > 0.5, "at risk", HOSTILE)
    age[rng.rand(n) < 0.15] = np.nan
    town = np.where(rng.rand(n) < 0.1, None, town)
    frame = pd.DataFrame(
        {"age": age, HOSTILE: town, "smoker": smoker, "pressure": pressure, "pulse": pulse}
    )
    return frame, y


def mixed_model():
    X, y = mixed_table()
    groups = {"heart </script>": ["pressure", "pulse"]}
    return SUWRClassifier(max_epochs=15, hidden_size=24, groups=groups, random_state=0).fit(X, y), X


def cancer_model():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    names = np.array(["malignant", "benign"])
    model = SUWRClassifier(max_steps=8, max_epochs=15, hidden_size=32, random_state=0)
    return model.fit(X, names[y]), X


def digits_model():
    X, y = load_digits(return_X_y=True)
    model = SUWRClassifier(
        groups=Patches((8, 8), size=3), max_steps=8, max_epochs=12, hidden_size=48, random_state=0
    )
    return model.fit(X[:1200], y[:1200]), X[1200:]
