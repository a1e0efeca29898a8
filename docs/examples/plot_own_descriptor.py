"""
A descriptor of your own
========================

A subclass of ``Descriptor`` says how many values it has and describes the pixels of an image. Such
a part works in a channel right away; if a package registers it with an entry point, it can also be
saved, cached and named on the command line.
"""

# %%
# How bright, and how uneven, is each patch? Two numbers, for textures that differ in grain.
import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from lrrspm import Channel, ImageClassifier, LRREncoder
from lrrspm.descriptors import Descriptor, LocalDescriptors


class Grain(Descriptor):
    """Mean and standard deviation of the gray values of each patch."""

    n_values = 2

    def __init__(self, side=8):
        self.side = side

    def describe(self, pixels):
        side, pixels = self.side, self.pad(pixels, self.side)
        height, width = pixels.shape
        rows, columns = height // side, width // side
        patches = pixels[: rows * side, : columns * side].reshape(rows, side, columns, side)
        values = np.stack([patches.mean(axis=(1, 3)), patches.std(axis=(1, 3))], axis=2)
        y, x = (np.mgrid[:rows, :columns].reshape(2, -1) * side + (side - 1) / 2).astype("f4")
        sides = np.full(len(x), side, "f4")
        return LocalDescriptors(values.reshape(-1, 2), x, y, sides, width, height)


# %%
# Three kinds of synthetic textures.
rng = np.random.default_rng(0)
grains = {"fine": 0.7, "medium": 2.0, "coarse": 5.0}


def draw(sigma):
    """Draw noise of a grain, with contrast that varies a little."""
    noise = gaussian_filter(rng.normal(size=(96, 96)), sigma)
    return (0.5 + rng.uniform(0.1, 0.14) * noise / noise.std()).clip(0, 1).astype("f4")


images = [draw(sigma) for sigma in grains.values() for _ in range(30)]
labels = np.repeat(list(grains), 30)
train = np.arange(90) % 3 > 0

# %%
# A classifier with this descriptor only.
channel = Channel(LRREncoder(codebook_size=32), Grain(), levels=(1, 2))
model = ImageClassifier(channels=[channel], random_state=0)
model.fit([images[i] for i in np.flatnonzero(train)], labels[train])
right = model.score([images[i] for i in np.flatnonzero(~train)], labels[~train])
print(f"right: {right:.0%} of {np.sum(~train)} images")

# %%
# What it sees: the two numbers for patches of the three classes.
figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
for number, (axis, name) in enumerate(zip(axes, grains, strict=False)):
    axis.imshow(images[30 * number], cmap="gray", vmin=0, vmax=1)
    axis.set_axis_off()
    axis.set_title(name)
    values = np.concatenate([Grain().describe(image).values for image in images[30 * number :][:6]])
    axes[3].scatter(*values.T, s=4, label=name)
axes[3].set(xlabel="mean of a patch", ylabel="deviation of a patch")
axes[3].legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
axes[3].spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# ``Grain`` is a class in this program, so a model that has it cannot be saved: nobody could load
# it. The page on extending shows the entry point that registers it.
try:
    model.save("grain.lrrspm")
except ValueError as error:
    print(error)
