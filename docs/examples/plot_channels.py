"""
Two channels: shapes and colors
===============================

A channel is one way from pixels to a vector. With two channels, an image has both vectors, and the
products of images, which the support vector machine works on, are weighted means of both.
"""

# %%
# Drawings of four classes: washers and disks, each in two colors. One channel distinguishes shapes,
# by gradients, the other colors; only both together distinguish all four classes.
import matplotlib.pyplot as plt
import numpy as np

from lrrspm import Channel, LRREncoder, SpatialPyramidFeatures
from lrrspm.descriptors import LocalColor
from lrrspm.svm import class_alignment

rng = np.random.default_rng(0)


def draw(hole, color):
    """Draw a disk of a color on a gray table, with or without a hole."""
    y, x = np.mgrid[:96, :96] - 48 + rng.uniform(-8, 8, (2, 1, 1))
    radius = np.hypot(x, y)
    solid = (radius < 36) & ~(hole & (radius < 18))
    image = np.where(solid[..., None], color, 0.35) + rng.normal(0, 0.04, (96, 96, 3))
    return image.clip(0, 1).astype("f4")


colors = {"red": (0.8, 0.45, 0.4), "green": (0.45, 0.7, 0.4)}
kinds = [(hole, name) for hole in (True, False) for name in colors]
images = [draw(hole, colors[name]) for hole, name in kinds for _ in range(15)]
labels = np.repeat(range(4), 15)

# %%
# Vectors of each channel alone and of both, and the products of all pairs of images. Blocks are
# classes; the better they stand out, the better the alignment with the labels.
shapes = Channel(LRREncoder(codebook_size=64))
hues = Channel(LRREncoder(codebook_size=16), LocalColor((24,), (8,)))
figure, axes = plt.subplots(1, 4, figsize=(12, 3.1), layout="constrained")
axes[0].imshow(np.block([[[images[0]], [images[15]]], [[images[30]], [images[45]]]]))
axes[0].set_axis_off()
axes[0].set_title("one image of each class")
for axis, (name, channels) in zip(
    axes[1:], {"SIFT": [shapes], "color": [hues], "both": [shapes, hues]}.items(), strict=True
):
    features = SpatialPyramidFeatures(channels, random_state=0).fit(images)
    vectors = features.transform(images)
    aligned = class_alignment(vectors, labels, np.arange(len(labels)), None)
    axis.imshow(vectors @ vectors.T, cmap="Blues")
    axis.set_title(f"{name}: alignment {aligned:.2f}")
    axis.set(xticks=[], yticks=[])
    print(f"{name}: {vectors.shape[1]:,} numbers per image")
plt.show()

# %%
# ``Channel(weight=None)`` learns weights for a channel's levels from their alignment, as the
# presets ``balanced`` and ``best`` do; ``Channel(when="color")`` leaves a channel out if the images
# have no color.
