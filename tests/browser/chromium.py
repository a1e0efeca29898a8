"""Find or install Chromium for the tests."""

import os
import shutil
import subprocess
import sys
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Return the path of the system's Chromium, or None: Playwright may have its own."""
    return next((path for path in map(shutil.which, _NAMES) if path), None)


def options() -> dict[str, Any]:
    """Return Playwright's launch options."""
    # Chromium has no sandbox for root, and tests in containers often run as root.
    return {
        "executable_path": find(),
        "args": ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else [],
    }


def install() -> None:
    """Install Chromium if there is none."""
    if find():
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        got = subprocess.run(["apt-get", "install", "-qqy", "chromium"], env=quiet, check=False)
        if got.returncode == 0 and find():
            return
    if subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"]).returncode:
        sys.exit("cannot install Chromium; install the Debian package chromium")


if __name__ == "__main__":
    install()
