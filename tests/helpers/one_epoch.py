"""Short training for tests that run documented code."""

from suwr.training.trainer import Trainer


def train_one_epoch(monkeypatch):
    """Reduce the ``max_epochs`` of every fit to 1."""
    configure = Trainer.configure

    def configure_one_epoch(self, config, taught=False, **fit):
        return configure(self, config, taught, **fit | {"max_epochs": 1})

    monkeypatch.setattr(Trainer, "configure", configure_one_epoch)
