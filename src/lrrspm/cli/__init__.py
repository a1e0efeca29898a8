"""The commands. Each reads its arguments, calls the library and prints what came back."""

from . import audit, classify, datasets, paper
from .app import app

__all__ = ["app", "audit", "classify", "datasets", "paper"]
