"""Models and outputs at addresses: as on this machine, and never with credentials in a message."""

import json
import re
import sys

import fsspec
import numpy as np
import pytest
from typer.testing import CliRunner

from lrrspm import find_images, load_model
from lrrspm._support import remote
from lrrspm._support.files import check_target
from lrrspm._support.rows import RemoteRows
from lrrspm.cli import app
from lrrspm.modelfile import ModelFileError, describe_model
from tests.images.test_remote import FlakyFileSystem

SMALL = ["--method", "LrrSPM", "--codebook-size", 8, "--jobs", 2]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def bucket(model_path):
    """Files in memory, with a model."""
    files = fsspec.filesystem("memory")
    files.pipe("/bucket/m.lrrspm", model_path.read_bytes())
    yield files
    files.rm("/bucket", recursive=True)


@pytest.fixture
def flaky(bucket, monkeypatch):
    """The same by way of a store that fails."""
    fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    FlakyFileSystem.asked.clear()
    yield FlakyFileSystem
    FlakyFileSystem.failures = 0


def test_a_model_is_saved_and_loaded(bucket, model_path, image_folder):
    model = load_model("memory://bucket/m.lrrspm")
    model.save("memory://bucket/again.lrrspm")
    assert bucket.cat("/bucket/again.lrrspm") == model_path.read_bytes()
    paths, _ = find_images(image_folder)
    expected = load_model(model_path).decision_function(paths[:3])
    np.testing.assert_array_equal(model.decision_function(paths[:3]), expected)
    facts = describe_model("memory://bucket/m.lrrspm", model)
    assert facts == {**describe_model(model_path, model), "model": "memory://bucket/m.lrrspm"}


def test_train_and_its_report(bucket, image_folder, tmp_path):
    local, there = tmp_path / "t.lrrspm", "memory://bucket/new/t.lrrspm"
    run("train", image_folder, "-o", local, *SMALL)
    report = "memory://bucket/report.html"
    done = json.loads(
        run("train", image_folder, "-o", there, "--report", report, "--json", *SMALL).stdout
    )
    assert (done["model"], done["report"]) == (there, report)
    assert bucket.cat("/bucket/new/t.lrrspm") == local.read_bytes()
    assert done["bytes"] == local.stat().st_size
    assert bucket.cat("/bucket/report.html").startswith(b"<!doctype html>")
    assert run("train", image_folder, "-o", there, *SMALL).stdout.startswith(f"{there}: 36 images")
    assert json.loads(run("info", there, "--json").stdout)["model"] == there
    assert run("info", there).stdout.startswith(f"{there}: ")


def test_add_to_a_model(bucket, image_folder):
    there, other = "memory://bucket/m.lrrspm", "memory://bucket/other.lrrspm"
    before = bucket.cat("/bucket/m.lrrspm")
    done = run("add", there, image_folder, "-o", other, "--no-estimate", "--json")
    assert json.loads(done.stdout)["bytes"] == bucket.size("/bucket/other.lrrspm")
    assert bucket.cat("/bucket/m.lrrspm") == before
    run("add", there, image_folder, "--no-estimate")
    assert bucket.cat("/bucket/m.lrrspm") == bucket.cat("/bucket/other.lrrspm")


def test_other_outputs(bucket, image_folder, tmp_path):
    there, image = "memory://bucket/m.lrrspm", image_folder / "dots" / "00.png"
    done = run("explain", there, image, "-o", "memory://bucket/why.png")
    assert "wrote memory://bucket/why.png" in done.stdout
    assert bucket.cat("/bucket/why.png").startswith(b"\x89PNG")
    bucket.pipe("/bucket/00.png", image.read_bytes())
    run("explain", there, "memory://bucket/00.png", "-o", tmp_path / "why.png")
    assert (tmp_path / "why.png").read_bytes() == bucket.cat("/bucket/why.png")

    rows, page = "memory://bucket/p.jsonl", "memory://bucket/p.html"
    done = run("score", there, image_folder, "--predictions", rows, "--report", page, "--json")
    found = json.loads(done.stdout)
    assert (found["predictions_file"], found["report"]) == (rows, page)
    run("score", there, image_folder, "--predictions", tmp_path / "p.jsonl")
    assert bucket.cat("/bucket/p.jsonl") == (tmp_path / "p.jsonl").read_bytes()
    assert b"memory://bucket/m.lrrspm" in bucket.cat("/bucket/p.html")

    gallery, table = "memory://bucket/r.html", "memory://bucket/r.csv"
    done = run("review", image_folder, "-o", gallery, "--csv", table, "--method", "LrrSPM")
    assert done.stdout.endswith(f"wrote {gallery}\nwrote {table}\n")
    assert bucket.cat("/bucket/r.csv").startswith(b"path,label")


