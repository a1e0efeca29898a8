"""How near are the vectors of a GPU's operations to the CPU's, on photographs?

The operations are those of ``device="torch"``: torch computes them on its CPU device, in
plain operations where a GPU has kernels. Models are trained on the CPU; vectors of other
images, drawn at random, are compared in single precision. The same model scores both.

    LRRSPM_DATA=... python -m benchmarks.parity
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from lrrspm import ImageClassifier, SpatialPyramidFeatures, find_images
from lrrspm._support.devices import Accelerator
from lrrspm._support.stages import Stages
from lrrspm.encoders import LRRWeightEncoder
from lrrspm.methods import PRESETS
from lrrspm.pipeline import encode_images, open_engine
from lrrspm.svm import predict_labels

from ._measure import (
    RESULTS,
    MissingError,
    data_folder,
    describe_source,
    figure,
    measure,
    show,
)

TRAINED = {"LS": 20, "YaleB": 10}
"""Images per class to train, by folder."""
TESTED = 400
NEAR = 1e-4
"""Difference of two vectors over the length of the CPU's."""


def run() -> dict[str, Any]:
    """Compare each preset on each folder."""
    try:
        import torch
    except ImportError:
        raise MissingError("torch: install lrrspm[gpu]") from None
    rows = [_compare(folder, method) for folder in TRAINED for method in PRESETS]
    figures = [
        figure(f"{row['method']}, {row['folder']}: {what}", row[key])
        for row in rows
        for what, key in (("share of near vectors", "near"), ("largest difference", "largest"))
    ]
    return {"figures": figures, "rows": rows, "torch": torch.__version__}


def _compare(folder: str, method: str) -> dict[str, Any]:
    paths, labels = find_images(data_folder(folder))
    names = np.array(labels)
    order = np.random.default_rng(0).permutation(len(paths))
    trained = np.zeros(len(paths), bool)
    for name in np.unique(names):
        trained[order[names[order] == name][: TRAINED[folder]]] = True
    tested = np.sort(order[~trained[order]][:TESTED])
    model = ImageClassifier(method=method, random_state=0, n_jobs=-1)
    model.fit([paths[i] for i in np.flatnonzero(trained)], names[trained])
    vectors, predicted = {}, {}
    for device in ("cpu", "torch"):
        with open_engine(-1, None, device) as engine:
            some = [paths[i] for i in tested]
            found = encode_images([model.features_], some, engine, Stages()).matrices[0]
            threads: Any = engine.threads
            held = threads.hold(found) if isinstance(threads, Accelerator) else None
            scores = model.svm_.scores(found if held is None else held, threads)
        vectors[device] = found.astype(np.float64)
        predicted[device] = predict_labels(model.classes_, scores)
    away = np.linalg.norm(vectors["torch"] - vectors["cpu"], axis=1)
    away /= np.linalg.norm(vectors["cpu"], axis=1)
    flipped = flips(model.features_, some)
    far, near = (np.flatnonzero(part) for part in (away >= NEAR, away < NEAR))
    return {
        "folder": folder,
        # Does it tell the two apart?
        "flipped": {"far": [flipped[i] for i in far], "near": [flipped[i] for i in near]},
        "method": method,
        "trained": int(trained.sum()),
        "tested": len(tested),
        "near": float((away < NEAR).mean()),
        "largest": float(away.max()),
        "equal": float((predicted["cpu"] == predicted["torch"]).mean()),
        "accuracy": {
            device: float((found == names[tested]).mean()) for device, found in predicted.items()
        },
    }


def flips(features: SpatialPyramidFeatures, paths: Sequence[str]) -> list[int]:
    """Count weights of LrrFV that are 0 on one device alone, for each image.

    Images are computed in the batches of the run: others have other last bits.
    """
    import torch

    from lrrspm.gpu.batches import Batch, find_members, similar
    from lrrspm.gpu.encoding import DESCRIBE
    from lrrspm.gpu.pooling import weigh

    pixels = [features.read(path) for path in paths]
    counts = [0] * len(paths)
    for channel in features.channels_:
        encoder, projection = channel.encoder_, channel.projection_
        if not isinstance(encoder, LRRWeightEncoder):
            continue
        images = [channel.descriptor.pick(one) for one in pixels]
        components, mean, atoms, offset = map(
            torch.from_numpy,
            (projection.components_, projection.mean_, encoder.projection_, encoder.offset_),
        )
        for rows in similar([image.shape[:2] for image in images]):
            batch = Batch([images[i] for i in rows], "cpu")
            values, kinds = DESCRIBE[type(channel.descriptor)](channel.descriptor, batch)
            members = find_members(batch, kinds, channel.pyramid)
            there = members.take(values @ components - mean @ components)
            there = torch.cat([there, members.places * projection.position], -1)
            kept = (weigh(there @ atoms + offset, encoder) > 0).numpy()
            for i, own, listed in zip(rows, kept, members.rows.numpy(), strict=True):
                found = channel.descriptor.describe(images[i])
                codes = np.empty((len(found.values), encoder.n_atoms), np.float32)
                encoder.encode(channel.project(found), codes)
                cells = channel.pyramid.cells(found.x, found.y, found.width, found.height)
                for cell in range(len(listed)):
                    # Patches of a cell have one order on both sides.
                    counts[i] += int(
                        ((codes[cells == cell] > 0) != own[cell][listed[cell] >= 0]).sum()
                    )
    return counts


def table() -> str:
    """Return what was found, by data set and method."""
    content = json.loads((RESULTS / "parity.json").read_text())
    result = content["result"]
    lines = [
        f"| images | method | within {NEAR:.4f} | largest difference | same predictions | "
        "accuracy, CPU | accuracy, torch |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        rates = (row["near"], row["equal"], *row["accuracy"].values())
        near, equal, *accuracies = (f"{100 * rate:.2f} %" for rate in rates)
        cells = [row["folder"], f"`{row['method']}`", near, f"{row['largest']:.1e}", equal]
        lines.append(f"| {' | '.join([*cells, *accuracies])} |")
    trained = {row["folder"]: row["trained"] for row in result["rows"]}
    tested = max(row["tested"] for row in result["rows"])
    source = describe_source(content["environment"])
    counted = [row["flipped"] for row in result["rows"] if "flipped" in row]  # not in older files
    said = ""
    if counted:
        flipped = {key: [n for one in counted for n in one[key]] for key in ("far", "near")}
        far, others = (f"{np.count_nonzero(some)} of {len(some)}" for some in flipped.values())
        said = (
            f"A weight is 0 on one device alone in {far} vectors that differ by more, and in "
            f"{others} others. "
        )
    return "\n".join(
        [
            *lines,
            "",
            f"{tested} random images each, with models trained on {trained['LS']} other images of "
            f"LS and {trained['YaleB']} of YaleB. {said}Torch {result['torch']}. "
            f"From `benchmarks/results/parity.json`: {source}.",
        ]
    )


if __name__ == "__main__":
    show("parity", measure("parity", run))
