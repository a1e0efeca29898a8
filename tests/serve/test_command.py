"""The command that serves: how it starts, what it says, how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from typer.testing import CliRunner

from lrrspm.cli import app
from lrrspm.serve import run
from tests.serve.servers import port_of, serving, started

pytestmark = pytest.mark.network


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_start_and_end(model_path, pictures, sent):
    with serving(model_path, "--port", "0", "--json") as (process, said):
        url = json.loads(said)["url"]
        assert json.loads(said)["model"] == str(model_path)
        with urllib.request.urlopen(f"{url}api/model") as answer:
            assert json.load(answer)["model"] == model_path.name
            assert "server" not in answer.headers
        picture = pictures / "dots" / "00.png"
        with urllib.request.urlopen(_upload(f"{url}api/predict", "files", picture)) as answer:
            assert json.load(answer)["predictions"][0]["label"] == "dots"
        process.send_signal(sent)
        printed, complained = process.communicate(timeout=20)
        assert (process.returncode, printed, complained) == (0, "", "")


def _upload(address, field, path):
    head = f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="a.png"\r\n\r\n'
    body = head.encode() + path.read_bytes() + b"\r\n--x--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    return urllib.request.Request(address, body, kind)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_while_somebody_sends(model_path, sent):
    with serving(model_path, "--port", "0") as (process, said):
        assert said.startswith(f"{model_path}: ready at http://127.0.0.1:")
        port = int(said.split("127.0.0.1:")[1].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(HALF)
            time.sleep(0.3)
            process.send_signal(sent)
            answer = connection.makefile("rb").read()
            _, complained = process.communicate(timeout=20)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b'{"error":"the server is stopping"}')
        assert (process.returncode, complained) == (0, "")


HALF = (
    b"POST /api/explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x"
)


def test_ctrl_c_twice_ends_it_at_once(model_path):
    with serving(model_path, "--port", "0", "--json") as (process, said):
        with socket.create_connection(("127.0.0.1", port_of(said))) as connection:
            connection.sendall(HALF)
            time.sleep(0.3)
            start = time.perf_counter()
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            _, complained = process.communicate(timeout=20)
        assert time.perf_counter() - start < run._FAREWELL
        assert (process.returncode, complained) == (0, "")


def test_it_ends_while_a_thread_works(model_path, pictures):
    """A picture that takes a minute does not hold the server that long."""
    code = (
        "import time\n"
        "from lrrspm.classifier import ImageClassifier\n"
        "from lrrspm.cli import app\n"
        "from lrrspm.serve import run, work\n"
        "run._FAREWELL, run._LAST = 1, 2.0\n"
        "work.Worker._warm_up = lambda self: None\n"
        "ImageClassifier.examine = lambda *_: time.sleep(60)\n"
        "app(['serve', MODEL, '--port', '0', '--json'])"
    ).replace("MODEL", repr(str(model_path)))
    with started("-c", code) as (process, said):
        upload = _upload(json.loads(said)["url"] + "api/explain", "file", pictures / "dots/00.png")
        with ThreadPoolExecutor(1) as clients:
            answer = clients.submit(_status, upload)
            time.sleep(1)
            process.terminate()
            _, complained = process.communicate(timeout=20)
            assert answer.result() == 503
        assert (process.returncode, complained) == (0, "")


def _status(request):
    try:
        return urllib.request.urlopen(request, timeout=20).status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_nobody_reads_what_it_says(model_path):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as nowhere:
        command = [sys.executable, "-m", "lrrspm", "serve", str(model_path), "--port", "0"]
        done = subprocess.run(command, stdout=nowhere, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("chunked", [False, True])
def test_refused_uploads_hear_why(model_path, chunked):
    """Also those who send all of it before they listen."""
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    parts = [head, *[bytes(100_000)] * 300]
    length = b"Content-Length: %d" % sum(map(len, parts))
    if chunked:
        length = b"Transfer-Encoding: chunked"
        parts = [b"%X\r\n%s\r\n" % (len(part), part) for part in parts]
    with (
        serving(model_path, "--port", "0", "--json", "--max-request-mb", "1") as (_, said),
        socket.create_connection(("127.0.0.1", port_of(said))) as connection,
    ):
        connection.sendall(
            b"POST /api/explain HTTP/1.1\r\nHost: localhost\r\n" + length + b"\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        )
        for part in parts:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'{"error":"the request has more than 1,000,000 bytes' in answer


def test_a_port_that_is_in_use(model_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", str(model_path), "--port", str(port), "--json"])
    assert result.exit_code == 1
    reason = f"127.0.0.1, port {port}: in use; choose another with --port, or 0 for any"
    assert json.loads(result.stdout)["error"].startswith(reason)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([os.devnull], "no such model file"),
        (["no.lrrspm"], "no.lrrspm: no such model file"),
    ],
)
def test_bad_models(options, reason):
    result = CliRunner().invoke(app, ["serve", *options, "--port", "0"])
    assert result.exit_code == 1
    assert reason in result.stderr


@pytest.fixture
def asked(monkeypatch):
    """What the command asks the server for, which is not started."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(run, "run", lambda *arguments: calls.append(arguments))
    return calls


@pytest.mark.parametrize(
    ("options", "host", "warned"),
    [
        ([], "127.0.0.1", False),
        (["--host", "localhost"], "localhost", False),
        (["--host", "::1"], "::1", False),
        (["--host", "127.0.0.2"], "127.0.0.2", False),
        (["--host", "127.1"], "127.0.0.1", False),
        (["--host", "0:0:0:0:0:0:0:1"], "::1", False),
        (["--host", "0.0.0.0"], "0.0.0.0", True),
        (["--host", "0"], "0.0.0.0", True),
        (["--host", "0::0"], "::", True),
        (["--host", "192.0.2.1"], "192.0.2.1", True),
        (["--host", "127.evil.example"], "127.evil.example", True),
    ],
)
def test_only_who_asks_for_it_is_served_to_others(asked, options, host, warned):
    result = CliRunner().invoke(app, ["serve", "m", *options])
    assert result.exit_code == 0
    assert asked[0][1:3] == (host, 8000)
    assert ("there is no password" in result.stderr) == warned


@pytest.mark.parametrize("host", ["", " ", "127.0.0.1 localhost"])
def test_a_host_is_one_address(asked, host):
    result = CliRunner().invoke(app, ["serve", "m", "--host", host])
    assert (result.exit_code, asked) == (2, [])
    assert "an address is needed, such as 127.0.0.1" in result.stderr


def test_limits_reach_the_server(asked):
    options = "--max-files 2 --max-file-mb 3 --max-request-mb 4 --max-waiting 5 --max-seconds 6"
    CliRunner().invoke(app, ["serve", "m", *options.split(), "--jobs", "7", "--name", "a.lan"])
    limits, jobs, names = asked[0][3:6]
    assert vars(limits) == {
        "files": 2, "file_bytes": 3_000_000, "request_bytes": 4_000_000, "waiting": 5, "seconds": 6,
    }  # fmt: skip
    assert (jobs, names) == (7, ["a.lan"])


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "python_multipart"])
def test_without_the_extra(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from lrrspm.cli import app\n"
        "app(['serve', 'my.lrrspm'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"error: {missing} is missing: pip install 'lrrspm[serve]'\n"


@pytest.mark.parametrize(
    ("host", "reason"),
    [("192.0.2.1", "not an address of this machine"), ("a..b", "no such address")],
)
def test_hosts_that_cannot_be_had(host, reason, monkeypatch):
    monkeypatch.undo()  # nobody is reached
    with pytest.raises(OSError, match=reason):
        run._bind(host, 0)
