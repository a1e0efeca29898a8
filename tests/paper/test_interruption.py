"""Runs that are killed, stopped or out of space, and several at once."""

import json
import random
import signal
import subprocess
import sys
import time
import warnings

import pytest

from lrrspm.paper import runner
from lrrspm.paper.results import Results
from lrrspm.paper.settings import TRAINING_IMAGES
from tests.conftest import hear_ctrl_c
from tests.paper.helpers import (
    invoke,
    row_of,
    small,
)

# The small sets made here are not the published ones.
pytestmark = pytest.mark.filterwarnings("ignore:.* is not the published set")


def test_half_a_line_is_computed_again(root, computed, tmp_path):
    whole = computed.path.read_bytes()
    (tmp_path / "rows.jsonl").write_bytes(whole[:-40])
    lost = small(1, codebook=TRAINING_IMAGES)
    with pytest.warns(UserWarning, match="damaged last line"):
        results = Results(tmp_path)
    assert results.row(lost) is None
    runner.run([lost], results, root)
    again = Results(tmp_path)  # a second time, nothing is damaged
    assert row_of(again, lost)["per_class"] == row_of(computed, lost)["per_class"]


def test_killed_runs_end_with_the_same_table(quick, root, tmp_path):
    """kill -9 at random moments; each run resumes where the last one stopped."""
    rng = random.Random(0)
    command = [sys.executable, "-m", "lrrspm", "paper", "table7", "--quick", "--json"]
    command += ["--data-dir", str(root), "--results", str(tmp_path)]
    command += ["--jobs", "1", "--methods", "ScSPM,LLC,LinearBOF"]
    rows = tmp_path / "rows.jsonl"
    for moment in range(4):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if moment % 2:  # while it starts, reads or codes
            time.sleep(rng.uniform(0, 1.5))
        else:  # as soon as it has written something
            size = rows.stat().st_size if rows.exists() else 0
            while process.poll() is None and not (rows.exists() and rows.stat().st_size > size):
                time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["parts"]["table7"]
    through = invoke("table7", "--quick", "--json", root=root, folder=quick)
    expected = json.loads(through.stdout)["parts"]["table7"]
    assert found == {method: expected[method] for method in ("LinearBOF", "ScSPM", "LLC")}


def test_a_full_disk_is_an_error(root, tmp_path):
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "from lrrspm.cli import app\n"
        "app(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", script, "paper", "table7", "--quick", "--methods", "LLC"]
    command += ["--data-dir", str(root), "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "rows.jsonl: cannot be written" in done.stderr
    assert "run it again" in done.stderr
    kept = (tmp_path / "rows.jsonl").read_bytes().count(b"\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the half line
        assert len(Results(tmp_path).records) == kept - 1  # one is the environment
    assert kept > 1


def test_ctrl_c_keeps_what_was_computed(root, tmp_path):
    command = [sys.executable, "-m", "lrrspm", "paper", "table7", "--quick"]
    command += ["--data-dir", str(root), "--results", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    rows = tmp_path / "rows.jsonl"
    # The environment and one row: all others are still to come.
    while process.poll() is None and not (rows.exists() and rows.read_bytes().count(b"\n") > 1):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "run it again to resume" in said
    assert "error: stopped" in said
    assert Results(tmp_path).records


def test_several_processes_write_to_one_file(tmp_path):
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from lrrspm.paper.results import Results\nfrom lrrspm.paper.settings import Setting\n"
        "results = Results(Path(sys.argv[1]))\n"
        "for split in range(40):\n"
        "    results.add_row(Setting('LS', int(sys.argv[2]), split), error='none')\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(number)])
        for number in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(Results(tmp_path).records) == 120
