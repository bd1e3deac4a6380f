import numpy as np
import pytest
import torch

from suwr import SUWRClassifier
from suwr.training.config import Settings, TrainingConfig
from suwr.training.registry import TRAINERS

FIT = {"sparsity_weight": 0.1, "max_steps": 3, "units_per_step": 2}


@pytest.mark.parametrize("name", sorted(TrainingConfig.constraints))
def test_every_field_is_validated(name):
    with pytest.raises(ValueError, match=f"The {name!r} parameter of TrainingConfig must be"):
        TrainingConfig(**{name: "two"})
    with pytest.raises(ValueError, match=f"The {name!r} parameter of TrainingConfig must be"):
        TrainingConfig(**{name: np.nan})


def test_every_field_has_a_constraint():
    assert set(TrainingConfig.constraints) == set(vars(TrainingConfig()))


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


@pytest.mark.parametrize("training", [{"rollouts": 3}, TrainingConfig(rollouts=3)])
def test_estimators_take_a_configuration_or_a_mapping(training):
    X = np.random.RandomState(0).randn(60, 4)
    clf = SUWRClassifier(max_epochs=1, hidden_size=4, random_state=0, training=training)
    plan = clf._plan(clf._prepare(X, X[:, 0] > 0, None), torch.Generator())
    settings = plan.task.settings
    assert settings.rollouts == 3
    assert settings.dropout == TrainingConfig().dropout
