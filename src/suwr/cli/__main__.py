"""``python -m suwr.cli``: the commands where no script is installed."""

from suwr.cli.main import app

app()
