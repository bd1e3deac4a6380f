"""MLflow: a pyfunc flavour around ``.suwr`` files.

The logged model is one file of tensors and JSON, never a pickle. Loading it needs suwr, and MLflow
calls `_load_pyfunc`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import suwr
from suwr._utils.validation import check_choice, require
from suwr.estimators.base import SUWRModel
from suwr.estimators.files import load

__all__ = ["SuwrModel", "load_model", "log_model", "save_model"]

#: Name of the flavour in the file MLmodel.
FLAVOR = "suwr"
FILE = "model.suwr"
OUTPUTS = ("prediction", "probabilities", "narrative", "columns")


class SuwrModel:
    """A model as MLflow calls it.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.deploy.mlflow import SuwrModel
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = SuwrModel(SUWRClassifier(max_epochs=1, random_state=0).fit(X, y))
    >>> list(model.predict(X[:2], {"output": "probabilities"}).columns)
    ['0', '1', '2']
    """

    def __init__(self, model: SUWRModel) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Predict rows.

        Parameters
        ----------
        model_input : data frame or array of shape (n, d)
        params : dict, optional
            ``output``: 'prediction' (default), 'probabilities', 'narrative' or 'columns', the
            columns that each prediction used; ``sparsity_weight`` and ``mean_features`` as in
            ``predict``.

        Returns
        -------
        ndarray or pandas.DataFrame
        """
        given = dict(params or {})
        output = check_choice(given.pop("output", "prediction"), "output", "predict", OUTPUTS)
        weight, features = given.pop("sparsity_weight", None), given.pop("mean_features", None)
        if given:
            raise ValueError(
                "'params' may have 'output', 'sparsity_weight' and 'mean_features'. "
                f"Got {sorted(given)[0]!r}."
            )
        options = {"sparsity_weight": weight, "mean_features": features}
        if output in ("narrative", "columns"):
            explanation = self.model.explain(model_input, **options)
            if output == "narrative":
                return np.array([n.text() for n in explanation], dtype=object)
            used = [[c for step in n.steps for c in step.columns] for n in explanation]
            return np.array([", ".join(columns) for columns in used], dtype=object)
        if output == "prediction":
            return self.model.predict(model_input, **options)
        if self.model.target_.labels is None:
            raise ValueError("'probabilities' requires a classifier. This model is a regressor.")
        pandas = require("pandas", "mlflow", "Probabilities with class labels")
        names = [str(label) for label in self.model.classes_]
        return pandas.DataFrame(self.model.predict_proba(model_input, **options), columns=names)

    def get_raw_model(self) -> Any:
        """Return the estimator, for ``get_raw_model`` of the loaded pyfunc."""
        return self.model


def save_model(
    model: SUWRModel,
    path: str | os.PathLike[str],
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    input_example: Any = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Write a model to a folder in the format of MLflow.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    path : path
        A folder that does not exist or is empty.
    mlflow_model : mlflow.models.Model, optional
        The description to add the flavour to.
    signature : mlflow.models.ModelSignature, optional
        Inferred from ``input_example`` by default.
    input_example : data frame, optional
        A few rows. Their values become part of the logged model.
    metadata : dict, optional

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.deploy.mlflow import load_model, save_model
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=1, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(clf, folder, input_example=X[:2])
    ...     bool((load_model(folder).predict(X) == clf.predict(X)).all())
    True
    """
    pyfunc = require("mlflow.pyfunc", "mlflow", "Logging models to MLflow")
    models = require("mlflow.models", "mlflow", "Logging models to MLflow")
    folder = Path(path)
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(f"The folder {str(folder)!r} is not empty.")
    folder.mkdir(parents=True, exist_ok=True)
    described = mlflow_model or models.Model()
    wrapped = SuwrModel(model)
    if signature is None and input_example is not None:
        signature = models.infer_signature(
            input_example, wrapped.predict(input_example), {"output": "prediction"}
        )
    described.signature = signature
    if input_example is not None:
        saved = require("mlflow.models.utils", "mlflow", "Logging models to MLflow")
        saved._save_example(described, input_example, str(folder))
    if metadata is not None:
        described.metadata = metadata
    model.save(folder / FILE)
    described.add_flavor(FLAVOR, suwr_version=suwr.__version__, data=FILE)
    pyfunc.add_to_model(described, loader_module=__name__, data=FILE)
    described.save(str(folder / "MLmodel"))
    (folder / "requirements.txt").write_text(f"suwr=={suwr.__version__}\nmlflow-skinny\npandas\n")


def log_model(model: SUWRModel, name: str = "model", **options: Any) -> Any:
    """Log a model to the current run of MLflow.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    name : str, default="model"
    **options
        ``signature``, ``input_example`` and ``metadata`` as in `save_model`; further options of
        ``mlflow.models.Model.log``, such as ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo

    Examples
    --------
    >>> from suwr.deploy.mlflow import log_model
    >>> info = log_model(clf, "risk", input_example=X[:2])  # doctest: +SKIP
    """
    models = require("mlflow.models", "mlflow", "Logging models to MLflow")
    # MLflow calls the `save_model` of this module.
    return models.Model.log(
        name=name, artifact_path=None, flavor=sys.modules[__name__], model=model, **options
    )


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load the estimator of a model that `save_model` wrote.

    Parameters
    ----------
    path : path
        The folder; for a logged model, as returned by ``mlflow.artifacts.download_artifacts``.

    Returns
    -------
    SUWRClassifier or SUWRRegressor

    Examples
    --------
    >>> from suwr.deploy.mlflow import load_model
    >>> load_model("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    return load(Path(path) / FILE)


def _load_pyfunc(path: str) -> SuwrModel:
    """Load the model; MLflow calls it with the path of the data."""
    found = Path(path)
    return SuwrModel(load(found / FILE if found.is_dir() else found))
