"""The command ``lrrspm serve``: start, messages, shutdown."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from lrrspm.cli import app
from lrrspm.serve import runner
from tests.conftest import HERE
from tests.serve import fake_model
from tests.serve.servers import port_of, serving, started

pytestmark = pytest.mark.network


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_start_and_shutdown(model_path, pictures, sent):
    with serving(model_path, "--port", "0", "--json") as (process, line):
        url = json.loads(line)["url"]
        assert json.loads(line)["model"] == str(model_path)
        with urllib.request.urlopen(f"{url}api/model") as response:
            assert json.load(response)["model"] == model_path.name
            assert "server" not in response.headers
        path = pictures / "dots" / "00.png"
        with urllib.request.urlopen(_upload(f"{url}api/predict", "files", path)) as response:
            assert json.load(response)["predictions"][0]["label"] == "dots"
        process.send_signal(sent)
        printed, errors = process.communicate(timeout=20)
        assert (process.returncode, printed, errors) == (0, "", "")


def _upload(address, field, path):
    head = f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="a.png"\r\n\r\n'
    body = head.encode() + path.read_bytes() + b"\r\n--x--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    return urllib.request.Request(address, body, kind)


HALF = (
    b"POST /api/explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\nExpect: 100-continue\r\n\r\n--x"
)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def send_half(port):
    """Begin an upload; returns the connection once the server reads from it."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(HALF)
    assert connection.recv(len(CONTINUE), socket.MSG_WAITALL) == CONTINUE
    return connection


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_shutdown_during_an_upload(model_path, sent):
    with serving(model_path, "--port", "0") as (process, line):
        assert line.startswith(f"{model_path}: ready at http://127.0.0.1:")
        with send_half(int(line.split("127.0.0.1:")[1].split("/")[0])) as connection:
            process.send_signal(sent)
            response = connection.makefile("rb").read()
            _, errors = process.communicate(timeout=20)
        assert response.startswith(b"HTTP/1.1 503 ")
        assert response.endswith(b'{"error":"The server is shutting down"}')
        assert (process.returncode, errors) == (0, "")


def test_second_ctrl_c_exits_at_once(model_path):
    """While a request still has minutes to finish."""
    code = (
        "from lrrspm.cli import app\n"
        "from lrrspm.serve import runner\n"
        "runner._SHUTDOWN_SECONDS = runner._EXIT_SECONDS = 600\n"
        f"app(['serve', {str(model_path)!r}, '--port', '0', '--json'])"
    )
    with started("-c", code) as (process, line):
        port = port_of(line)
        with send_half(port), socket.create_connection(("127.0.0.1", port), timeout=20) as idle:
            process.send_signal(signal.SIGINT)
            assert idle.recv(1) == b""  # closed when the shutdown begins
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")


def test_shutdown_while_a_thread_works(model_path, pictures):
    """An image that never ends does not keep the server from exiting."""
    code = (
        "import threading\n"
        "from functools import partial\n"
        "from lrrspm.cli import app\n"
        "from lrrspm.serve import model, runner\n"
        "runner._SHUTDOWN_SECONDS, runner._EXIT_SECONDS = 1, 2.0\n"
        "runner.Worker = partial(runner.Worker, isolated=False)\n"
        "def work(*_):\n"
        "    print('working', flush=True)\n"
        "    threading.Event().wait()\n"
        "model.Model._warm_up = lambda self: None\n"
        "model.Model.answer = work\n"
        f"app(['serve', {str(model_path)!r}, '--port', '0', '--json'])"
    )
    with started("-c", code) as (process, line):
        upload = _upload(json.loads(line)["url"] + "api/explain", "file", pictures / "dots/00.png")
        with ThreadPoolExecutor(1) as clients:
            status = clients.submit(_status, upload)
            assert process.stdout.readline() == "working\n"
            process.terminate()
            _, errors = process.communicate(timeout=20)
            assert status.result() == 503
        assert (process.returncode, errors) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes that fork")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_survives_the_server(tmp_path, sent):
    """Not even one that works, and not even if the server is killed."""
    (tmp_path / "job").write_text(f"sleep {tmp_path / 'pipe'}")
    os.mkfifo(tmp_path / "pipe")
    code = (
        "from lrrspm.cli import app\n"
        "from lrrspm.serve import processes, runner\n"
        f"processes._START = {fake_model.START!r}\n"
        "runner._SHUTDOWN_SECONDS = 1\n"
        "app(['serve', 'model', '--port', '0', '--json', '--jobs', '2'])"
    )
    with started("-c", code, cwd=HERE.parent) as (process, line):
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) == 3
        upload = _upload(json.loads(line)["url"] + "api/predict", "files", tmp_path / "job")
        with ThreadPoolExecutor(1) as clients:
            status = clients.submit(_status, upload)
            (tmp_path / "pipe").open("rb").close()
            process.send_signal(sent)
            _, errors = process.communicate(timeout=20)
            assert status.result() == (0 if sent == signal.SIGKILL else 503)
        assert (process.returncode, errors) == (-9 if sent == signal.SIGKILL else 0, "")
        assert psutil.wait_procs(family, timeout=20)[1] == []


