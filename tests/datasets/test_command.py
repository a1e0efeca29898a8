"""The command ``lrrspm datasets``."""

import json
import os
import re
import shutil

from lrrspm.datasets import (
    DATASETS,
)
from tests.cli.test_cli import run


def test_command_lists(root):
    text = run("datasets", "--data-dir", root).stdout
    rows = {line.split()[0]: line for line in text.splitlines()[1:10]}
    assert list(rows) == list(DATASETS)
    assert rows["OT"].split()[1:4] == ["7", "2", "1"]
    assert "Oliva 2001" in rows["OT"]
    assert all("  complete" in row for row in rows.values())
    assert f"data root: {root}" in text
    found = json.loads(run("datasets", "--data-dir", root, "--json").stdout)
    assert found["data_root"] == str(root)
    assert found["datasets"]["YaleB"]["complete"] is True
    assert found["datasets"]["YaleB"]["citation"] == DATASETS["YaleB"].citation
    shutil.rmtree(root / "LS" / "bedroom")
    shutil.rmtree(root / "COIL20")
    text = run("datasets", "list", "--data-dir", root).stdout
    assert "incomplete: 10 images, 4 classes" in text
    assert re.search("COIL20 .* not found", text)


def test_command_info(root):
    text = run("datasets", "info", "ls", "--data-dir", root).stdout
    assert DATASETS["LS"].citation in text
    assert "md5:58828019197b2ad0a7efb472e7a85c2a" in text
    found = json.loads(run("datasets", "--json", "--data-dir", root, "info", "YaleB").stdout)
    assert found["checksum"] is None
    assert found["folder"] == str(root / "YaleB")


def test_command_verify(root):
    text = run("datasets", "verify", "LS", "--data-dir", root).stdout
    assert "complete, and every class equals the published one" in text
    text = run("datasets", "verify", "Caltech256", "--data-dir", root).stdout
    assert "the counts are right; no digests are known" in text
    os.remove(root / "LS" / "bedroom" / "image_0002.jpg")
    shutil.copy(root / "LS" / "bedroom" / "image_0001.jpg", root / "LS" / "stray.jpg")
    result = run("datasets", "verify", "LS", "--data-dir", root, code=1)
    assert "bedroom has 4 images instead of 5; missing image_0002.jpg" in result.stdout
    assert "1 image outside the classes, ignored:\n  stray.jpg" in result.stdout
    assert result.stdout.endswith("not the published set\n")
    found = json.loads(run("datasets", "verify", "LS", "--data-dir", root, "--json", code=1).stdout)
    assert found["equal"] is False
    assert found["classes"][3] == {
        "label": "bedroom", "images": 4, "published": 5, "state": "too few",
        "missing": ["image_0002.jpg"], "extra": [],
    }  # fmt: skip
    assert "no data set 'x'" in run("datasets", "verify", "x", code=1).stderr


def test_command_add_and_fetch(root, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(root / "LS" / "bedroom", own / "00")
    added = run("datasets", "add", "LS", own, "--data-dir", root)
    assert "00 is bedroom" in added.stdout
    assert "warning" not in added.stdout
    assert "warning: no images of CALsuburb, MITcoast, MITforest, industrial" in added.stderr
    found = json.loads(run("datasets", "add", "LS", own, "--data-dir", root, "--json").stdout)
    assert found["renamed"] == {"00": "bedroom"}
    assert found["complete"] is False
    text = run("datasets", "fetch", "FP", "--data-dir", root).stdout
    assert f"{root / 'LS'}: already there\nFP: complete" in text
    found = json.loads(run("datasets", "fetch", "LS", "--data-dir", root, "--json").stdout)
    assert found == {"name": "LS", "folder": str(root / "LS"), "fetched": False, "images": 15}
    os.remove(root / "LS" / "bedroom" / "image_0002.jpg")
    text = run("datasets", "fetch", "LS", "--data-dir", root).stdout
    assert f"to fetch it again, delete {root / 'LS'} first" in text
