"""Commands whose images are computed by Dask: Ctrl-C, reports, images and rows at addresses."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from lrrspm._support.rows import RemoteRows
from lrrspm.cli import app

from .. import buckets
from .clusters import Cluster, encryption

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.network


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == code, result.output
    return result


def test_ctrl_c_ends_the_run_and_its_tasks_and_the_next_one_resumes(
    two, model_path, image_folder, tmp_path
):
    images = sorted(image_folder.glob("*/*.png"))
    (tmp_path / "many").mkdir()
    for number in range(6000):
        (tmp_path / "many" / f"{number:05}.png").symlink_to(images[number % len(images)])
    rows = tmp_path / "rows.csv"
    command = [
        sys.executable, "-m", "lrrspm", "predict", model_path, tmp_path / "many", "-o", rows,
        "--engine", two.engine,
    ]  # fmt: skip
    # What runs in the background may ignore SIGINT.
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not any(part.stat().st_size > 10_000 for part in tmp_path.glob(".rows.csv.*.part")):
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert b"Traceback" not in said
    assert not rows.exists()
    with distributed.Client(two.address, set_as_default=False) as client:
        for _ in range(600):
            busy = [task for tasks in client.processing().values() for task in tasks]
            if not busy:
                break
            time.sleep(0.1)
        assert not busy
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "resuming after" in done.stderr
    run("predict", model_path, tmp_path / "many", "-o", tmp_path / "threads.csv")
    assert rows.read_bytes() == (tmp_path / "threads.csv").read_bytes()


def test_reports_of_a_cluster(two, image_folder, tmp_path):
    rows = []
    for engine in (two.engine, "threads"):
        name = engine.partition(":")[0]
        run(
            "evaluate", image_folder, "--method", "LrrSPM", "--codebook-size", 8, "--splits", 1,
            "--train-per-class", 6, "--engine", engine, "--report", tmp_path / f"{name}.html",
            "--predictions", tmp_path / f"{name}.csv",
        )  # fmt: skip
        page = (tmp_path / f"{name}.html").read_text()
        assert page.count("<svg") > 1
        rows.append((tmp_path / f"{name}.csv").read_bytes())
    assert rows[0] == rows[1]
    assert rows[0].count(b"\n") == 19


def test_an_audit_of_a_cluster_is_that_of_threads(two, image_folder, tmp_path, monkeypatch):
    shutil.copytree(image_folder, tmp_path / "set")
    (tmp_path / "set" / "dots" / "bad.png").write_text("not an image")
    shutil.copy(sorted((tmp_path / "set" / "dots").iterdir())[0], tmp_path / "set" / "along")
    monkeypatch.chdir(tmp_path)
    here, there = (
        json.loads(run("audit", "set", "--engine", engine, "--json", code=3).stdout)
        for engine in ("threads", two.engine)
    )
    assert there == here
    assert here["counts"]["broken"] == 1
    assert here["counts"]["copy across classes"] == 1
    assert here["counts"]["empty class"] == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_certificates(model_path, image_folder, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    new = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    made = ["openssl", "req", "-x509", *new, "-keyout", key, "-out", certificate]
    subprocess.run(made, check=True, capture_output=True)
    command = ["predict", model_path, image_folder / "dots", "--csv", "--engine"]
    cluster = Cluster(tmp_path, certificate=(certificate, key))
    try:
        with dask.config.set(encryption(certificate, key)):
            cluster.start_workers(1)
            assert cluster.address.startswith("tls://")
            assert run(*command, cluster.engine).stdout == run(*command, "threads").stdout
        # Whoever has no certificate is not let in.
        assert "needs certificates" in run(*command, cluster.engine, code=1).stderr
        plain = cluster.address.replace("tls://", "dask://")
        assert "no Dask scheduler" in run(*command, plain, code=1).stderr
    finally:
        cluster.close()


def test_images_and_rows_at_addresses_resume(two, model_path, image_folder, tmp_path, monkeypatch):
    monkeypatch.setenv(buckets.ROOT, "")
    buckets.serve(tmp_path / "bucket")
    with distributed.Client(two.address, set_as_default=False) as client:
        client.run(buckets.serve, tmp_path / "bucket")
    shutil.copytree(image_folder / "dots", tmp_path / "bucket" / "images")
    (tmp_path / "bucket" / "images" / "bad.png").write_text("not an image")
    monkeypatch.setattr("lrrspm.pipeline.streaming.BLOCK", 4)
    arguments = ["predict", model_path, "bucket://images", "-o", "bucket://out/rows.csv"]
    run(*arguments, code=3)
    expected = (tmp_path / "bucket" / "out" / "rows.csv").read_bytes()
    os.remove(tmp_path / "bucket" / "out" / "rows.csv")
    arguments += ["--engine", two.engine]
    original = RemoteRows.append
    blocks: list[object] = []

    def stop(self, rows):
        if len(blocks) == 2:
            raise KeyboardInterrupt
        blocks.append(rows)
        original(self, rows)

    monkeypatch.setattr(RemoteRows, "append", stop)
    run(*arguments, code=130)
    monkeypatch.setattr(RemoteRows, "append", original)
    done = run(*arguments, code=3)
    assert "resuming after 8 rows" in done.stderr
    assert (tmp_path / "bucket" / "out" / "rows.csv").read_bytes() == expected
    assert os.listdir(tmp_path / "bucket" / "out") == ["rows.csv"]
