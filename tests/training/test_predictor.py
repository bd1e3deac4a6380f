"""Training of the predictors."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from suwr import SUWRClassifier
from suwr.training.data import Folds
from suwr.training.loop import run_phases
from suwr.training.predictor import STRONG_WEIGHT_DECAY, Pretraining, ignore_pieces
from suwr.training.validation import CrossFittedLoss


def pretrain(y, X, max_epochs=40):
    """Run the pretraining of a fit; return the finished phase and the losses of its epochs."""
    model = SUWRClassifier(
        max_epochs=max_epochs, training={"hidden_size": 32}, teacher=None, random_state=0
    )
    data = model._prepare(X, y, None)
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    plan = model._plan(data, generator, X)
    network = plan.trainer.build(plan.architecture, plan.task.settings)
    folds = Folds(plan.task.rows, generator, plan.task.settings.n_folds)
    phase = Pretraining(network, plan.task, folds)
    losses = []
    judge = phase._judge

    def recorded(found):
        losses.append(found)
        judge(found)

    phase._judge = recorded
    run_phases([lambda: phase], generator, lambda epoch: None)
    return phase, np.array(losses)


def phases_of(X, training=None, teacher=None, **parameters):
    """The builders of the phases of a fit, as a function of whether the predictors have settled."""
    training = {"hidden_size": 8, **(training or {})}
    model = SUWRClassifier(training=training, teacher=teacher, random_state=0, **parameters)
    generator = torch.Generator().manual_seed(0)
    plan = model._plan(model._prepare(X, X[:, 0] > 0, None), generator, X)
    task, trainer = plan.task, plan.trainer

    def build(settled):
        network = trainer.build(plan.architecture, task.settings)
        network.predictor.settled = settled
        return trainer.phases(network, task, Folds(task.rows, generator, task.settings.n_folds))

    return build


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(120, 12))


@pytest.mark.slow
def test_predictors_that_overfit_get_a_strong_weight_decay(rows):
    noise = np.random.default_rng(1).normal(size=120)
    phase, losses = pretrain(rows[:, 0] + 2 * noise > 0, rows, max_epochs=120)
    assert phase.network.predictor.weight_decay.tolist() == [STRONG_WEIGHT_DECAY] * 4
    since = int(phase.tensors["strong_since"])
    assert losses[since:].min() < losses[24:since].min()
    assert len(losses) < phase.epochs


def test_predictors_that_do_not_overfit_keep_the_weak_weight_decay(rows):
    phase, losses = pretrain(rows[:, 0] > 0, rows[:, :3])
    assert phase.network.predictor.weight_decay.tolist() == pytest.approx([0.1] * 4)
    assert len(losses) > 30


@pytest.mark.slow
def test_predictors_settle_when_their_loss_no_longer_falls(rows):
    noise = np.random.default_rng(1).normal(size=120)
    assert not pretrain(rows[:, 0] > 0, rows[:, :3], max_epochs=5)[0].network.predictor.settled
    overfitted, _ = pretrain(rows[:, 0] + 2 * noise > 0, rows, max_epochs=120)
    assert overfitted.network.predictor.settled


@pytest.mark.parametrize(
    ("given", "settled", "expected"), [(None, True, 0.1), (None, False, 1.0), (0.5, False, 0.5)]
)
def test_predictors_that_have_not_settled_keep_their_rate(rows, given, settled, expected):
    build = phases_of(rows, max_epochs=2, training={"joint_rate": given})
    phase = build(settled)[1]()
    phase.train_epoch()
    rate = phase.predictor_optimizer.param_groups[0]["lr"]
    assert rate == pytest.approx(expected * phase.settings.predictor_rate)


@pytest.mark.parametrize(
    ("copies", "max_epochs", "settled", "expected"),
    [
        (1, "auto", True, [100, 50]),
        (1, "auto", False, [200, 100]),
        (1, 4, False, [4, 2]),
        (60, "auto", False, [50, 25]),
    ],
)
def test_predictors_that_have_not_settled_train_longer(rows, copies, max_epochs, settled, expected):
    build = phases_of(np.tile(rows, (copies, 1)), max_epochs=max_epochs)
    for phase, n_epochs in zip(build(settled)[1:], expected, strict=True):
        assert phase().epochs == n_epochs


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("settled", [True, False])
def test_the_number_of_epochs_survives_a_checkpoint(rows, number, settled):
    build = phases_of(rows, max_epochs="auto")
    interrupted, resumed = build(settled)[number](), build(not settled)[number]()
    assert interrupted.epochs != resumed.epochs
    resumed.restore(interrupted.state())
    assert resumed.epochs == interrupted.epochs
    assert resumed.network.predictor.settled is settled


@pytest.mark.parametrize(("settled", "n_rows", "n_epochs"), [(True, 2160, 10), (False, 108, 100)])
def test_fine_tuning_learns_from_labels_if_predictors_have_not_settled(
    rows, settled, n_rows, n_epochs
):
    """Otherwise from the lesson, which has 19 recombinations of each row."""
    build = phases_of(rows, teacher=LogisticRegression())(settled)
    phase = build[-1]()
    assert len(phase.folds.rows) == n_rows
    assert phase.epochs == n_epochs
    assert phase.network.predictor.settled is settled


def test_predictors_learn_from_bins_after_they_have_learned_the_labels(rows):
    model = SUWRClassifier(teacher=LogisticRegression(), random_state=0, max_epochs=2)
    generator = torch.Generator().manual_seed(0)
    plan = model._plan(model._prepare(rows, rows[:, 0] > 0, None), generator, rows)
    pieces = torch.nn.functional.pad(plan.task.inputs.pieces, (0, 12))
    settings, read = plan.task.settings, []
    network = plan.trainer.build(plan.architecture, settings)
    ignore_pieces(network, plan.task.inputs, policy=False)
    folds = Folds(plan.task.rows, generator, settings.n_folds)
    for build in plan.trainer.phases(network, plan.task, folds)[:2]:
        run_phases([build], generator, lambda epoch: None)
        weight = network.predictor.weights[0][:, pieces].detach()
        read.append([bool((part != 0).any()) for part in weight])
    assert read == [[False, True] * 2, [True] * 4]
    assert bool((network.policy.weights[0][:, pieces] != 0).any())


def test_the_epoch_with_the_lowest_loss_is_kept(rows):
    phase, losses = pretrain(rows[:, 0] > 0, rows[:, :3])
    validate = phase.validate
    validate.network = phase.network
    assert validate() == pytest.approx(losses[24:].min(), rel=1e-6)
    assert phase.best.epoch == 25 + losses[24:].argmin()


def test_the_loss_of_a_fold_is_that_of_the_predictor_that_holds_it_out(rows):
    phase, _ = pretrain(rows[:, 0] > 0, rows[:, :3], max_epochs=1)
    network, loss, inputs = phase.network, phase.loss, phase.inputs
    validate = CrossFittedLoss(network, inputs, loss, phase.folds, phase.settings)
    by_hand = []
    for fold in range(4):
        seen = inputs.reveal(validate.rows.values[fold], validate.masks[fold])
        with torch.no_grad():
            outputs = network.predict(seen)
        prediction = loss.predict(outputs[fold - 1])
        by_hand.append(loss.of_prediction(prediction, validate.rows.targets[fold]).mean())
    assert validate() == pytest.approx(float(sum(by_hand)) / 4, rel=1e-5)


def test_predictors_never_learn_from_their_held_out_fold():
    """Other targets of a fold change all predictors but those that evaluate it."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = (X[:, 0] > 0).astype(int)
    model = SUWRClassifier(max_epochs=1, training={"hidden_size": 8}, teacher=None, random_state=0)
    generator = torch.Generator().manual_seed(0)
    plan = model._plan(model._prepare(X, y, None), generator, X)
    n_folds = plan.task.settings.n_folds
    assert n_folds == 4

    def weights(changed):
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(0)
        network = plan.trainer.build(plan.architecture, plan.task.settings)
        folds = Folds(plan.task.rows, generator, n_folds=n_folds)
        targets = folds.rows.targets.clone()
        targets[folds.indices[changed]] = targets[folds.indices[changed]].flip(-1)
        folds.rows = replace(folds.rows, targets=targets)
        phase = Pretraining(network, plan.task, folds)
        phase.train_epoch()
        return torch.cat([weight.flatten(1) for weight in network.predictor.weights], dim=1)

    before = weights([])
    for fold in range(n_folds):
        same = (weights([fold]) == before).all(dim=1)
        assert same.tolist() == [(group + 1) % n_folds == fold for group in range(n_folds)]
