"""The commands. Each reads its arguments, calls the library and prints what came back."""

from . import classify, paper
from .app import app

__all__ = ["app", "classify", "paper"]
