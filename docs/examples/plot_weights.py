"""
Low-rank weights beside posteriors
==================================

LrrFV sums up the descriptors of each atom. Which atoms a descriptor belongs to is told by its
low-rank code, cut off at half of its largest entry; Fisher vectors take the posteriors of a
Gaussian mixture instead. Here both share points of a plane.
"""

# %%
# Points around seven centers, and the two encoders with seven atoms each.
import matplotlib.pyplot as plt
import numpy as np

from lrrspm.encoders import LRRWeightEncoder, MixtureEncoder

rng = np.random.default_rng(0)
angles = np.arange(6) * np.pi / 3
centers = np.vstack([np.zeros((1, 2)), 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)])
points = (centers[rng.integers(0, 7, 3000)] + 0.45 * rng.normal(size=(3000, 2))).astype("f4")
encoders = {
    "low-rank weights": LRRWeightEncoder(7, codebook=centers),
    "posteriors of a mixture": MixtureEncoder(7, random_state=0),
}

# %%
# Each place of the plane, colored by the atoms that share it. Weights fade into each other, while
# posteriors decide: far from the centers, too, one of them takes nearly all.
across = np.linspace(-3.5, 3.5, 141, dtype="f4")
plane = np.stack(np.meshgrid(across, across), axis=2).reshape(-1, 2)
palette = plt.get_cmap("tab10")(np.arange(7))[:, :3]
figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
counts = {}
for axis, (name, encoder) in zip(axes, encoders.items(), strict=False):
    weights = encoder.fit(points).transform(plane)
    axis.imshow((weights @ palette).clip(0, 1).reshape(141, 141, 3), extent=(-3.5, 3.5, 3.5, -3.5))
    axis.scatter(*points[:400].T, s=2, color="black", alpha=0.4)
    axis.set_title(name)
    axis.set(xticks=[], yticks=[])
    codes = encoder.transform(points)
    counts[name] = np.bincount((codes > 0.01).sum(axis=1), minlength=8)[1:6] / len(points)
    print(f"{name}: weights sum to {codes.sum(axis=1).mean():.3f}")
for shift, (name, shares) in zip((-0.2, 0.2), counts.items(), strict=True):
    axes[2].bar(np.arange(1, 6) + shift, shares, width=0.4, label=name)
axes[2].set_xlabel("atoms with more than 1 % of a point")
axes[2].set_ylabel("share of the points")
axes[2].legend(frameon=False)
axes[2].spines[["top", "right"]].set_visible(False)
plt.show()
