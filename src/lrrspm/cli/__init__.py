"""The commands. Each reads its arguments, calls the library and prints what came back."""

from . import classify, datasets, paper
from .app import app

__all__ = ["app", "classify", "datasets", "paper"]
