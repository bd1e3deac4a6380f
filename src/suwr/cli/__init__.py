"""The command line: ``suwr demo | fit | predict | explain | ask``."""

from suwr.cli.main import app

__all__ = ["app"]
