"""Audits of CSV files."""

import numpy as np
import pandas as pd
import pytest

from suwr.auditing.entry import audit_files
from suwr.exceptions import TableError

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, 600),
        "sex": RNG.choice(["f", "m"], 600),
        "ill": RNG.choice(["no", "yes"], 600),
    }
)
MASKS = pd.DataFrame({"sex": np.zeros(600, dtype=int), "age": (ROWS["sex"] == "f").astype(int)})


@pytest.fixture
def files(tmp_path):
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    MASKS.to_csv(tmp_path / "masks.csv", index=False)
    return tmp_path


def test_rows_and_masks(files):
    report = audit_files(files / "rows.csv", masks=files / "masks.csv", label="ill")
    assert report.verdict == "leaks"
    assert report.support == "masks only"
    assert report.gaps.features[0].target == "sex"
    assert "verdict is based on predictive gaps alone" in report.summary()


def test_model_receives_its_columns(files):
    class Model:
        feature_names_in_ = np.array(["sex", "age"])

        def select(self, X):
            assert list(X.columns) == ["sex", "age"]
            return np.stack([np.zeros(len(X), bool), X["sex"] == "f"], axis=1)

    report = audit_files(files / "rows.csv", model=Model(), label="ill", gaps=False)
    assert report.leaks
    Model.feature_names_in_ = np.array(["sex", "weight"])
    with pytest.raises(TableError, match="lacks columns of the model: weight"):
        audit_files(files / "rows.csv", model=Model())


def test_either_model_or_masks(files):
    with pytest.raises(ValueError, match="either a model or a file of masks"):
        audit_files(files / "rows.csv")


def test_the_path_of_a_model_is_not_a_model(files):
    with pytest.raises(ValueError, match=r"must be a selector, such as the result of suwr\.load"):
        audit_files(files / "rows.csv", model="model.suwr")


def test_invalid_files(files):
    rows, masks = files / "rows.csv", files / "masks.csv"
    with pytest.raises(TableError, match=r"cannot be read: .*No such file"):
        audit_files(files / "other.csv", masks=masks)
    with pytest.raises(TableError, match="no label column 'sick'"):
        audit_files(rows, masks=masks, label="sick")
    with pytest.raises(TableError, match="missing: ill"):
        audit_files(rows, masks=masks)
    MASKS[:10].to_csv(masks, index=False)
    with pytest.raises(TableError, match="one mask per row"):
        audit_files(rows, masks=masks, label="ill")
    (MASKS * 0.5).to_csv(masks, index=False)
    with pytest.raises(TableError, match="only 0 and 1"):
        audit_files(rows, masks=masks, label="ill")
    masks.write_text("")
    with pytest.raises(TableError, match="cannot be read: it has no header"):
        audit_files(rows, masks=masks, label="ill")