def test_tune_writes_the_winner(bucket, image_folder):
    done = run("tune", image_folder, "-o", "memory://bucket/best.lrrspm", "--budget", 0)
    assert "-o memory://bucket/best.lrrspm" in done.stdout
    assert len(load_model("memory://bucket/best.lrrspm").classes_) == 3


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl"])
def test_predict_resumes_after_a_kill(
    bucket, image_folder, model_path, tmp_path, monkeypatch, name, reads
):
    monkeypatch.setattr("lrrspm.pipeline.streaming.BLOCK", 4)
    monkeypatch.setattr("lrrspm.pipeline.streaming._SINGLE_BYTES", 1)
    (tmp_path / "bad.png").write_text("not an image")
    images = [tmp_path / "bad.png", *sorted(image_folder.glob("*/*.png"))[:14]]
    run("predict", model_path, *images, "-o", tmp_path / name, code=3)
    there = f"memory://bucket/{name}"
    arguments = ["predict", "memory://bucket/m.lrrspm", *images, "-o", there]
    original = RemoteRows.append
    seen: list[str] = []

    def stop(self, rows):
        if len(seen) == 2:  # killed; a store without whole objects keeps half of the third block
            half = f"{self._folder}{self._hidden}.{self._rows:012}.part"
            remote.write_remote(half, b'"half a r')
            raise KeyboardInterrupt
        seen.append("")
        original(self, rows)

    monkeypatch.setattr(RemoteRows, "append", stop)
    run(*arguments, code=130)
    monkeypatch.setattr(RemoteRows, "append", original)
    assert not bucket.exists(f"/bucket/{name}")
    reads.clear()
    done = run(*arguments, code=3)
    assert "resuming after 8 rows" in done.stderr
    assert f"delete memory://bucket/.{name}." in done.stderr
    assert len(reads) == len(images) - 8
    assert bucket.cat(f"/bucket/{name}") == (tmp_path / name).read_bytes()
    assert done.stdout.endswith("14 images\n")
    assert "bad.png" in done.stderr  # it was skipped before the kill
    assert bucket.ls("/bucket", detail=False) == ["/bucket/m.lrrspm", f"/bucket/{name}"]


def test_a_store_that_fails_is_asked_again(flaky, bucket, model_path, image_folder):
    arguments = ["predict", model_path, image_folder / "dots", "-o", "flaky://bucket/p.csv"]
    flaky.failures = remote.TRIES - 1
    run(*arguments)
    assert bucket.cat("/bucket/p.csv").count(b"\n") == 13
    flaky.failures = remote.TRIES
    flaky.asked.clear()
    done = run(*arguments, "--json", code=1)
    error = json.loads(done.stdout)["error"]
    assert re.fullmatch(r"flaky://bucket/p\.csv: 503 .* \(tried 4 times\)", error)
    assert "secret" not in done.output
    assert "sig=" not in done.output


def test_a_model_that_cannot_be_reached(flaky, image_folder):
    flaky.failures = remote.TRIES - 1
    run("info", "flaky://bucket/m.lrrspm")
    flaky.failures = remote.TRIES
    flaky.asked.clear()
    done = run("info", "flaky://bucket/m.lrrspm", code=1)
    assert done.stderr.startswith("error: flaky://bucket/m.lrrspm: 503")
    assert "secret" not in done.output


