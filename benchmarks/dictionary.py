"""Is our dictionary learning as good as scikit-learn's, and as fast?

20 000 real descriptors, 256 atoms, sparsity 0.15, one thread. Ours is
``learn_dictionary``, scikit-learn's ``MiniBatchDictionaryLearning`` for one
pass over the same descriptors, both starting from the same k-means centers. What
counts is the objective that exact codes reach on 5000 other descriptors, compared
with k-means atoms of unit norm. No target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import MiniBatchDictionaryLearning
from threadpoolctl import threadpool_limits

from lrrspm import SparseEncoder, dense_sift, find_images, learn_codebook, read_image
from lrrspm.encoders.dictionary import learn_dictionary

from ._measure import data_folder, figure, measure, seconds, show

TRAIN, TEST, SIZE, SPARSITY = 20_000, 5_000, 256, 0.15


def run() -> dict[str, Any]:
    """Measure objectives and seconds."""
    paths = find_images(data_folder("LS"))[0]
    rng = np.random.default_rng(0)
    parts = []
    for i in rng.permutation(len(paths))[:500]:
        values = dense_sift(read_image(paths[i])).values
        parts.append(values[rng.permutation(len(values))[:50]])
    sample = rng.permutation(np.concatenate(parts))
    train, test = sample[:TRAIN], sample[TRAIN : TRAIN + TEST]
    start = learn_codebook(train, SIZE, 0)
    start = start / np.linalg.norm(start, axis=1, keepdims=True)
    peer = MiniBatchDictionaryLearning(
        SIZE,
        alpha=SPARSITY,
        max_iter=1,
        batch_size=512,
        fit_algorithm="lars",
        dict_init=start,
        random_state=0,
    )
    found: dict[str, NDArray[Any]] = {"k-means": start}
    spent = {}
    with threadpool_limits(1):
        learn_dictionary(train[:1000], 8, random_state=0)  # compile
        spent["lrrspm"] = seconds(
            lambda: found.update(ours=learn_dictionary(train, SIZE, SPARSITY, random_state=0))
        )
        spent["scikit-learn"] = seconds(lambda: found.update(peer=peer.fit(train).components_))
    costs = {name: _cost(atoms, test) for name, atoms in found.items()}
    return {
        "figures": [
            figure("dictionary: our objective over scikit-learn's", costs["ours"] / costs["peer"]),
            figure("dictionary: our objective over k-means's", costs["ours"] / costs["k-means"]),
            figure(
                "dictionary: scikit-learn seconds over ours",
                spent["scikit-learn"] / spent["lrrspm"],
            ),
        ],
        "objective_a_descriptor": costs,
        "seconds": spent,
    }


def _cost(atoms: NDArray[Any], X: NDArray[np.float32]) -> float:
    encoder = SparseEncoder(codebook=atoms, sparsity=SPARSITY).fit(X)
    codes = encoder.transform(X).astype(np.float64)
    error = X - codes @ encoder.codebook_
    return float((0.5 * (error**2).sum() + SPARSITY * np.abs(codes).sum()) / len(X))


def main() -> None:
    show("dictionary", measure("dictionary", run))


if __name__ == "__main__":
    main()
