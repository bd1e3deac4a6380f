"""``python -m suwr.cli``: the commands where no script is installed."""

from suwr.cli.main import app

if __name__ == "__main__":
    app()
