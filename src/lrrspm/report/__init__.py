"""The report: one HTML file on how good a classifier is, and what it gets wrong."""

from .document import Run, make_report, write_report

__all__ = ["Run", "make_report", "write_report"]
