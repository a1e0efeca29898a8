"""Does the evidence mean something, and what does it cost?

What it means: made images of two classes that differ in one region alone (a
quarter of the image, the same gratings across or along; a disc elsewhere is
common to all): which share of the absolute evidence lies there, mean and least
of five sets of images; target: 0.9. Large patches see the region from outside it,
so also, without a target: which share of the evidence for a class that changes from
one image of a pair to the other belongs to patches that overlap the region, and
which share of the patches these are. And 100 test images each of Extended Yale B
(30 training images per class) and LS (100): by how much the score of the predicted
class falls when the fifth of the patches with the strongest evidence for it is
covered, over a random fifth; target: 3. Patches are covered in three ways:
"patches" leaves their codes out; "smooth" covers the disjoint squares of 16
pixels with the most evidence by what their surroundings fade into; "gray" paints
those squares in the image's mean gray, whose edges are themselves something to
see.

What it costs: seconds of ``explain`` over those of a prediction, one thread, 100
images of LS, and photographs of 12 and 24 megapixels made from them, whose maps
have as many; target: at most 3.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from lrrspm import Explanation, ImageClassifier, find_images
from lrrspm.evaluation import split_by_class
from lrrspm.evidence import Examination
from lrrspm.methods import BEYOND, METHODS

from ._measure import RESULTS, best_of, data_folder, describe_source, figure, measure, show
from .robustness import make_photographs

HEIGHT, WIDTH = 220, 300
# Off the center and not square, so that a map that is turned or mirrored misses it.
REGION = (slice(40, 160), slice(130, 270))
SETS = 5
SQUARE = 16
COVERED = 0.2
N_IMAGES = 100

SHOWN = (*METHODS, *BEYOND, "balanced", "best")
PARTS = ("strongest", "random")
FALLS = {"LrrSPM": "", "balanced": ", balanced", "best": ", best", "VLAD": ", VLAD"}
"""Methods whose patches are covered, and what their figures are called."""

Floats = NDArray[np.float32]


def run() -> dict[str, Any]:
    """Measure shares, falls of scores and ratios of seconds."""
    figures = []
    for name in SHOWN:
        shares = [region_shares(name, seed) for seed in range(SETS)]
        on_map, of_change, of_patches = np.mean(shares, axis=0).tolist()
        what = f"made images, {name}: share of the evidence where classes differ"
        figures += [
            figure(f"{what}, mean", on_map, ">= 0.9"),
            figure(f"{what}, least", min(share[0] for share in shares)),
            figure(f"made images, {name}: patches that overlap it, of what changes", of_change),
            figure(f"made images, {name}: patches that overlap it, of all", of_patches),
        ]
    cases = [(*case, method) for case in (("YaleB", 30), ("LS", 100)) for method in FALLS]
    for name, train_per_class, method in cases:
        for how, (strongest, random) in measure_falls(name, train_per_class, method).items():
            what = f"{name}{FALLS[method]}, covered ({how})"
            figures += [
                figure(f"{what}: fall of the score, strongest fifth", strongest),
                figure(f"{what}: fall of the score, random fifth", random),
            ]
            if random > 0:
                figures.append(figure(f"{what}: strongest over random", strongest / random, ">= 3"))
    for name in SHOWN:
        figures.append(figure(f"{name}: explanation over prediction, seconds", cost(name), "<= 3"))
    for name, ratio in cost_of_photographs().items():
        what = f"LrrSPM, {name}: explanation over prediction, seconds"
        figures.append(figure(what, ratio, "<= 3"))
    return {"figures": figures, "images": N_IMAGES, "sets": SETS}


def tables() -> str:
    """Return shares, covered patches and costs, a table each."""
    content = json.loads((RESULTS / "evidence.json").read_text())
    found = {one["what"]: one for one in content["result"]["figures"]}

    def row(*cells: str) -> str:
        return f"| {' | '.join(cells)} |"

    def say(what: str) -> str:
        if what not in found:  # of a random fifth that raises the score
            return ""
        missed = " (missed)" if found[what]["met"] is False else ""
        return f"{found[what]['value']:.3g}{missed}"

    lines = [
        row("method", "evidence in the region, mean (target ≥ 0.9)", "least of five sets",
            "change on patches that overlap it", "such patches, of all"),
        row(*["---"] * 5),
    ]  # fmt: skip
    for name in SHOWN:
        share = f"made images, {name}: share of the evidence where classes differ"
        patches = f"made images, {name}: patches that overlap it"
        whats = (f"{share}, mean", f"{share}, least", f"{patches}, of what changes")
        lines.append(row(name, *map(say, (*whats, f"{patches}, of all"))))
    lines += [
        "",
        row("images", "method", "covered", "drop in score, strongest fifth",
            "drop in score, random fifth", "ratio (target ≥ 3)"),
        row(*["---"] * 6),
    ]  # fmt: skip
    for folder in ("YaleB", "LS"):
        for method, called in FALLS.items():
            for how in ("patches", "smooth", "gray"):
                what = f"{folder}{called}, covered ({how})"
                falls = [f"{what}: fall of the score, {part} fifth" for part in PARTS]
                ratio = say(f"{what}: strongest over random")
                lines.append(row(folder, method, how, *map(say, falls), ratio))
    lines += [
        "",
        row("method", "explanation over prediction, seconds (target ≤ 3)"),
        row(*["---"] * 2),
    ]
    for name in (*SHOWN, "LrrSPM, 12 MP", "LrrSPM, 24 MP"):
        lines.append(row(name, say(f"{name}: explanation over prediction, seconds")))
    source = describe_source(content["environment"])
    return "\n".join([*lines, "", f"From `benchmarks/results/evidence.json`: {source}."])


def made_images(n: int, seed: int = 0) -> tuple[list[Floats], NDArray[np.int64]]:
    """Images of two classes in turn: a soft-edged grating across or along, in REGION alone.

    A pair has the same wave, so that nothing but its direction tells them apart.
    """
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    plain = np.where((x - 50) ** 2 + (y - 170) ** 2 < 400, 0.8, 0.5)
    window = np.outer(*(np.hanning(part.stop - part.start) ** 2 for part in REGION))
    images = []
    for _ in range(n // 2):
        slant, frequency, phase = rng.uniform((-0.3, 0.6, 0), (0.3, 1.2, 2 * np.pi))
        for angle in (slant, slant + np.pi / 2):
            along = x[REGION] * np.cos(angle) + y[REGION] * np.sin(angle)
            image = plain.copy()
            image[REGION] += 0.45 * window * np.sin(frequency * along + phase)
            images.append(image.astype(np.float32))
    return images, np.arange(len(images)) % 2


def share_on_region(found: Explanation) -> float:
    """Share of the absolute evidence in REGION."""
    strength = np.abs(found.map)
    return float(strength[REGION].sum() / strength.sum())


def overlaps_region(found: Explanation) -> NDArray[np.bool_]:
    """True for patches that see something of REGION, (n,)."""
    inside = [
        (center + found.size / 2 > part.start) & (center - found.size / 2 < part.stop)
        for center, part in zip((found.y, found.x), REGION, strict=True)
    ]
    return inside[0] & inside[1]


def share_of_change(one: Explanation, other: Explanation) -> float:
    """Share of the patches that overlap REGION in what changes between images of a pair.

    Evidence that both images have for the same class tells nothing about them.
    """
    change = np.abs(one.contributions - other.contributions)
    return float(change[overlaps_region(one)].sum() / change.sum())


def region_shares(method: str, seed: int) -> tuple[float, float, float]:
    """Mean shares of made test images: of the map, of what changes, and of the patches."""
    images, labels = made_images(80, seed)
    model = ImageClassifier(method=method, random_state=0, n_samples=20_000, n_jobs=-1)
    model.fit(images[:60], labels[:60])
    on_map = [share_on_region(model.explain(image)) for image in images[60:]]
    pairs = [[model.explain(image, 0) for image in images[i : i + 2]] for i in range(60, 80, 2)]
    of_change = [share_of_change(*pair) for pair in pairs]
    of_patches = float(overlaps_region(pairs[0][0]).mean())
    return float(np.mean(on_map)), float(np.mean(of_change)), of_patches


def measure_falls(name: str, train_per_class: int, method: str) -> dict[str, tuple[float, float]]:
    """For each way to cover, the mean fall for the strongest and for a random fifth."""
    paths, labels = map(np.array, find_images(data_folder(name)))
    train = split_by_class(labels, train_per_class, seed=0)
    model = ImageClassifier(method=method, random_state=0, n_jobs=-1).fit(
        paths[train].tolist(), labels[train]
    )
    rng = np.random.default_rng(0)
    tested = rng.permutation(np.setdiff1d(np.arange(len(paths)), train))[:N_IMAGES]
    falls: dict[str, list[tuple[float, float]]] = {}
    for path in paths[tested]:
        image = model.features_.read(str(path)).gray
        assert image is not None
        examined = model.examine(image)
        found = examined.explain()
        for how, pair in _falls(model, image, examined, found, rng).items():
            falls.setdefault(how, []).append(pair)
    means = {how: np.mean(pairs, axis=0) for how, pairs in falls.items()}
    return {how: (float(mean[0]), float(mean[1])) for how, mean in means.items()}


def _falls(
    model: ImageClassifier,
    image: Floats,
    examined: Examination,
    found: Explanation,
    rng: np.random.Generator,
) -> dict[str, tuple[float, float]]:
    row = model.classes_.tolist().index(found.label)
    squares = _squares(found.map)

    def without(patches: NDArray[np.int64]) -> float:
        return found.score - _score_without(model, examined, patches)[row]

    def covered(fill: Callable[[Floats, NDArray[np.bool_]], Floats]) -> Any:
        def fall(chosen: NDArray[np.int64]) -> float:
            mask = np.zeros(squares.size, bool)
            mask[chosen] = True
            spread = np.kron(mask.reshape(squares.shape), np.ones((SQUARE, SQUARE), bool))
            full = np.zeros(image.shape, bool)
            full[: spread.shape[0], : spread.shape[1]] = spread
            return float(found.score - model.examine(fill(image, full)).scores[row])

        return fall

    ways: dict[str, tuple[NDArray[Any], Any]] = {
        "patches": (found.contributions, without),
        "smooth": (squares.ravel(), covered(fade)),
        "gray": (squares.ravel(), covered(paint)),
    }
    falls = {}
    for how, (evidence, fall) in ways.items():
        n = round(COVERED * len(evidence))
        strongest, random = np.argsort(-evidence)[:n], rng.permutation(len(evidence))[:n]
        falls[how] = (float(fall(strongest)), float(fall(random)))
    return falls


def _squares(evidence: Floats) -> Floats:
    """Evidence of the disjoint squares that fit into an image."""
    rows, columns = (size // SQUARE for size in evidence.shape)
    part = evidence[: rows * SQUARE, : columns * SQUARE]
    return part.reshape(rows, SQUARE, columns, SQUARE).sum(axis=(1, 3))


def _score_without(
    model: ImageClassifier, examined: Examination, patches: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the scores of an image some of whose patches have a code of zeros."""
    left_out = np.zeros(sum(len(part.codes) for part in examined._parts), bool)
    left_out[patches] = True
    vectors, first = [], 0
    for channel, part in zip(model.features_.channels_, examined._parts, strict=True):
        codes = part.codes.copy()
        codes[left_out[first : first + len(codes)]] = 0
        first += len(codes)
        pooling = channel.pooling_
        state = pooling.start(channel.pyramid, codes.shape[1], part.values.shape[1])
        pooling.add(state, part.values, codes, part.cells)
        vectors.append(pooling.finish(state, channel.pyramid))
    vector = model.features_.weigh(vectors)
    scores: NDArray[np.float64] = model.svm_.decision_function(vector[None])[0]
    return scores


