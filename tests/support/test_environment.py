import re
import subprocess
import sys

import numpy as np
import pytest

from lrrspm._support import environment


def test_environment_names_commit_versions_and_machine():
    found = environment.describe_environment()
    assert found["packages"]["numpy"] == np.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert re.fullmatch(r"[0-9a-f]{40}(\+dirty)?|unknown|none: .*", found["commit"])
    assert found["blas"]


def test_missing_packages_are_named():
    assert environment.versions(["numpy", "no-such-package"]) == {
        "numpy": np.__version__,
        "no-such-package": "missing",
    }


def test_peak_memory_sees_what_was_held():
    script = (
        "import numpy as np\n"
        "from lrrspm._support.environment import forget_peak_memory, peak_memory\n"
        "before = peak_memory()\n"
        "np.ones(30_000_000).sum()\n"
        "print(peak_memory() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert float(done.stdout) == pytest.approx(240, abs=40)
