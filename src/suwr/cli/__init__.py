"""The command line: ``suwr demo | fit | predict | explain | figures | audit | ask``."""

from suwr.cli.main import app

__all__ = ["app"]
