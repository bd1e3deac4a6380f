import numpy as np
import pytest
import torch

from suwr import SUWRClassifier
from suwr.training.config import Settings, TrainingConfig
from suwr.training.registry import TRAINERS

FIT = {"sparsity_weight": 0.1, "max_steps": 3, "units_per_step": 2}


@pytest.mark.parametrize("name", sorted(vars(TrainingConfig())))
def test_every_field_is_validated(name):
    with pytest.raises(ValueError, match=f"The {name!r} parameter of TrainingConfig must be"):
        TrainingConfig(**{name: "two"})
    with pytest.raises(ValueError, match=f"The {name!r} parameter of TrainingConfig must be"):
        TrainingConfig(**{name: np.nan})


@pytest.mark.parametrize(("n_rows", "weight"), [(100, 0.3), (300, 0.3), (550, 0.4), (9_000, 0.5)])
def test_labels_count_less_in_small_tables(n_rows, weight):
    assert Settings(**FIT).target_weight(n_rows) == pytest.approx(weight)
    assert Settings(label_weight=0.9, **FIT).target_weight(n_rows) == 0.9


def test_unknown_keys_are_refused():
    with pytest.raises(ValueError, match=r"'training' parameter of Model .* keys .* rollouts"):
        TrainingConfig.from_mapping({"magic": 1}, "Model")


def test_to_dict_holds_what_differs_from_the_defaults():
    config = TrainingConfig(rollouts=4, pretrain_masks=3)
    assert config.to_dict() == {"rollouts": 4, "pretrain_masks": 3}
    assert TrainingConfig(**config.to_dict()) == config


def test_trainers_fill_in_their_defaults():
    config = TrainingConfig(pretrain_masks=5)
    actor, lookahead = (TRAINERS[name].configure(config, **FIT) for name in ("actor", "lookahead"))
    assert actor == Settings(pretrain_masks=5, **FIT)
    assert actor.max_random_units is None
    assert lookahead.max_random_units == 12
    assert lookahead.pretrain_masks == 5
    assert (actor.joint_rate, lookahead.joint_rate) == (None, 0.3)


def test_targets_of_a_teacher_need_less_regularisation():
    config, trainer = TrainingConfig(dropout=0.3), TRAINERS["actor"]
    plain, taught = (trainer.configure(config, taught=taught, **FIT) for taught in (False, True))
    assert plain.dropout == taught.dropout == 0.3
    assert taught.weight_decay < plain.weight_decay
    assert taught.finetune_dropout < plain.finetune_dropout
    assert taught.target_weight(100) == 1.0


@pytest.mark.parametrize(
    "training", [{"rollouts": 3, "n_layers": 1}, TrainingConfig(rollouts=3, n_layers=1)]
)
def test_estimators_take_a_configuration_or_a_mapping(training):
    X = np.random.RandomState(0).randn(60, 4)
    clf = SUWRClassifier(max_epochs=1, random_state=0, training=training)
    plan = clf._plan(clf._prepare(X, X[:, 0] > 0, None), torch.Generator(), X)
    settings = plan.task.settings
    assert settings.rollouts == 3
    assert settings.dropout == 0.2
    assert plan.architecture.n_layers == 1