def test_models_that_are_none(bucket, model_path, image_folder, monkeypatch):
    whole = model_path.read_bytes()
    contents = {
        "the file is empty": b"",
        "a truncated or damaged model file": whole[: len(whole) // 2],
        "looks like a pickle": b"\x80\x04\x95" + bytes(20),
        "at most 4,194,304 are read": (2**40).to_bytes(8, "little") + b"{",
        "damaged": whole.replace(b"lrrspm", b"lrrspn", 1) + b"x",
    }
    for reason, content in contents.items():
        bucket.pipe("/bucket/.odd", content)
        with pytest.raises(ModelFileError, match=rf"^memory://bucket/\.odd: .*{reason}"):
            load_model("memory://bucket/.odd")
    for nothing in ("memory://bucket/nothing", "memory://bucket"):
        with pytest.raises(ModelFileError, match=rf"^{nothing}: no such model file"):
            load_model(nothing)
    monkeypatch.setattr("lrrspm.modelfile.container.MAX_REMOTE", 100)
    with pytest.raises(ModelFileError, match="more than 100 bytes, not read"):
        load_model("memory://bucket/m.lrrspm")
    bucket.pipe("/bucket/precious", b"no model")
    done = run("train", image_folder, "-o", "memory://bucket/precious", code=2)
    assert "exists and is not a model" in done.stderr
    assert bucket.cat("/bucket/precious") == b"no model"


def test_inputs_are_not_replaced(bucket, model_path, image_folder):
    for name in ("m.csv", "m.html"):
        bucket.pipe(f"/bucket/{name}", model_path.read_bytes())
    bucket.pipe("/bucket/m.png", (image_folder / "dots" / "00.png").read_bytes())
    table, page, image = (f"memory://bucket/m.{end}" for end in ("csv", "html", "png"))
    for command in (
        ["predict", table, image_folder, "-o", table],
        ["predict", table, image_folder, "-o", "MEMORY:///bucket/m.csv/"],
        ["score", table, image_folder, "--predictions", table],
        ["score", page, image_folder, "--report", page],
        ["explain", "memory://bucket/m.lrrspm", image, "-o", image],
    ):
        assert "would replace" in json.loads(run(*command, "--json", code=2).stdout)["error"]
    assert bucket.cat("/bucket/m.csv") == model_path.read_bytes()
    run("predict", table, image_folder / "dots" / "00.png", "-o", "memory://bucket/n.csv")


@pytest.mark.parametrize(
    "address",
    ["s3://key:secret@bucket/m.csv", "https://host/m.csv?sig=secret", "s3://b/m.csv?key=secret",
     "s3://key:a/secret@bucket/m.csv", "s3://key:12/secret@bucket/m.csv"],
)  # fmt: skip
def test_credentials_are_refused(address, image_folder, model_path):
    page = address.replace(".csv", ".html")
    for command in (
        ["info", address],
        ["predict", address, image_folder],
        ["predict", model_path, image_folder, "-o", address],
        ["train", image_folder, "-o", address],
        ["train", image_folder, "-o", "x.lrrspm", "--report", page],
        ["evaluate", image_folder, "--predictions", address],
        ["review", image_folder, "--csv", address],
    ):
        done = run(*command, "--json", code=2)
        assert "does not belong in an address" in json.loads(done.stdout)["error"]
        assert "secret" not in done.output
    for function in (load_model, load_model(model_path).save, check_target):
        with pytest.raises(ValueError, match="does not belong in an address") as refused:
            function(address)
        assert "secret" not in str(refused.value)


def test_a_file_of_this_machine_is_given_by_its_path(image_folder):
    done = run("train", image_folder, "-o", "file:///tmp/m.lrrspm", code=2)
    assert "give the path alone" in done.stderr


def test_folders_are_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (
        ["demo", "-o", "s3://key:secret@bucket/demo"],
        ["paper", "table4", "--results", "s3://bucket/paper"],
        ["paper", "report", "-o", "s3://bucket/paper.html"],
        ["datasets", "fetch", "LS", "--data-dir", "s3://bucket/data"],
        ["serve", "m", "--collect", "s3://bucket/corrections"],
    ):
        done = run(*command, "--json", code=2)
        assert "must be on this machine" in json.loads(done.stdout)["error"]
        assert "secret" not in done.output
    assert not list(tmp_path.iterdir())


def test_missing_packages_are_named(image_folder, model_path, monkeypatch):
    out = ["predict", model_path, image_folder, "-o", "s3://bucket/p.csv"]
    monkeypatch.setitem(sys.modules, "s3fs", None)
    for command in (["info", "s3://bucket/m"], out, ["train", image_folder, "-o", "s3://b/m"]):
        assert re.search(r"^error: s3://\S+: .*s3fs", run(*command, code=1).stderr)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    for command in (["info", "s3://bucket/m"], out):
        assert "lrrspm[cloud]" in run(*command, code=1).stderr
    monkeypatch.undo()
    for command in (["info", "nothing://b/m"], ["train", image_folder, "-o", "nothing://b/m"]):
        assert run(*command, code=1).stderr.startswith("error: nothing://b/m: ")


class Buckets:
    """A store with one bucket, which holds one folder."""

    def __init__(self, *there):
        self.there = there

    def info(self, path):
        if path == "closed":
            raise PermissionError("403")
        if path not in self.there:
            raise FileNotFoundError(path)
        return {"type": "directory" if path in ("bucket", "bucket/folder") else "file"}


@pytest.mark.parametrize(
    ("path", "error"),
    [("bucket/new", None), ("bucket/a/new", None), ("bucket/old", None), ("closed/new", None),
     ("other/new", "there is no other"), ("bucket", "is not a file name"),
     ("bucket/folder", "is a folder")],
)  # fmt: skip
def test_targets_are_checked_early(path, error, monkeypatch):
    store = Buckets("bucket", "bucket/folder", "bucket/old")
    monkeypatch.setattr(remote, "_filesystem", lambda _: (store, path))
    if error is None:
        check_target(f"s3://{path}")
    else:
        with pytest.raises(OSError, match=error):
            check_target(f"s3://{path}")


def test_an_address_without_a_name():
    with pytest.raises(IsADirectoryError, match="is not a file name"):
        check_target("memory://")
