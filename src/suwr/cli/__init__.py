"""The command line: ``suwr demo | fit | predict | score | explain | figures | audit | ask``."""

from suwr.cli.main import app

__all__ = ["app"]
