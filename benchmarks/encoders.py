"""How long do the encoders take, and how do they compare with SPAMS?

Twenty images of LS, descriptors already computed, one thread, k = 256 and 1024:
seconds per image of ``transform`` for VQ, LRR, LLC and SC. Targets: SC at least
as fast as SPAMS's ``lasso`` at the same solution (objectives compared); LLC at
most 6 times LRR at k = 256. Ratios of the paper (LRR 5 to 16 times faster than
LLC, 25 to 50 times faster than SC) and of the authors' programs under Octave
(15 ms LRR, 210 ms LLC, 400 to 900 ms SC per image) are given for comparison.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrrspm import (
    LLCEncoder,
    LRREncoder,
    SparseEncoder,
    VQEncoder,
    dense_sift,
    find_images,
    learn_codebook,
    read_image,
)
from lrrspm._support.parallel import single_blas_thread

from ._measure import best_of, data_folder, figure, measure, show

SIZES = (256, 1024)
IMAGES = 20
ENCODERS = {"VQ": VQEncoder, "LRR": LRREncoder, "LLC": LLCEncoder, "SC": SparseEncoder}
ELSEWHERE = {
    "paper": {"LLC over LRR": [5, 16], "SC over LRR": [25, 50]},
    "authors' programs": {"LLC over LRR": [14, 14], "SC over LRR": [27, 60]},
}


def run() -> dict[str, Any]:
    """Measure milliseconds per image, and their ratios."""
    paths = find_images(data_folder("LS"))[0]
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(paths))[:400]
    described = [dense_sift(read_image(paths[i])).values for i in chosen]
    sample = np.concatenate([values[rng.permutation(len(values))[:150]] for values in described])
    images = described[:IMAGES]
    figures, sizes = [], {}
    for size in SIZES:
        result = _one_size(images, learn_codebook(sample, size, 0, -1))
        sizes[str(size)] = result
        ratios = result["ratios"]
        figures += [
            figure(f"k = {size}: VQ over LRR", ratios["VQ over LRR"]),
            figure(
                f"k = {size}: LLC over LRR (paper 5 to 16)",
                ratios["LLC over LRR"],
                "<= 6" if size == SIZES[0] else None,
            ),
            figure(f"k = {size}: SC over LRR (paper 25 to 50)", ratios["SC over LRR"]),
            figure(f"k = {size}: SPAMS's lasso over SC", ratios["SPAMS over SC"], ">= 1"),
        ]
    return {"figures": figures, "sizes": sizes, "elsewhere": ELSEWHERE}


def _one_size(images: list[NDArray[np.float32]], codebook: NDArray[np.float32]) -> dict[str, Any]:
    encoders = {name: kind(codebook=codebook).fit(images[0]) for name, kind in ENCODERS.items()}

    def encode(encoder: Any) -> None:
        for values in images:
            encoder.transform(values)

    calls: dict[str, Any] = {name: partial(encode, e) for name, e in encoders.items()}
    sparse = encoders["SC"]
    lasso = _lasso(sparse)
    if lasso is not None:
        everything = np.concatenate(images)
        calls["SPAMS"] = lambda: lasso(everything)
    with single_blas_thread():
        best = best_of(5, calls)
    seconds = {name: 1e3 * value / len(images) for name, value in best.items()}
    result: dict[str, Any] = {
        "ms_an_image": seconds,
        "descriptors_an_image": float(np.mean([len(values) for values in images])),
        "ratios": {
            "VQ over LRR": seconds["VQ"] / seconds["LRR"],
            "LLC over LRR": seconds["LLC"] / seconds["LRR"],
            "SC over LRR": seconds["SC"] / seconds["LRR"],
            "SPAMS over SC": seconds["SPAMS"] / seconds["SC"] if lasso is not None else None,
        },
    }
    if lasso is not None:
        ours = _objective(sparse, images[0], sparse.transform(images[0]))
        theirs = _objective(sparse, images[0], lasso(images[0]).toarray().T)
        result["objective"] = {"ours": ours, "SPAMS": theirs, "difference": ours - theirs}
    return result


def _lasso(encoder: Any) -> Any:
    """Return SPAMS's lasso on the encoder's atoms, in float32 like ours, or None without SPAMS."""
    try:
        import spams
    except ImportError:
        return None
    atoms = np.asfortranarray(encoder.codebook_.T, np.float32)

    def lasso(values: NDArray[np.float32]) -> Any:
        return spams.lasso(
            np.asfortranarray(values.T),
            D=atoms,
            lambda1=encoder.sparsity,
            lambda2=2 * encoder.ridge,
            mode=2,
            numThreads=1,
        )

    return lasso


def _objective(encoder: Any, X: NDArray[np.float32], codes: NDArray[Any]) -> float:
    codes = codes.astype(np.float64)
    error = X - codes @ encoder.codebook_.astype(np.float64)
    return float(
        0.5 * (error**2).sum()
        + encoder.sparsity * np.abs(codes).sum()
        + encoder.ridge * (codes**2).sum()
    )


def main() -> None:
    show("encoders", measure("encoders", run))


if __name__ == "__main__":
    main()
