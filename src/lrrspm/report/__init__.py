"""The report: one HTML file on how good a classifier is, and what it gets wrong."""

from .document import Run, make_report, write_report
from .review import make_review, write_review

__all__ = ["Run", "make_report", "make_review", "write_report", "write_review"]
