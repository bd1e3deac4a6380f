"""The paper's algorithm on Syn1 to Syn6, and the steps from it to the default of the library.

REINFORCE has the settings of the paper's appendix. The other variants add one component each, on
two data sets. The seed of a cell is the number of a draw, as in `suwr_experiments.draws`. The
protocol is docs/results/protocol.md.
"""

from __future__ import annotations

from typing import Any

from suwr._utils.validation import check_choice
from suwr_experiments.config import Cell, RunConfig
from suwr_experiments.draws import DrawsExperiment
from suwr_experiments.synthetic_experiment import NARROW

__all__ = [
    "PAPER_WEIGHTS",
    "VARIANTS",
    "WEIGHTS",
    "PaperExperiment",
    "paper_weight",
    "variant_of",
]

N_DRAWS, N_ABLATION_DRAWS = 10, 5
ABLATION_DATA = ("Syn4", "Syn5")
EPOCHS = 1000
# Seeds of the first draw; no other experiment has used them.
FIRST_TRAIN, FIRST_TEST = 40_000, 50_000

# The published loss is ten times the cross-entropy.
_LOSS_FACTOR = 10
#: λ of each data set in the paper, in the units of its loss.
PAPER_WEIGHTS = {
    "Syn1": 0.01, "Syn2": 0.0, "Syn3": 0.0, "Syn4": 0.005, "Syn5": 0.005, "Syn6": 0.0,
}  # fmt: skip
#: All λ of the paper.
WEIGHTS = tuple(sorted(set(PAPER_WEIGHTS.values())))

_NETWORK: dict[str, Any] = {"hidden_size": 100, "n_layers": 3, "validation_fraction": 0.2}
_REINFORCE = _NETWORK | {"trainer": "reinforce", "batch_size": 1000, "max_epochs": EPOCHS}
_NONE: dict[str, Any] = {
    # One epoch of every phase always remains.
    "pretrain_fraction": 0.0, "finetune_fraction": 0.0, "label_weight": 1.0, "joint_rate": 1.0,
}  # fmt: skip
_ACTOR = _NETWORK | {"trainer": "actor", "n_predictors": 2}


def _actor(*components: str, **params: Any) -> dict[str, Any]:
    """The actor with the default settings of some components, and without the others."""
    left = {name: value for name, value in _NONE.items() if name not in components}
    return _ACTOR | params | {"training": left}


#: Parameters of each variant but λ and the number of steps; each adds one component.
VARIANTS: dict[str, dict[str, Any]] = {
    "REINFORCE": _REINFORCE,
    "actor": _actor(max_epochs=120),
    "pretraining": _actor("pretrain_fraction", "joint_rate"),
    "soft labels": _actor("pretrain_fraction", "joint_rate", "label_weight"),
    "fine-tuning": _ACTOR,
    "ensemble": _ACTOR | {"n_predictors": 4},
}
_SHORT = {"mini": 2, "quick": 100}


class PaperExperiment(DrawsExperiment):
    """Grid and data of the paper's algorithm and of its variants."""

    def cells(self, config: RunConfig) -> list[Cell]:
        """REINFORCE with every λ on every draw, then the variants with the λ of the paper."""
        check_choice(config.preset, "preset", "PaperExperiment", ("mini", "quick", "full"))
        full = config.preset == "full"
        names = config.restrict("datasets", NARROW) if config.datasets or full else ("Syn4",)
        variants = config.restrict("methods", tuple(VARIANTS))
        draws = config.seeds or (N_DRAWS if full else 1)
        found = []
        for variant in variants:
            published = variant == "REINFORCE"
            for draw in range(draws if published else min(draws, N_ABLATION_DRAWS)):
                for data in names if published else [d for d in names if d in ABLATION_DATA]:
                    weights = WEIGHTS if published and full else (PAPER_WEIGHTS[data],)
                    found += [_cell(config, variant, data, draw, weight) for weight in weights]
        return found

    def seeds(self, cell: Cell) -> tuple[int, int]:
        """See `SyntheticExperiment`."""
        return FIRST_TRAIN + cell.seed, FIRST_TEST + cell.seed


def _cell(config: RunConfig, variant: str, data: str, draw: int, weight: float) -> Cell:
    params = VARIANTS[variant] | {
        "max_steps": 4 if data in ("Syn1", "Syn2", "Syn3") else 5,
        "sparsity_weight": weight / _LOSS_FACTOR,
    }
    if config.preset in _SHORT:
        params["max_epochs"] = _SHORT[config.preset]
    n_rows = 300 if config.preset == "mini" else None
    return Cell("paper", data, "SUWR", draw, n_rows, None, None, params)


def variant_of(cell: Cell) -> str:
    """Name of the variant of a cell; the number of epochs is not part of it."""
    ignored = ("max_steps", "sparsity_weight", "max_epochs")
    own = {name: value for name, value in cell.params.items() if name not in ignored}
    for name, params in VARIANTS.items():
        if own == {key: value for key, value in params.items() if key not in ignored}:
            return name
    raise ValueError(f"The parameters {own} are those of no variant.")


def paper_weight(cell: Cell) -> float:
    """λ of a cell in the units of the paper's loss."""
    return round(_LOSS_FACTOR * float(cell.params["sparsity_weight"]), 6)
