"""What the loader refuses is refused before training, and what is saved loads."""

import json
import struct

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from lrrspm import SIFT, Channel, ImageClassifier, LRREncoder, load_model
from lrrspm.modelfile import ModelFileError


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    return [rng.random((40, 40)) for _ in range(6)]


def classifier(**parameters):
    channel = Channel(
        LRREncoder(codebook_size=8, normalize_codes=parameters.pop("normalize_codes", False)),
        SIFT(step=parameters.pop("step", 6)),
        levels=parameters.pop("levels", (1, 2)),
    )
    return ImageClassifier(channels=[channel], **parameters)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_samples": 10**12},
        {"max_side": 250.5},
        {"min_side": 0},
        {"min_side": 250.5},
        {"normalize_codes": 1},
        {"random_state": True},
        {"step": 4294967297},
        {"levels": (1,) * 65},
        {"C": float("inf")},
    ],
)
def test_parameters_that_would_not_load_are_refused_before_training(
    parameters, arrays, monkeypatch
):
    def fail(*_, **__):
        raise AssertionError("the work has begun")

    monkeypatch.setattr("lrrspm.training.fit_features", fail)
    with pytest.raises(ValueError, match=next(iter(parameters))):
        classifier(**parameters).fit(arrays, [0, 1] * 3)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1, 2**63], np.uint64),
        np.array([2**63, 2**64 - 1], np.uint64),
        np.array([1, 2], np.uint8),
        np.array([-1, 2**62]),
        np.array([False, True]),
        np.array([1, 3], np.float32),
        np.array(["a", "\u044f"]),
    ],
)
def test_labels_come_back_as_they_were(labels, arrays, tmp_path):
    path = tmp_path / "a.lrrspm"
    classifier(max_side=250.0).fit(arrays, np.tile(labels, 3)).save(path)
    found = load_model(path).classes_
    assert found.tolist() == labels.tolist()
    assert found.dtype.kind in {"u": "iu", "i": "i"}.get(labels.dtype.kind, labels.dtype.kind)


def test_labels_that_a_file_cannot_hold_are_refused_before_training(arrays):
    dates = np.tile(np.array(["2020-01-01", "2021-01-01"], "M8[D]"), 3)
    with pytest.raises(ValueError, match="labels cannot be saved"):
        classifier().fit(arrays, dates)


def test_classifiers_that_no_file_can_hold_still_train(arrays):
    """Parts of one's own can be used without being registered."""

    class OwnEncoder(LRREncoder):
        pass

    model = ImageClassifier(OwnEncoder(codebook_size=8)).fit(arrays, [0, 1] * 3)
    assert len(model.predict(arrays)) == 6


