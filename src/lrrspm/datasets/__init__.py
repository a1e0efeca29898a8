"""The nine data sets of the paper: find, download, unpack and verify them.

A data set is a folder with one folder per class, below a data root: ``ROOT/LS/bedroom/*.jpg``.
:func:`load` returns its paths and labels, :func:`fetch` downloads it, :func:`add` registers a
folder that you already have, and :func:`verify` compares it with the published images.
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
