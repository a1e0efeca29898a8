"""The commands. Each reads its arguments, calls the library and prints what came back."""

from . import cache, classify
from .app import app

__all__ = ["app", "cache", "classify"]
