"""Changes to a good model, each of which must be refused."""

import numpy as np

from tests.modelfile.models import (
    codebook,
    descriptor,
    encoder,
    name_encoder,
    name_method,
    projection,
    pyramid,
    svm,
)


def _halve(d, a):
    a.update({name: array.astype(np.float16) for name, array in a.items()})


def _replace(name, change):
    """Return a change of one array; ``name`` finds its name in a description."""

    def replace(d, a):
        a[name(d)] = np.ascontiguousarray(change(a[name(d)]))

    return replace


def _coef(d):
    return "svm.coef"


def _set(array, value):
    changed = array.copy()
    changed.flat[0] = value
    return changed


def _long_names(d, a):
    d["classes"] = ["a" * 10**6, *(f"b{i:06}" for i in range(10**5))]


def _digests(n=0, width=16, kind=np.uint8):
    """Return a change that adds digests, ``n`` more than there are images."""

    def change(d, a):
        images = d["summary"]["images"]
        a["training.digests"] = np.zeros((images + n, width), kind)

    return change


def _other_classes(d, a):
    _digests()(d, a)
    counts = d["summary"]["images_per_class"]
    counts["other"] = counts.pop(next(iter(counts)))


def _counts(d, a):
    """Have images per class that do not add up to the number of images."""
    _digests()(d, a)
    counts = d["summary"]["images_per_class"]
    counts[next(iter(counts))] += 1


CHANGES = {
    # The description.
    "newer format": lambda d, a: d.update(format=3),
    "format that is text": lambda d, a: d.update(format=str(d["format"])),
    "the other format": lambda d, a: d.update(format=3 - d["format"]),
    "no parameters": lambda d, a: d.pop("parameters" if d["format"] == 1 else "channels"),
    "no step": lambda d, a: descriptor(d).pop("step"),
    "no encoder": lambda d, a: (d if d["format"] == 1 else d["channels"][0]).pop("encoder"),
    "no number of samples": lambda d, a: (d["parameters"] if d["format"] == 1 else d).pop(
        "n_samples"
    ),
    "encoder named as a path": lambda d, a: name_encoder(d, "/etc/passwd"),
    "encoder named as a function": lambda d, a: name_encoder(d, "os.mkdir"),
    "encoder with a long name": lambda d, a: name_encoder(d, "x" * 10**6),
    "encoder whose name is a list": lambda d, a: name_encoder(d, ["LRREncoder"]),
    "codebook named as a path": lambda d, a: encoder(d)["parameters"].update(codebook="x"),
    "method that is a list": lambda d, a: name_method(d, ["LrrSPM"]),
    "method of another kernel": lambda d, a: name_method(d, "KernelSPM"),
    "giant patch": lambda d, a: descriptor(d).update(patch_size=2**20),
    "giant step": lambda d, a: descriptor(d).update(step=2**64),
    "giant pyramid": lambda d, a: pyramid(d).update(levels=[2**40]),
    "many levels": lambda d, a: pyramid(d).update(levels=[1] * 10**5),
    "a thousand levels": lambda d, a: pyramid(d).update(levels=[1] * 1000),
    "no levels": lambda d, a: pyramid(d).update(levels=[]),
    "levels that are text": lambda d, a: pyramid(d).update(levels="124"),
    "a level that is true": lambda d, a: pyramid(d).update(levels=[True, 2]),
    "half a step": lambda d, a: descriptor(d).update(step=2.5),
    "true as a number": lambda d, a: descriptor(d).update(step=True),
    "superfluous parameter": lambda d, a: descriptor(d).update(hook="os.mkdir"),
    "penalty that is text": lambda d, a: svm(d).update(C="10"),
    "infinite penalty": lambda d, a: svm(d).update(C=10**400),
    # The arrays.
    "no codebook": lambda d, a: a.pop(codebook(d)),
    "one array more": lambda d, a: a.update(extra=np.zeros(3, np.float32)),
    "codebook under both names": lambda d, a: a.update(
        {"codebook": np.zeros((2, 128)), "channels.0.codebook": np.zeros((2, 128))}
    ),
    "array named as a path": lambda d, a: a.update({"../canary": np.zeros(3, np.float32)}),
    "half precision": _halve,
    "whole numbers": _replace(codebook, lambda array: array.astype(np.int32)),
    "not a number": _replace(projection, lambda array: _set(array, np.nan)),
    "infinite": _replace(_coef, lambda array: _set(array, np.inf)),
    "no atoms": _replace(codebook, lambda array: array[:0]),
    "one atom less": _replace(codebook, lambda array: array[:-1]),
    "short atoms": _replace(codebook, lambda array: array[:, :64]),
    "one column less": _replace(_coef, lambda array: array[:, :-1]),
    # Classes and summary.
    "fewer classes": lambda d, a: d.update(classes=d["classes"][:2]),
    "very long class name": _long_names,
    "classes that are objects": lambda d, a: d.update(classes=[10**30, 10**31, 10**32]),
    "summary that is a list": lambda d, a: d.update(summary=[1, 2]),
    "no library": lambda d, a: d.pop("library"),
    "library that is a novel": lambda d, a: d.update(library="0" * 10**5),
    "one digest less": _digests(-1),
    "one digest more": _digests(1),
    "digests of 32 bytes": _digests(width=32),
    "digests that are signed": _digests(kind=np.int8),
    "digests that are not whole": _digests(kind=np.float32),
    "digests of images of other classes": _other_classes,
    "digests of other numbers of images": _counts,
    "digests of no images": lambda d, a: a.update(
        {"training.digests": np.zeros((0, 16), np.uint8)}
    ),
    "negative count": lambda d, a: d["summary"].update(images=-5),
    "counts that are not numbers": lambda d, a: d["summary"].update(images="many"),
    "estimate that is true": lambda d, a: d["summary"].update(
        held_out={"accuracy": True, "images": 3}
    ),
    "estimate that is not a percentage": lambda d, a: d["summary"].update(
        held_out={"accuracy": 1e300, "images": 3}
    ),
}
"""For models of one channel, in either format."""


