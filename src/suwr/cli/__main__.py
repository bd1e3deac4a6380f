"""Run the command line with ``python -m suwr.cli``, for example under ``torchrun``."""

from suwr.cli.main import app

if __name__ == "__main__":
    app()
