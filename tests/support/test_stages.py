import sys
from types import SimpleNamespace

import numpy as np
import pytest

from lrrspm._support.stages import Stages


@pytest.mark.skipif(sys.platform != "linux", reason="memory at a time is known on Linux alone")
def test_memory_of_a_stage_is_that_of_its_last_end():
    stages = Stages()
    block = np.ones(20_000_000)  # 160 MB
    stages.add("large", 1.0)
    stages.add("again", 1.0)
    del block
    stages.add("small", 1.0)
    stages.add("again", 1.0)
    assert stages.seconds == {"large": 1.0, "again": 2.0, "small": 1.0}
    held = {name: memory.held for name, memory in stages.memory.items()}
    peaks = {name: memory.peak for name, memory in stages.memory.items()}
    for name in ("small", "again"):
        held_now, peak = held[name], peaks[name]
        assert held["large"] is not None
        assert held_now is not None
        assert held["large"] - held_now == pytest.approx(160, abs=20)
        assert peak is not None
        assert peak > held["large"] - 10  # the system counts in lumps


def test_seconds_are_those_of_the_clock(monkeypatch):
    clock = iter([10.0, 12.5, 20.0, 20.25]).__next__
    monkeypatch.setattr("lrrspm._support.stages.time", SimpleNamespace(perf_counter=clock))
    stages = Stages()
    with stages.timed("read"):
        pass
    with pytest.raises(ValueError, match="no matter"), stages.timed("read"):
        raise ValueError("no matter")
    assert stages.seconds == {"read": 2.75}


def test_what_was_done_in_vain_is_set_apart():
    stages = Stages()
    stages.add("read", 1.0)
    for seconds in (2.0, 4.0):
        before = dict(stages.seconds)
        stages.add("read", seconds)
        stages.add("encode", seconds)
        stages.set_apart(before, "vain")
        assert stages.memory.keys() == stages.seconds.keys()
    assert stages.seconds == {"read": 1.0, "vain": 12.0}
