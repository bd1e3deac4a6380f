"""How often steps move predictions, counted by hand."""

import numpy as np
import pytest

from suwr.narrative.effects import StepEffects


def counted():
    """Eleven rows reveal unit 0; seven of them go on with unit 1 and four with unit 2."""
    order = np.full((11, 2, 1), -1)
    order[:, 0, 0] = 0
    order[:7, 1, 0], order[7:, 1, 0] = 1, 2
    p = np.full((11, 3), 0.5)
    p[:6, 1:] = 0.7
    p[:3, 2] = 0.9
    effects = StepEffects.of(None)
    effects.count(order, np.stack([p, 1 - p], axis=2))
    return effects


def test_movements_are_counted_by_unit_and_step():
    effects = counted()
    assert effects.cases == {0: {1: (6, 11)}, 1: {2: (3, 7)}, 2: {2: (0, 4)}}
    usual = effects.usual(0, 1)
    assert (usual.n_moved, usual.n_rows) == (6, 11)
    assert usual.share == pytest.approx(6 / 11)
    assert effects.usual(1, 2) is None
    assert effects.usual(5, 1) is None


def test_rare_steps_use_the_other_steps_of_the_unit():
    effects = counted()
    effects.add(1, 3, 1, 3)
    assert effects.usual(1, 3) == effects.usual(1, 2) == effects.usual(1, 9)
    assert (effects.usual(1, 3).n_moved, effects.usual(1, 3).n_rows) == (4, 10)
    assert effects.table() == {0: {0: [6, 11], 1: [6, 11]}, 1: {t: [4, 10] for t in (0, 2, 3)}}


def test_rows_that_stopped_do_not_count():
    effects = StepEffects.of(np.array([0.0, 10.0]))
    assert effects.threshold == 0.5
    order = np.array([[[0], [1]], [[0], [-1]]])
    states = np.array([[0.0, 1.0, 1.2], [0.0, 0.4, np.nan]])[:, :, None]
    effects.count(order, states)
    assert effects.cases == {0: {1: (1, 2)}, 1: {2: (0, 1)}}


def test_units_of_one_step_share_its_movement():
    effects = StepEffects.of(None)
    effects.count(np.array([[[3, 1]]]), np.array([[[0.5, 0.5], [0.9, 0.1]]]))
    assert effects.cases == {1: {1: (1, 1)}, 3: {1: (1, 1)}}


def test_counts_survive_model_files_and_forged_ones_are_refused():
    effects = counted()
    state = effects.to_dict()
    assert StepEffects.from_dict(state) == effects
    bad_cases = [[0, 1, 5, 4]], [[0, 0, 1, 4]], [[0, 1, 0.5, 4]], [[0, 1, 2]], [[-1, 1, 0, 4]]
    for cases in bad_cases:
        with pytest.raises(ValueError, match=r"counts|unpack"):
            StepEffects.from_dict(state | {"cases": cases})
    with pytest.raises(ValueError, match="threshold"):
        StepEffects.from_dict(state | {"threshold": -1.0})
