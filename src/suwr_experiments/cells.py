"""One cell of an experiment: a data set, a method, its parameters and a seed.

The same dataclass is the configuration, the command line and the head of the saved record.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

__all__ = ["Cell"]

# Parameters that move a method along its curve.
_TELLING = ("n_units", "max_steps", "n_steps", "sparsity_weight", "mask_sparsity_weight")


@dataclass(frozen=True)
class Cell:
    """Everything that fixes one fit and its evaluation.

    Attributes
    ----------
    experiment : str
        'pareto', 'synthetic' or 'mnist'.
    data : str
        Name of the data set: ``"Syn4"``, ``"Syn4x100"``, ``"toy"``.
    method : str
        ``"SUWR"``, or a baseline's name without 'Classifier' or 'Regressor'.
    seed : int
        Of the training; rows have seeds of their own.
    n_train, n_test : int or None
        Rows of either kind; None is the experiment's own number.
    sparsity_share : float or None
        λ as a share of the loss of the best constant prediction, for methods where a share says
        more than a number; None leaves λ to ``params``.
    params : mapping
        Parameters of the estimator that are not left at their defaults.
    audit : bool
        Whether the record holds the auditor's verdict.

    Examples
    --------
    >>> cell = Cell("synthetic", "Syn4", "L2X", seed=1, params={"n_units": 5})
    >>> cell.key
    'Syn4-L2X-1-f481df4e'
    >>> Cell.from_dict(cell.to_dict()) == cell
    True
    """

    experiment: str
    data: str
    method: str
    seed: int = 0
    n_train: int | None = None
    n_test: int | None = None
    sparsity_share: float | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    audit: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"params": dict(sorted(self.params.items()))}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Cell:
        """The inverse of `to_dict`; what it does not name has its default."""
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(content) - known)
        if unknown:
            raise ValueError(f"A cell has the fields {sorted(known)}. Got {unknown} as well.")
        return cls(**content)

    @property
    def key(self) -> str:
        """A name for files: readable, and different for every fit."""
        content = self.to_dict()
        # An audit says more of a fit and does not change it.
        del content["audit"]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.data}-{self.method}-{self.seed}-{digest}"

    @property
    def title(self) -> str:
        """What people call it."""
        words = [self.data, self.method]
        if self.sparsity_share is not None:
            words.append(f"λ={self.sparsity_share:g}·H")
        words += [f"{name}={_short(self.params[name])}" for name in _TELLING if name in self.params]
        return " ".join([*words, f"seed {self.seed}"])

    @property
    def command(self) -> str:
        """The command that runs this cell alone."""
        return shlex.join(["python", "-m", "suwr_experiments", "cell", json.dumps(self.to_dict())])

    def shape(self) -> str:
        """What cells that train together have in common: all but data, seed and a single λ."""
        content = self.to_dict()
        weight = content["params"].get("sparsity_weight")
        params = {k: v for k, v in content["params"].items() if k != "sparsity_weight"}
        if isinstance(weight, list):
            params["range"] = weight
        same = (self.experiment, self.method, self.n_train, self.n_test, params)
        return json.dumps(same, sort_keys=True)


def _short(value: Any) -> str:
    """A number, or a range of them."""
    return f"{value:.4g}" if not isinstance(value, list) else "…".join(map(_short, value))
