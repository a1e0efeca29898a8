"""``python -m lrrspm``."""

from .cli import app

app()
