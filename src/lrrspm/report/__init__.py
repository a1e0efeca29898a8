"""The report: one HTML file on what a classifier does, for people to look at."""

from .whole import Run, make_report, write_report

__all__ = ["Run", "make_report", "write_report"]
