"""The command line: ``suwr demo | fit | predict | explain | audit | ask``."""

from suwr.cli.main import app

__all__ = ["app"]
