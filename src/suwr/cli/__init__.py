"""The command line: ``suwr demo | fit | predict | explain | audit | ask | figures``."""

from suwr.cli.main import app

__all__ = ["app"]
