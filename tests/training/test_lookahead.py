"""The look-ahead trainer, on a problem whose answer is known."""

import numpy as np
import pytest
import torch
from random_policies import make_policy, random_values

from suwr import Patches, SUWRClassifier
from suwr.nn.losses import CrossEntropy
from suwr.nn.networks import doubts
from suwr.training.config import Settings
from suwr.training.data import Folds, Rows, by_model
from suwr.training.lookahead import LookAhead
from suwr.training.sparsity import Prices


def make_phase(**changes):
    policy, loss = make_policy(3), CrossEntropy(2)
    rows = Rows(random_values(40), loss.targets(torch.arange(40) % 2), torch.ones(40))
    settings = Settings(sparsity_weight=0.1, max_steps=4, batch_size=20, max_epochs=1, **changes)
    prices = Prices.of(settings, 1, torch.device("cpu"))
    folds = Folds(rows, torch.Generator().manual_seed(0))
    return LookAhead(policy.network, policy.inputs, loss, folds, rows, settings, prices)


def test_a_walk_reveals_one_unit_a_step_and_its_gains_add_up():
    phase = make_phase(reward_scale=1.0)
    index = next(iter(phase.folds.batches(20)))
    rows = phase.folds.rows[index]
    weight, _ = phase.prices.draw(20, phase.folds.generator)
    walk = phase._walk(rows, weight, None)
    for state in range(5):
        assert ((walk.revealed_at < state).sum(-1) == state).all()
    # The last gain: loss before the last step, minus its price and the loss after it.
    lost = []
    for state in (3, 4):
        seen = phase.inputs.reveal(by_model(rows.values), walk.revealed_at < state)
        said = phase.network.eval().other_half(seen.unflatten(1, (2, -1))[0], phase.loss)
        lost.append(phase.loss.of_prediction(said, rows.targets).flatten())
    torch.testing.assert_close(walk.gain[0, :, 3], lost[0] - 0.1 - lost[1])


def test_doubts_of_probabilities():
    mask = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    sure, torn = doubts(torch.tensor([[1.0, 0.0, 0.0], [0.4, 0.4, 0.2]]), mask)
    torch.testing.assert_close(sure, torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0]))
    entropy = -(0.8 * np.log(0.4) + 0.2 * np.log(0.2)) / np.log(3)
    left = np.log(0.6) / np.log(1e-4)
    torch.testing.assert_close(torn, torch.tensor([entropy, 0.4, 0.4, left, 0.5]).float())


def test_doubts_of_the_sure_are_exact():
    logits = 3 * torch.randn(
        500, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    said, mask = (4 * logits).softmax(dim=-1), torch.zeros(500, 1)
    # Some are so sure that 1 - p would keep three digits of what is left over.
    assert (said.amax(dim=-1) > 0.9995).sum() > 50
    torch.testing.assert_close(
        doubts(said.float(), mask).double(), doubts(said, mask), rtol=0.0, atol=3e-7
    )


def test_the_stop_decision_hears_the_predictors():
    policy = make_policy(0, network="informed")
    values, mask = random_values(20), torch.ones(20, 6, dtype=torch.bool)
    mask[:, 5] = False
    before = policy.decide(values, mask)
    for bias in policy.network.predictor.biases:
        bias.data += 1.0
    after = policy.decide(values, mask)
    assert (after.stop_probability != before.stop_probability).any()
    assert torch.equal(after.logits, before.logits)


def test_settings_of_training_can_be_given():
    X = np.random.RandomState(0).randn(60, 4)
    clf = SUWRClassifier(max_epochs=1, hidden_size=4, random_state=0, training={"rollouts": 3})
    settings = clf._settings(clf._prepare(X, X[:, 0] > 0, None))
    assert settings.rollouts == 3
    assert settings.dropout == Settings(sparsity_weight=1.0, max_steps=1).dropout


@pytest.mark.parametrize(
    ("n_columns", "groups", "trainer"),
    [
        (128, None, "actor"),
        (129, None, "lookahead"),
        (129, [list(range(100))], "actor"),
        (32, Patches((4, 8), 1), "actor"),
        (36, Patches((6, 6), 1), "lookahead"),
    ],
)
def test_auto_looks_ahead_for_images_and_very_wide_tables(n_columns, groups, trainer):
    X = np.random.RandomState(0).randn(30, n_columns)
    clf = SUWRClassifier(groups=groups, max_epochs=1, hidden_size=4, max_steps=2, random_state=0)
    clf.fit(X, X[:, 0] > 0)
    assert clf._trainer() == trainer
    assert clf.policy_.network.architecture.informed == (trainer == "lookahead")


def test_the_informative_columns_of_many_are_found():
    rng = np.random.RandomState(0)
    X = rng.randn(1200, 80)
    y = (X[:, 17] + X[:, 60] > 0).astype(int)
    clf = SUWRClassifier(
        trainer="lookahead", max_steps=4, max_epochs=8, hidden_size=64, n_layers=2, random_state=0
    ).fit(X[:800], y[:800])
    used = clf.select(X[800:]).mean(axis=0)
    assert set(np.argsort(used)[-2:]) == {17, 60}
    assert clf.score(X[800:], y[800:]) > 0.85
