"""Unreadable images: left out as if they were not there, listed, and too many refused."""

import errno
import json
import os
import shutil

import pytest
from typer.testing import CliRunner

from lrrspm import ImageClassifier, LRREncoder, find_images
from lrrspm._support.stages import Stages
from lrrspm.cli import app
from lrrspm.evaluation import Skipped, evaluate, train_with_estimate
from lrrspm.evaluation.unreadable import RESTART
from lrrspm.images import ImageError, read_pixels
from tests.cache.stores import counts
from tests.conftest import replace_reader

FAST = ["--codebook-size", "8", "--jobs", "2"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def small(**parameters):
    return ImageClassifier(LRREncoder(codebook_size=8), n_samples=500, random_state=0, **parameters)


@pytest.fixture
def folder(image_folder, tmp_path):
    """The made images and a file that is not one, 1 of 37."""
    shutil.copytree(image_folder, tmp_path / "images")
    (tmp_path / "images" / "along" / "05b.png").write_text("not an image")
    return tmp_path / "images"


def add_bad(folder, count):
    for i in range(count):
        (folder / "dots" / f"bad{i}.png").write_text("not an image")


@pytest.mark.parametrize("estimate", [[], ["--no-estimate"]])
def test_model_is_that_of_the_others_alone(folder, image_folder, tmp_path, estimate):
    result = run("train", folder, "-o", tmp_path / "m", *FAST, *estimate, code=3)
    assert "m: 36 images, 3 classes" in result.stdout
    assert "05b.png: not an image of a known format" in result.stderr
    assert "skipped 1 of 37 files" in result.stderr
    run("train", image_folder, "-o", tmp_path / "plain", *FAST, *estimate)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()
    found = json.loads(run("train", folder, "-o", tmp_path / "m", *FAST, "--json", code=3).stdout)
    assert found["images"] == 36
    assert [entry["path"] for entry in found["skipped"]] == [str(folder / "along" / "05b.png")]
    assert "not an image" in found["skipped"][0]["reason"]


def test_a_failure_without_the_skipped_images_names_them(folder):
    (folder / "across" / "00.png").write_text("not an image")
    arguments = ["--train-per-class", 11, "--on-error", "skip", *FAST]
    result = run("evaluate", folder, *arguments, code=1)
    assert "class 'across' has 11 images" in result.stderr
    assert "left out 2 unreadable images" in result.stderr
    assert "05b.png: not an image of a known format" in result.stderr


def test_exactly_the_allowed_share_is_allowed(image_folder, tmp_path):
    """2 of 40 images are exactly 5 %."""
    shutil.copytree(image_folder, tmp_path / "images")
    for name in ("x.png", "y.png"):
        source = tmp_path / "images" / "dots" / "00.png"
        shutil.copy(source, source.with_name(name))
    add_bad(tmp_path / "images", 2)
    arguments = ["train", tmp_path / "images", "-o", tmp_path / "m", "--no-estimate", *FAST]
    run(*arguments, code=3)
    add_bad(tmp_path / "images", 3)
    assert "3 of 41 images cannot be read, more than 5 %" in run(*arguments, code=1).stderr


@pytest.mark.parametrize("command", [["train", "-o", "m"], ["evaluate", "--train-per-class", 3]])
def test_copies_cause_a_warning(image_folder, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(image_folder, "images")
    shutil.copy("images/dots/00.png", "images/along/copy.png")
    shutil.copy("images/dots/01.png", "images/dots/copy.png")
    result = run(command[0], "images", *command[1:], *FAST)
    assert "warning: the same image in several classes (1)" in result.stderr
    assert "warning: copies of other files (1)" in result.stderr


@pytest.mark.parametrize("options", [[], ["--shared-codebook"], ["--method", "all"]])
def test_evaluation_is_that_of_the_others_alone(folder, image_folder, options):
    arguments = ["--train-per-class", 3, "--splits", 2, "--C", 0.001, "--json", *FAST, *options]
    found = json.loads(run("evaluate", folder, *arguments, code=3).stdout)
    expected = json.loads(run("evaluate", image_folder, *arguments).stdout)
    assert len(found.pop("skipped")) == 1
    assert expected.pop("skipped") == []
    for result in (found, expected):
        for part in result.get("methods", {"": result}).values():
            del part["seconds"]
    assert found == expected


def test_a_bad_image_that_no_split_trains_on(image_folder, tmp_path):
    """It is found only when all are encoded; that work starts again."""
    paths, labels = find_images(image_folder)
    (tmp_path / "bad.png").write_text("not an image")
    expected = evaluate(paths, labels, small(C=0.001), 1, 1)
    for place in range(len(paths)):
        some = [*paths[:place], str(tmp_path / "bad.png"), *paths[place:]]
        of_some = [*labels[:place], labels[place], *labels[place:]]
        stages = Stages()
        found = evaluate(some, of_some, small(C=0.001), 1, 1, stages=stages, max_skipped=1)
        assert found.seconds == pytest.approx(stages.seconds)
        assert found.seconds.keys() == {RESTART, *expected.seconds}
        assert found.confusion.tolist() == expected.confusion.tolist()
        assert [one.path for one in found.skipped] == [some[place]]


def test_good_images_are_read_twice_and_no_more(image_folder, reads):
    paths, labels = find_images(image_folder)
    train_with_estimate(paths, labels, small(), max_skipped=1)
    assert len(reads) == 2 * len(paths)


def test_files_that_are_no_images_cost_no_second_pass(folder, reads):
    """They are tried before the others, whatever the others' number."""
    (folder / "dots" / "empty.png").touch()
    whole = (folder / "dots" / "00.png").read_bytes()
    (folder / "dots" / "cut.png").write_bytes(whole[: len(whole) // 2])
    paths, labels = find_images(folder)
    training = train_with_estimate(paths, labels, small(), max_skipped=1)
    assert len(training.skipped) == 3
    assert len(reads) == 3 + 2 * (len(paths) - 3)


def test_no_advice_where_none_helps(tmp_path):
    for name in ("a/0.png", "b/0.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("no image")
    result = run("train", tmp_path, "-o", tmp_path / "m", "--on-error", "skip", *FAST, code=1)
    assert "2 of 2 images cannot be read" in result.stderr
    assert "--on-error" not in result.stderr


def test_too_many(folder, tmp_path):
    add_bad(folder, 1)
    model = tmp_path / "m"
    result = run("train", folder, "-o", model, *FAST, code=1)
    assert "2 of 38 images cannot be read, more than 5 %" in result.stderr
    assert "05b.png: not an image" in result.stderr
    assert "bad0.png: not an image" in result.stderr
    assert "--on-error skip" in result.stderr
    assert not model.exists()
    assert "2 of 38" in run("evaluate", folder, "--train-per-class", 3, *FAST, code=1).stderr
    run("train", folder, "-o", model, *FAST, "--on-error", "skip", code=3)
    add_bad(folder, 9)
    assert "and 5 more" in run("train", folder, "-o", model, *FAST, code=1).stderr


def test_stop_at_the_first(folder, tmp_path, model_path):
    commands = [
        ["train", folder, "-o", tmp_path / "m", *FAST],
        ["evaluate", folder, "--train-per-class", 10, *FAST],
        ["predict", model_path, folder],
        ["score", model_path, folder],
    ]
    for command in commands:
        result = run(*command, "--on-error", "fail", code=1)
        assert result.stderr.startswith("error: ")
        assert "05b.png: not an image of a known format" in result.stderr
        assert result.stdout == ""
    assert not (tmp_path / "m").exists()
    run("predict", model_path, folder, code=3)
    run("score", model_path, folder, code=3)
    run("train", folder, "-o", tmp_path / "m", "--on-error", "sometimes", code=2)


def test_a_class_without_readable_images(folder, image_folder, tmp_path):
    shutil.rmtree(folder / "dots")
    (folder / "dots").mkdir()
    add_bad(folder, 1)
    result = run("train", folder, "-o", tmp_path / "m", *FAST, "--on-error", "skip", code=3)
    assert "warning: left out classes without readable images: dots" in result.stderr
    assert "24 images, 2 classes" in result.stdout


def test_nothing_can_be_read(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    result = run("train", tmp_path, "-o", tmp_path / "m", "--on-error", "skip", code=1)
    assert "2 of 2 images cannot be read: " in result.stderr


@pytest.mark.parametrize(("at", "name"), [(0, "bad.png"), (20, "bad.png"), (36, "missing.png")])
def test_with_a_cache(image_folder, tmp_path, reads, at, name):
    """The second run reads only what cannot be read."""
    paths, labels = find_images(image_folder)
    (tmp_path / "bad.png").write_text("not an image")
    bad = str(tmp_path / name)
    plain = small()
    train_with_estimate(paths, labels, plain)
    plain.save(tmp_path / "plain")
    paths.insert(at, bad)
    labels.insert(at, "dots")
    for _ in range(2):
        del reads[:]
        model = small(cache=tmp_path / "cache")
        train_with_estimate(paths, labels, model, max_skipped=1)
        model.save(tmp_path / "m")
        assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()
        # Of the first try, with the bad image, only the reason is kept.
        kept = {"codebooks": 1, "samples": 0, "vectors": 36}
        known = {"unreadable": 1} if name == "bad.png" else {}
        assert counts(tmp_path / "cache") == {**kept, **known}
    assert reads == [bad]


def test_a_cache_remembers_what_no_split_trains_on(image_folder, tmp_path, reads):
    paths, labels = find_images(image_folder)
    (tmp_path / "bad.png").write_text("not an image")
    some, of_some = [*paths, str(tmp_path / "bad.png")], [*labels, "dots"]
    expected = evaluate(paths, labels, small(C=0.001), 1, 2)
    for _ in range(2):
        del reads[:]
        model = small(C=0.001, cache=tmp_path / "cache")
        found = evaluate(some, of_some, model, 1, 2, max_skipped=1)
        assert found.confusion.tolist() == expected.confusion.tolist()
    assert reads == [some[-1]]
    # No other codebook is started with it either.
    del reads[:]
    evaluate(
        some, of_some, model.set_params(channels__0__encoder__codebook_size=9), 1, 2, max_skipped=1
    )
    assert reads[0] == some[-1]
    assert reads.count(some[-1]) == 1


def test_a_cache_does_not_decide_what_can_be_read(image_folder, tmp_path, monkeypatch):
    """A disk that failed once may work again, on the same bytes."""
    paths, labels = find_images(image_folder)

    def fails(image, *rest, **named):
        if image == paths[7]:
            raise ImageError(image, "cannot be read: the disk is tired")
        return read_pixels(image, *rest, **named)

    with monkeypatch.context() as patch:
        replace_reader(patch, fails)
        model = small(cache=tmp_path / "cache")
        skipped = train_with_estimate(paths, labels, model, max_skipped=1).skipped
        assert skipped == [Skipped(paths[7], "cannot be read: the disk is tired")]
    for name, cache in (("cached", tmp_path / "cache"), ("plain", None)):
        model = small(cache=cache)
        assert train_with_estimate(paths, labels, model, max_skipped=1).skipped == []
        model.save(tmp_path / name)
    assert (tmp_path / "cached").read_bytes() == (tmp_path / "plain").read_bytes()


def test_interrupted_while_it_starts_again(folder, tmp_path, reads, monkeypatch):
    """The next run finds what was sampled without the unreadable image."""
    paths, labels = find_images(folder)
    bad = str(folder / "along" / "05b.png")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LRREncoder, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_with_estimate(paths, labels, small(cache=tmp_path / "c"), max_skipped=1)
    assert counts(tmp_path / "c")["samples"] == 36  # from the second try alone
    del reads[:]
    train_with_estimate(paths, labels, small(cache=tmp_path / "c"), max_skipped=1)
    good = [path for path in paths if path != bad]
    assert reads == [bad, *good]  # once, for the vectors


def test_a_full_disk_causes_one_warning_for_both_tries(folder, tmp_path, monkeypatch):
    def fail(place, name, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    paths, labels = find_images(folder)
    monkeypatch.setattr("lrrspm.cache.places.LocalPlace._write", fail)
    with pytest.warns(UserWarning, match="No space left on device") as caught:
        train_with_estimate(paths, labels, small(cache=tmp_path / "c"), max_skipped=1)
    with pytest.warns(UserWarning, match="No space left on device") as caught_too:
        evaluate(paths, labels, small(cache=tmp_path / "c"), 3, 2, max_skipped=1)
    assert (len(caught), len(caught_too)) == (1, 1)