def fade(image: Floats, mask: NDArray[np.bool_]) -> Floats:
    """The masked pixels as a blend of what surrounds them: no edge, nothing to see."""
    nearest = ndimage.distance_transform_edt(mask, return_distances=False, return_indices=True)
    filled = image[tuple(nearest)].copy()
    for _ in range(150):
        filled[mask] = ndimage.uniform_filter(filled, 3, mode="nearest")[mask]
    return filled


def paint(image: Floats, mask: NDArray[np.bool_]) -> Floats:
    """The masked pixels in the image's mean gray."""
    return np.where(mask, image.mean(), image)


def cost(method: str) -> float:
    """Seconds of explanations over those of predictions, one thread."""
    model, paths = _model(method)
    return _ratio(model, paths[:: len(paths) // 100], repeats=3)


def cost_of_photographs() -> dict[str, float]:
    """The same for large JPEGs."""
    model, paths = _model("LrrSPM")
    ratios = {}
    for name, shape in {"12 MP": (3000, 4000), "24 MP": (4000, 6000)}.items():
        with tempfile.TemporaryDirectory() as folder:
            made = make_photographs(paths[::500], Path(folder), shape)
            ratios[name] = _ratio(model, made, repeats=3)
    return ratios


def _model(method: str) -> tuple[ImageClassifier, list[str]]:
    """A model of LS and its images; the speed does not depend on how good the codebook is."""
    paths, labels = map(np.array, find_images(data_folder("LS")))
    train = split_by_class(labels, 100, seed=0)
    model = ImageClassifier(method=method, random_state=0, n_samples=20_000, n_jobs=-1)
    model.fit(paths[train].tolist(), labels[train]).set_params(n_jobs=1)
    return model, paths.tolist()


def _ratio(model: ImageClassifier, paths: list[str], repeats: int) -> float:
    best = best_of(
        repeats,
        {
            "predict": lambda: [model.predict([path]) for path in paths],
            "explain": lambda: [model.explain(path).score for path in paths],
        },
    )
    return best["explain"] / best["predict"]


def main() -> None:
    show("evidence", measure("evidence", run))


if __name__ == "__main__":
    main()
