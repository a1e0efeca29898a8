import sys
from types import SimpleNamespace

import numpy as np
import pytest

from lrrspm._support.stages import Stages


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may keep freed memory")
def test_memory_is_taken_when_a_stage_last_ends():
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


def test_seconds_come_from_the_clock(monkeypatch):
    clock = iter([10.0, 12.5, 20.0, 20.25]).__next__
    monkeypatch.setattr("lrrspm._support.stages.time", SimpleNamespace(perf_counter=clock))
    stages = Stages()
    with stages.timed("read"):
        pass
    with pytest.raises(ValueError, match="no matter"), stages.timed("read"):
        raise ValueError("no matter")
    assert stages.seconds == {"read": 2.75}


def test_wasted_time_is_moved_to_a_stage_of_its_own():
    stages = Stages()
    stages.add("read", 1.0)
    for seconds in (2.0, 4.0):
        before = dict(stages.seconds)
        stages.add("read", seconds)
        stages.add("encode", seconds)
        stages.set_apart(before, "wasted")
        assert stages.memory.keys() == stages.seconds.keys()
    assert stages.seconds == {"read": 1.0, "wasted": 12.0}
