"""The commands. Each reads its arguments, calls the library and prints the result."""

from . import (
    add,
    audit,
    cache,
    datasets,
    demo,
    evaluate,
    explain,
    models,
    paper,
    predict,
    review,
    serve,
    train,
    tune,
)
from .app import app

__all__ = [
    "add", "app", "audit", "cache", "datasets", "demo", "evaluate", "explain", "models", "paper",
    "predict", "review", "serve", "train", "tune",
]  # fmt: skip
