"""A model whose worker does what the uploaded file says; stands in for the real one."""

import os
import signal
import sys
import time
from typing import Any, ClassVar

# Processes that run it start in a moment: it imports neither NumPy nor scikit-learn.
START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1])['folders']; "
    "import tests.serve.fake_model as fake; sys.modules['lrrspm.serve.model'] = fake; "
    "from lrrspm.serve.nursery import main; main(sys.argv[1])"
)
MEMORY, SECONDS = 100_000_000, 1


class Model:
    labels: ClassVar = ["a", "b"]
    card: ClassVar = {
        "model": "fake", "bytes": 1, "format": 2, "library": "0", "method": "fake", "summary": "",
        "images": 2, "classes": {"a": 1, "b": 1}, "estimate": None, "calibrated": False,
        "parameters": {},
    }  # fmt: skip
    digest = "same"
    seconds = megabytes = 0.0
    kept: ClassVar[list[bytearray]] = []

    def __init__(self, path: str) -> None:
        if path == "bad":
            raise ValueError("bad: a damaged model file")
        if path == "dead":
            os._exit(1)
        if path == "stuck":
            signal.pause()
        if os.path.exists(path):
            with open(path) as file:
                self.digest = file.read()

    def answer(self, job: dict[str, Any], file: Any) -> dict[str, Any]:
        command, _, argument = file.read().partition(b" ")
        result = getattr(self, command.decode())(argument)
        answer = {"label": "a", "score": 1.0, "confidence": 1.0, "familiar": True, "top": []}
        return {"result": {**answer, "milliseconds": 1, "is": result}}

    def pid(self, _: bytes) -> int:
        return os.getpid()

    def files(self, _: bytes) -> list[str]:
        """Names of the open files; the folder that lists them is one."""
        found = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return [os.readlink(name) for name in found if os.path.lexists(name)]

    def spin(self, pipe: bytes) -> None:
        """Compute for ever, from when a test opens the named pipe, if one is given."""
        if pipe:
            with open(pipe, "rb"):
                pass
        while True:
            pass

    def burn(self, seconds: bytes) -> int:
        end = time.process_time() + float(seconds)
        while time.process_time() < end:
            pass
        return os.getpid()

    def allocate(self, size: bytes) -> int:
        return len(bytearray(int(size)))

    def keep(self, size: bytes) -> int:
        self.kept.append(bytearray(int(size)))
        return os.getpid()

    def crash(self, _: bytes) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def fail(self, _: bytes) -> None:
        raise RuntimeError("secret")

    def speak(self, _: bytes) -> None:
        os.write(2, b"a warning of libtiff\n")
        print("a result", flush=True)
        sys.stderr.flush()

    def sleep(self, pipe: bytes) -> None:
        """Tell a test that waits at a named pipe, then do nothing for long."""
        with open(pipe, "wb"):
            pass
        time.sleep(600)
