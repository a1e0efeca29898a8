"""The nine data sets of the paper: where they come from, how they are laid out and checked.

A data set is a folder with one folder a class, below a data root: ``ROOT/LS/bedroom/*.jpg``.
:func:`load` gives its paths and labels, :func:`fetch` downloads it, :func:`add` uses a folder
that is already there, :func:`verify` compares it with what was published.
"""

from .catalogue import DATASETS, Archive, Dataset, find_dataset
from .fetch import fetch
from .folders import Status, add, data_root, load, locate, status
from .verify import Report, verify

__all__ = [
    "DATASETS",
    "Archive",
    "Dataset",
    "Report",
    "Status",
    "add",
    "data_root",
    "fetch",
    "find_dataset",
    "load",
    "locate",
    "status",
    "verify",
]