def _channel(**changes):
    return lambda d, a: d["channels"][0].update(changes)


def _part(role, **changes):
    return lambda d, a: d["channels"][0][role].update(changes)


def _drop_channel(d, a):
    """Leave out a channel, but not its columns in the SVM."""
    del d["channels"][1]
    for name in [name for name in a if name.startswith("channels.1.")]:
        del a[name]


def _overflow(d, a):
    for channel in d["channels"]:
        channel["weight"] = 1e308


CHANNELS = {
    "no channels": lambda d, a: d.update(channels=[]),
    "65 channels": lambda d, a: d.update(channels=d["channels"][:1] * 65),
    "channels that are not a list": lambda d, a: d.update(channels={"0": d["channels"][0]}),
    "a channel that is a list": lambda d, a: d.update(channels=[list(d["channels"][0])] * 2),
    "a channel that is null": lambda d, a: d.update(channels=[None, d["channels"][1]]),
    "one channel less": _drop_channel,
    "one channel more": lambda d, a: d["channels"].append(d["channels"][0]),
    "channels in another order": lambda d, a: d["channels"].reverse(),
    "one key more": _channel(hook="os.mkdir"),
    "one key less": lambda d, a: d["channels"][0].pop("weight"),
    "a thousand levels": _channel(levels=[1] * 1000),
    "levels that are not a list": _channel(levels=1),
    "level that is text": _channel(levels=["1"]),
    "more levels than the SVM has columns for": _channel(levels=[1, 2]),
    "weight that is NaN": _channel(weight=float("nan")),
    "infinite weight": _channel(weight=10**400),
    "weight of 0": _channel(weight=0),
    "negative weight": _channel(weight=-1.0),
    "weight that is true": _channel(weight=True),
    "weight that is text": _channel(weight="1"),
    "weights whose sum overflows": _overflow,
    "more weights than levels": _channel(weight=[1.0] * 4),
    "no weight": _channel(weight=[]),
    "weight of a level that is 0": _channel(weight=[1.0, 0.0, 1.0]),
    "weight of a level that is text": _channel(weight=[1.0, "1", 1.0]),
    "unknown descriptor": _part("descriptor", name="Evil"),
    "unknown encoder": _part("encoder", name="Evil"),
    "unknown pooling": _part("pooling", name="Evil"),
    "descriptor of another package": _part("descriptor", name="LBP", package="their-package"),
    "encoder of another package": _part("encoder", name="Theirs", package="their-package"),
    "pooling of another package": _part("pooling", name="Theirs", package="their-package"),
    "our part of another package": _part("pooling", package="their-package"),
    "package with a long name": _part("pooling", name="Theirs", package="x" * 10**6),
    "package that is a list": _part("pooling", name="Theirs", package=["their-package"]),
    "encoder as a descriptor": _part("descriptor", name="LRREncoder"),
    "part named as a module": _part("pooling", name="lrrspm.pooling.maxima"),
    "a part that is text": lambda d, a: d["channels"][0].update(pooling="MaxPooling"),
    "a part with one key more": _part("pooling", hook="os.mkdir"),
    "a part without parameters": lambda d, a: d["channels"][0]["pooling"].pop("parameters"),
    "unknown norm": _part("pooling", parameters={"norm": "l3"}),
    "unknown SVM": lambda d, a: d["svm"].update(name="Evil"),
    "SVM of another kind": lambda d, a: d["svm"].update(
        name="KernelSVM", parameters={"C": 1.0, "kernel": "intersection"}
    ),
    "unknown loss": lambda d, a: svm(d).update(loss="hinge"),
    "loss that is a list": lambda d, a: svm(d).update(loss=["squared"]),
    "loss that is null": lambda d, a: svm(d).update(loss=None),
    "loss with a long name": lambda d, a: svm(d).update(loss="squared" * 10**5),
    "loss of a kernel": lambda d, a: d["svm"].update(
        name="KernelSVM", parameters={"C": 1.0, "kernel": "intersection", "loss": "squared"}
    ),
    "no SVM": lambda d, a: d.pop("svm"),
    "codebook of another number of atoms": lambda d, a: a.update(
        {"channels.0.codebook": a["channels.1.codebook"].copy()}
    ),
    "arrays of the other channel": lambda d, a: a.update(
        {"channels.1.codebook": a["channels.0.codebook"].copy()}
    ),
    "totals of another length": lambda d, a: a.update(
        {"channels.0.total": a["channels.0.total"][:-1].copy()}
    ),
}
"""For a model of two channels: LRR with 4 atoms in one cell, LLC with 5 atoms in five cells."""
