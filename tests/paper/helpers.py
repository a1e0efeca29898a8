"""Small settings, and the command."""

from typer.testing import CliRunner

from lrrspm.cli import app
from lrrspm.paper.settings import Setting

BICUBIC, ENLARGED = "resized to 300 by Pillow's bicubic", "enlarged to 300"
SECONDS = dict.fromkeys(("read", "sift", "codebook", "encode", "train", "test"), 1.0)


VIEWS = 12


SMALL = {"codebook_size": 16, "n_samples": 2000}


def small(split=0, **changes):
    return Setting("COIL20", 5, split, **{**SMALL, **changes})


def row_of(results, setting):
    found = results.row(setting)
    assert found is not None
    return found


def invoke(*arguments, root, folder, **options):
    where = ["--data-dir", str(root), "--results", str(folder)]
    return CliRunner().invoke(app, ["paper", *arguments, *where], **options)
