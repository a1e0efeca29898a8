"""The commands. Each reads its arguments, calls the library and prints what came back."""

from . import audit, cache, classify, datasets, explain, paper, serve
from .app import app

__all__ = ["app", "audit", "cache", "classify", "datasets", "explain", "paper", "serve"]
