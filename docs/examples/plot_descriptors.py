"""
Dense SIFT: a patch in 128 numbers
==================================

A patch is divided into 4 x 4 bins, and in each bin gradients are summed in 8 directions. Lighting
and contrast hardly matter, since the numbers are divided by their length.
"""

# %%
# Patches of 16 x 16 pixels, 6 pixels apart.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from sklearn.datasets import load_sample_image

from lrrspm import SIFT
from lrrspm.images import read_pixels

image = read_pixels(load_sample_image("china.jpg"), max_side=300).gray
sift = SIFT(step=6, patch_size=16)
patches = sift.describe(image)
print(f"{len(patches.values)} patches of {sift.n_values} values")

# %%
# A corner of the roof, windows below it, and the sky. Each patch has 16 bins; the strokes in a bin
# are its eight directions.
chosen = [int(np.argmin(np.hypot(patches.x - x, patches.y - y))) for x, y in [(150, 75), (60, 140)]]
chosen.append(int(np.argmin(patches.values.sum(axis=1))))
colors = ("#1f6fb4", "#d1620a", "#3f8f3f")
figure, axes = plt.subplots(
    1, 4, figsize=(11, 2.9), width_ratios=[1.6, 1, 1, 1], layout="constrained"
)
axes[0].imshow(image, cmap="gray", vmin=0, vmax=1)
axes[0].set_axis_off()
axes[0].set_title("three patches")
angles = np.arange(8) * np.pi / 4
for axis, patch, color in zip(axes[1:], chosen, colors, strict=True):
    corner = patches.x[patch] - 8, patches.y[patch] - 8
    axes[0].add_patch(Rectangle(corner, 16, 16, fill=False, color=color, lw=2))
    bins = patches.values[patch].reshape(4, 4, 8)  # x bin, y bin, direction
    for (x, y), strengths in zip(np.ndindex(4, 4), bins.reshape(16, 8), strict=True):
        ends = np.stack([np.cos(angles), np.sin(angles)]) * strengths * 1.8
        for dx, dy in ends.T:
            axis.plot([x, x + dx], [y, y + dy], color=color, lw=1.5)
    axis.set(xlim=(-0.6, 3.6), ylim=(3.6, -0.6), aspect="equal", xticks=[], yticks=[])
    axis.set_title(f"sum of values {patches.values[patch].sum():.1f}")
plt.show()

# %%
# At half the contrast, most patches of length 1 stay as they are. Those that were just strong
# enough to be scaled to length 1 no longer are, and become shorter, as flat ones are.
dimmed = sift.describe(image / 2).values
strong = np.linalg.norm(patches.values, axis=1) > 0.99
change = np.linalg.norm(dimmed - patches.values, axis=1)[strong]
print(f"{strong.mean():.0%} of the patches have length 1")
print(f"of these, {np.mean(change < 0.001):.0%} stay the same at half the contrast")
