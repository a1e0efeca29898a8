"""Shared by the fuzzers: a folder of seeds, and the loop."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris

LIMITS = ("-timeout=5", "-rss_limit_mb=1500", "-max_len=65536", "-print_final_stats=1")


def fuzz(check: Callable[[bytes, Path], None], seeds: Iterable[bytes]) -> None:
    """Call ``check`` with damaged seeds and a folder of its own until libFuzzer's time is up.

    An exception, five seconds for one input or 1.5 GB of memory end the run; the
    input is kept as crash-*, timeout-* or oom-* in the current folder. The
    command takes libFuzzer's arguments, such as -max_total_time=60 or a file to
    try again.
    """
    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as scratch:
        for number, seed in enumerate(seeds):
            Path(corpus, str(number)).write_bytes(seed)
        arguments = [sys.argv[0], *LIMITS, *sys.argv[1:]]
        if not any(Path(argument).is_file() for argument in sys.argv[1:]):
            arguments.append(corpus)
        atheris.Setup(arguments, lambda content: check(content, Path(scratch)))
        atheris.Fuzz()
