"""The look-ahead trainer."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import suwr.estimators.container as checkpoint
from helpers.models import make_policy, random_values
from suwr import Patches, SUWRClassifier
from suwr.nn.losses import CrossEntropy
from suwr.training import lookahead
from suwr.training.config import Settings
from suwr.training.data import Folds, Rows
from suwr.training.lookahead import LookaheadPhase
from suwr.training.validation import Task

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")


def make_phase(**changes):
    policy, loss = make_policy(3), CrossEntropy(2)
    rows = Rows(random_values(40), loss.targets(torch.arange(40) % 2), torch.ones(40))
    settings = Settings(sparsity_weight=0.1, max_steps=4, batch_size=20, max_epochs=1, **changes)
    task = Task(policy.inputs, loss, rows, rows, settings)
    return LookaheadPhase(policy.network, task, Folds(rows, torch.Generator().manual_seed(0)))


def test_rollout_reveals_one_unit_per_step_and_its_gains_add_up():
    phase = make_phase(reward_scale=1.0)
    index = next(iter(phase.folds.batches(20)))
    rows = phase.folds.rows[index]
    weight, _ = phase.weights.draw(20, phase.folds.generator)
    rollout = phase._roll_out(rows, weight, None)
    for state in range(5):
        assert ((rollout.revealed_at < state).sum(-1) == state).all()
    # The last gain: loss before the last step, minus its cost and the loss after it.
    losses = []
    for state in (3, 4):
        seen = phase.inputs.reveal(rows.values.flatten(0, 1), rollout.revealed_at < state)
        prediction = phase.network.eval().cross_fitted(seen.unflatten(0, (2, -1)), phase.loss)
        losses.append(phase.loss.of_prediction(prediction, rows.targets).flatten())
    torch.testing.assert_close(rollout.gain[:, 3], losses[0] - 0.1 - losses[1])


def test_stop_probability_depends_on_the_predictors():
    policy = make_policy(0, network="uncertainty")
    values, mask = random_values(20), torch.ones(20, 6, dtype=torch.bool)
    mask[:, 5] = False
    before = policy.decide(values, mask)
    for bias in policy.network.predictor.biases:
        bias.data += 1.0
    after = policy.decide(values, mask)
    assert (after.stop_probability != before.stop_probability).any()
    assert torch.equal(after.logits, before.logits)


@pytest.mark.parametrize(
    ("n_columns", "groups", "trainer"),
    [
        (128, None, "actor"),
        (129, None, "actor"),
        (129, [list(range(100))], "actor"),
        (32, Patches((4, 8), 1), "actor"),
        (36, Patches((6, 6), 1), "lookahead"),
    ],
)
def test_automatic_choice_of_the_trainer(n_columns, groups, trainer):
    X = np.random.RandomState(0).randn(30, n_columns)
    clf = SUWRClassifier(
        groups=groups, max_epochs=1, training={"hidden_size": 4}, max_steps=2, random_state=0
    )
    clf.fit(X, X[:, 0] > 0)
    assert clf.choices_["trainer"].startswith(trainer)
    assert clf.policy_.network.architecture.informed == (trainer == "lookahead")


@pytest.mark.slow
def test_informative_columns_are_found():
    rng = np.random.RandomState(0)
    X = rng.randn(1200, 80)
    y = (X[:, 17] + X[:, 60] > 0).astype(int)
    clf = SUWRClassifier(
        trainer="lookahead",
        max_steps=4,
        max_epochs=30,
        training={"hidden_size": 64, "n_layers": 2},
        random_state=0,
    ).fit(X[:800], y[:800])
    used = clf.select(X[800:]).mean(axis=0)
    assert set(np.argsort(used)[-2:]) == {17, 60}
    assert clf.score(X[800:], y[800:]) > 0.85


@needs_cuda
def test_captured_fit_is_as_accurate_as_a_plain_one(monkeypatch):
    X, y = load_digits(return_X_y=True)
    scores = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(lookahead, "CapturedFunction", lambda function, generator: function)
        model = SUWRClassifier(
            groups=Patches((8, 8), 1), trainer="lookahead", max_steps=10, max_epochs=10,
            random_state=0, device="cuda",
        ).fit(X[:1400], y[:1400])  # fmt: skip
        scores.append(model.score(X[1400:], y[1400:]))
    assert min(scores) > 0.8
    assert abs(scores[0] - scores[1]) < 0.04


@needs_cuda
@pytest.mark.parametrize(
    "changes", [{}, {"training": {"network": "conv"}}, {"sparsity_weight": (0.001, 0.1)}]
)
def test_captured_fit_resumes_to_the_same_result(tmp_path, monkeypatch, changes):
    X, y = load_digits(return_X_y=True)

    def fit(path=None):
        settings = {"max_steps": 8, "max_epochs": 6, "random_state": 0, "device": "cuda"}
        model = SUWRClassifier(
            groups=Patches((8, 8), 1), trainer="lookahead", **settings, **changes
        )
        return model.fit(X[:1400], y[:1400], checkpoint=path)

    write, written = checkpoint.FileCheckpoint.write, []

    def writing(self, phase, state):
        write(self, phase, state)
        written.append(phase)
        if len(written) == 5:  # in the middle of look-ahead
            raise KeyboardInterrupt

    path = tmp_path / "fit.checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.FileCheckpoint, "write", writing)
        with pytest.raises(KeyboardInterrupt):
            fit(path)
    assert path.exists()
    resumed, whole = fit(path), fit()
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(resumed.select(X), whole.select(X))


@needs_cuda
def test_replays_draw_new_numbers_and_read_their_arguments():
    generator = torch.Generator("cuda").manual_seed(0)
    drawn = torch.zeros(5, device="cuda")

    def step(given: torch.Tensor) -> None:
        drawn.copy_(given + torch.rand(5, generator=generator, device="cuda"))

    captured = lookahead.CapturedFunction(step, generator)
    seen = []
    for number in range(lookahead.WARM_UP_CALLS + 4):
        captured(torch.full((5,), 10.0 * number, device="cuda"))
        seen.append(drawn.clone())
    noise = torch.stack([value - 10.0 * number for number, value in enumerate(seen)])
    assert bool(((noise >= 0) & (noise <= 1.001)).all())
    assert len(noise.round(decimals=3).unique()) > 4 * lookahead.WARM_UP_CALLS


@pytest.mark.slow
def test_the_cheaper_of_two_equal_columns_is_chosen():
    rng = np.random.RandomState(0)
    X = np.repeat(rng.rand(600, 1) < 0.5, 2, axis=1).astype(float)
    for costs in ([0.1, 3.0], [3.0, 0.1]):
        clf = SUWRClassifier(
            trainer="lookahead",
            costs=costs,
            sparsity_weight=0.1,
            max_epochs=10,
            training={"hidden_size": 16},
            random_state=0,
        ).fit(X, X[:, 0])
        np.testing.assert_array_equal(clf.select(X), np.tile(np.array(costs) < 1, (600, 1)))