def _status(request):
    try:
        return urllib.request.urlopen(request, timeout=20).status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:  # no response
        return 0


def test_stdout_is_closed(model_path):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as nowhere:
        command = [sys.executable, "-m", "lrrspm", "serve", str(model_path), "--port", "0"]
        done = subprocess.run(command, stdout=nowhere, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("chunked", [False, True])
def test_clients_of_rejected_uploads_see_the_reason(model_path, chunked):
    """Even if they send everything before they read."""
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    parts = [head, *[bytes(100_000)] * 300]
    length = b"Content-Length: %d" % sum(map(len, parts))
    if chunked:
        length = b"Transfer-Encoding: chunked"
        parts = [b"%X\r\n%s\r\n" % (len(part), part) for part in parts]
    with (
        serving(model_path, "--port", "0", "--json", "--max-request-mb", "1") as (_, line),
        socket.create_connection(("127.0.0.1", port_of(line))) as connection,
    ):
        connection.sendall(
            b"POST /api/explain HTTP/1.1\r\nHost: localhost\r\n" + length + b"\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        )
        for part in parts:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        response = connection.makefile("rb").read()
    assert response.startswith(b"HTTP/1.1 413 ")
    assert b'{"error":"Request is larger than 1 MB;' in response


def test_port_in_use(model_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", str(model_path), "--port", str(port), "--json"])
    assert result.exit_code == 1
    reason = f"127.0.0.1, port {port}: already in use; choose another --port"
    assert json.loads(result.stdout)["error"].startswith(reason)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([os.devnull], "no such model file"),
        (["no.lrrspm"], "no.lrrspm: no such model file"),
    ],
)
def test_bad_models(options, reason):
    result = CliRunner().invoke(app, ["serve", *options, "--port", "0", "--json"])
    assert result.exit_code == 1
    assert reason in json.loads(result.stdout)["error"]


@pytest.fixture
def asked(monkeypatch):
    """Arguments that the command passes to ``run``, which does nothing."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(runner, "run", lambda *arguments: calls.append(arguments))
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
def test_public_addresses_have_a_warning(asked, options, host, warned):
    result = CliRunner().invoke(app, ["serve", "m", *options])
    assert result.exit_code == 0
    assert asked[0][1:3] == (host, 8000)
    assert ("there is no password" in result.stderr) == warned


@pytest.mark.parametrize("host", ["", " ", "127.0.0.1 localhost"])
def test_host_is_one_address(asked, host):
    result = CliRunner().invoke(app, ["serve", "m", "--host", host])
    assert (result.exit_code, asked) == (2, [])


@pytest.mark.parametrize("given", ["-0.1", "1.1", "nan", "80%"])
def test_least_confidence_is_a_probability(asked, given):
    result = CliRunner().invoke(app, ["serve", "m", "--min-confidence", given])
    assert (result.exit_code, asked) == (2, [])
    CliRunner().invoke(app, ["serve", "m", "--min-confidence", "0.8"])
    assert asked[0][6] == 0.8


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
def test_unavailable_hosts(host, reason, monkeypatch):
    monkeypatch.undo()  # nothing is contacted
    with pytest.raises(OSError, match=reason):
        runner._bind(host, 0)
