"""
Low-rank weights and posteriors
===============================

LrrFV sums the descriptors of each atom. Which atoms a descriptor belongs to is decided by its
low-rank code, cut off at half of its largest entry; Fisher vectors use the posteriors of a
Gaussian mixture instead.
"""

# %%
# Patches of a photograph, described by RootSIFT and projected to 30 principal components.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from lrrspm.descriptors import Projection, RootSIFT, places
from lrrspm.encoders import LRRWeightEncoder, MixtureEncoder
from lrrspm.images import read_pixels

image = read_pixels(load_sample_image("china.jpg"), max_side=300).gray
patches = RootSIFT((32,), (4,)).describe(image)
values = Projection(30).fit(patches.values).transform(patches.values, places(patches))
print(f"{len(values)} patches of {values.shape[1]} values, the last two their places")

# %%
# Both encoders have ten atoms. The weights of a patch sum to 1.
encoders = {
    "low-rank weights": LRRWeightEncoder(10, random_state=0),
    "posteriors of a mixture": MixtureEncoder(10, random_state=0),
}
weights = {name: encoder.fit_transform(values) for name, encoder in encoders.items()}

# %%
# Each atom has a color, and each patch a mixture of its atoms' colors. Posteriors of a mixture
# nearly always pick one atom; low-rank weights let a few neighboring atoms share a patch.
palette = plt.get_cmap("tab10")(np.arange(10))[:, :3]
shape = len(np.unique(patches.y)), len(np.unique(patches.x)), 3
figure, axes = plt.subplots(2, 2, figsize=(9, 5.6), layout="constrained")
axes[0, 0].imshow(image, cmap="gray", vmin=0, vmax=1)
axes[0, 0].set_title("patches of this photograph")
for axis, (name, codes) in zip((axes[0, 1], axes[1, 0]), weights.items(), strict=True):
    axis.imshow((codes @ palette).clip(0, 1).reshape(shape))
    axis.set_title(name)
for axis in axes.ravel()[:3]:
    axis.set_axis_off()
for shift, (name, codes) in zip((-0.2, 0.2), weights.items(), strict=True):
    shares = np.bincount((codes > 0.01).sum(axis=1), minlength=7)[1:7] / len(codes)
    axes[1, 1].bar(np.arange(1, 7) + shift, shares, width=0.4, label=name)
axes[1, 1].set_xlabel("atoms with more than 1 % of a patch")
axes[1, 1].set_ylabel("share of the patches")
axes[1, 1].legend(frameon=False)
axes[1, 1].spines[["top", "right"]].set_visible(False)
plt.show()
