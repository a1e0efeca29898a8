"""
What lambda and the threshold do
================================

A low-rank code is a ridge solution: lambda trades how well the code reconstructs the patch against
how small it is. The threshold then removes entries below the mean.
"""

# %%
# Codes of the patches of a photograph over 256 atoms, at several values of lambda.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from lrrspm import LRREncoder, dense_sift, learn_codebook
from lrrspm.images import read_pixels

image = read_pixels(load_sample_image("china.jpg"), max_side=300).gray
values = dense_sift(image).values
values = values[np.linalg.norm(values, axis=1) > 0.99]  # those of length 1
codebook = learn_codebook(values, 256, random_state=0)
lambdas = np.geomspace(1e-3, 1e2, 11)


def encode(regularization, threshold=0.0):
    """Return the codes of all patches."""
    encoder = LRREncoder(regularization=regularization, threshold=threshold, codebook=codebook)
    return encoder.fit_transform(values)


# %%
# Small values of lambda reconstruct best, with large entries of both signs that cancel; large ones
# leave plain similarities to all atoms. The paper's 0.7 is in between.
figure, axes = plt.subplots(1, 4, figsize=(12, 2.9), layout="constrained")
for axis, chosen in zip(axes, (1e-3, 0.7, 100.0), strict=False):
    code, kept = encode(chosen)[100], encode(chosen, threshold=0.98)[100]
    order = np.argsort(-code)
    axis.fill_between(range(256), code[order], color="#c9ccce", label="cut off")
    axis.fill_between(range(256), kept[order], color="#1f6fb4", label="kept")
    axis.set_title(f"lambda = {chosen:g}")
    axis.set_xlabel("atoms, sorted")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False)

codes = [encode(chosen) for chosen in lambdas]
errors = [np.linalg.norm(values - code @ codebook, axis=1).mean() for code in codes]
sizes = [np.linalg.norm(code, axis=1).mean() for code in codes]
axes[3].loglog(lambdas, errors, "o-", color="#d1620a", label="error")
axes[3].loglog(lambdas, sizes, "s-", color="#1f6fb4", label="size of the code")
axes[3].axvline(0.7, color="#8a8a8a", ls="--", lw=1)
axes[3].set_xlabel("lambda")
axes[3].legend(frameon=False)
axes[3].spines[["top", "right"]].set_visible(False)
plt.show()