@pytest.fixture(scope="module")
def good(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "good.lrrspm"
    classifier(random_state=0).fit(arrays, [0, 1] * 3).save(path)
    return path


def rewrite(good, path, change, **more):
    with safe_open(good, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        description = json.loads(file.metadata()["lrrspm"])
    change(description)
    save_file({**arrays, **more}, path, {"lrrspm": json.dumps(description)})
    return path


def estimate(description, **more):
    description["summary"].update(estimate={"accuracy": 1, "images": 1, **more})


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["summary"].update(held_out={"accuracy": 1, "images": 1, "rough": True}),
        lambda d: d["summary"].update(held_out={"accuracy": 1}),
        lambda d: d["summary"].update(held_out={"accuracy": "1", "images": 1}),
        lambda d: estimate(d, per_class=[1]),
        lambda d: estimate(d, per_class={"a": "1"}),
        lambda d: estimate(d, per_class={"a": 1}, precision_per_class={"a": 1}, f1=1),
        lambda d: estimate(d, per_class={"a": 1}, precision_per_class={}, f1=1, precision=1),
        lambda d: estimate(d, precision_per_class=[]),
        lambda d: estimate(d, precision=101),
        lambda d: estimate(d, coverage=[{"confidence": 1}]),
        lambda d: estimate(d, coverage=[{"confidence": 1, "answered": 1, "right": "all"}]),
        lambda d: estimate(d, coverage=[None] * 10**5),
        lambda d: estimate(d, coverage="all"),
        lambda d: estimate(d, low=-1),
        lambda d: estimate(d, high="100"),
        lambda d: estimate(d, folds=1.5),
        lambda d: estimate(d, more=1),
        lambda d: d.update(temperature=0),
        lambda d: d.update(temperature="1"),
        lambda d: d.update(temperature=True),
        lambda d: d.update(familiar=-1),
        lambda d: d.update(familiar=[1]),
        lambda d: d.update(class_weight="fair"),
        lambda d: d.update(class_weight=[["a"]]),
        lambda d: d.update(class_weight=[["a", -1]]),
        lambda d: d.update(class_weight=[[["a"], 1]]),
        lambda d: d.update(class_weight={"a": 1}),
        lambda d: d["summary"].update(more=1),
        lambda d: d["summary"].update(images=10**30),
        lambda d: d.update(summary=[]),
        lambda d: d["channels"][0].update(levels=[1] * 300_000),
    ],
)
def test_a_hostile_description_is_refused(change, good, tmp_path):
    with pytest.raises(ModelFileError):
        load_model(rewrite(good, tmp_path / "a.lrrspm", change))


@pytest.mark.parametrize("key", ["held_out", "estimate"])
def test_older_estimates_are_read(key, good, tmp_path):
    def change(description):
        description["summary"][key] = {"accuracy": 75.5, "images": 40}
        for new in ("temperature", "familiar", "class_weight"):
            del description[new]

    model = load_model(rewrite(good, tmp_path / "a.lrrspm", change))
    assert model.summary_["estimate"] == {"accuracy": 75.5, "images": 40}
    assert (model.temperature_, model.familiar_, model.class_weight) == (None, None, None)


@pytest.mark.parametrize("weight", ["balanced", {0: 2.0, 1: 0.5}])
def test_calibration_and_weights_are_kept(weight, arrays, tmp_path):
    model = classifier(random_state=0).set_params(class_weight=weight).fit(arrays, [0, 1] * 3)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert (loaded.temperature_, loaded.familiar_) == (model.temperature_, model.familiar_)
    assert loaded.class_weight == weight
    np.testing.assert_array_equal(loaded.predict_proba(arrays), model.predict_proba(arrays))


def test_what_a_file_may_not_say_is_not_written(arrays, tmp_path):
    model = classifier().fit(arrays, [0, 1] * 3)
    model.summary_["note"] = "mine"
    with pytest.raises(ValueError, match="summary"):
        model.save(tmp_path / "a.lrrspm")


def test_very_many_arrays_are_refused_before_one_is_looked_up(good, tmp_path):
    many = {f"x{i}": np.zeros(0, np.float32) for i in range(1100)}
    path = rewrite(good, tmp_path / "a.lrrspm", lambda d: None, **many)
    with pytest.raises(ModelFileError, match="arrays, at most 1024"):
        load_model(path)


def test_a_damaged_model_is_not_called_a_pickle(tmp_path):
    """A header of 128 bytes begins as a pickle does."""
    path = tmp_path / "a.lrrspm"
    path.write_bytes(struct.pack("<Q", 128) + b'{"x":' + bytes(300))
    with pytest.raises(ModelFileError, match="truncated or damaged"):
        load_model(path)
    path.write_bytes(b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x02hi\x94.")
    with pytest.raises(ModelFileError, match="looks like a pickle"):
        load_model(path)


def test_a_table_is_no_model(tmp_path):
    """The bytes of its first letters are not the length of a header."""
    path = tmp_path / "table.csv"
    path.write_text("path,label\na.png,b\n")
    with pytest.raises(ModelFileError) as refused:
        load_model(path)
    assert str(refused.value) == f"{path}: a text file, not an lrrspm model"
