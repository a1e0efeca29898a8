"""
Codes of one patch by four encoders
===================================

Encoders differ in how many atoms contribute to a code: one (vector quantization), the five nearest
(LLC), as few as explain the patch well (sparse coding), or all that resemble it (low-rank
representation).
"""

# %%
# All use the same codebook of 64 atoms, learned from the patches of a photograph.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from lrrspm import (
    LLCEncoder,
    LRREncoder,
    SparseEncoder,
    VQEncoder,
    dense_sift,
    learn_codebook,
)
from lrrspm.images import read_pixels

image = read_pixels(load_sample_image("china.jpg"), max_side=300).gray
patches = dense_sift(image)
codebook = learn_codebook(patches.values, 64, random_state=0)
encoders = {
    "VQ": VQEncoder(codebook=codebook),
    "LLC": LLCEncoder(codebook=codebook),
    "sparse coding": SparseEncoder(codebook=codebook),
    "LRR": LRREncoder(codebook=codebook),
}
codes = {name: encoder.fit_transform(patches.values) for name, encoder in encoders.items()}

# %%
# A patch at the edge of a roof.
chosen = int(np.argmin(np.hypot(patches.x - 150, patches.y - 75)))
figure, axes = plt.subplots(2, 2, figsize=(10, 4.2), sharex=True, layout="constrained")
for axis, (name, values) in zip(axes.ravel(), codes.items(), strict=True):
    used = np.count_nonzero(values, axis=1).mean()
    axis.bar(range(64), values[chosen], color="#1f6fb4")
    axis.set_title(f"{name}: {used:.1f} atoms per code on average")
    axis.axhline(0, color="#8a8a8a", lw=0.8)
    axis.spines[["top", "right"]].set_visible(False)
for axis in axes[1]:
    axis.set_xlabel("atom")
plt.show()

# %%
# How much does the code change between neighboring patches, 6 pixels apart? Codes of length 1 that
# have nothing in common are 1.41 apart. Low-rank codes, which are linear except for the threshold,
# change least.
columns = len(np.unique(patches.x))
for name, values in codes.items():
    unit = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9)
    steps = np.linalg.norm(np.diff(unit.reshape(-1, columns, 64), axis=1), axis=2)
    print(f"{name:14} {steps.mean():.2f}")
