"""
What a descriptor sees of a photograph
======================================

Images are converted to gray, and large ones are shrunk to 300 pixels on their longer side, so that
a patch covers about the same part of every photograph.
"""

# %%
# A photograph that comes with scikit-learn, as an array of 8-bit colors.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from lrrspm.images import has_color, read_pixels

photograph = load_sample_image("flower.jpg")
print(photograph.shape, photograph.dtype)

# %%
# ``read_pixels`` also takes paths, open files and Pillow images. It returns what descriptors ask
# for: gray, color or both.
pixels = read_pixels(photograph, max_side=300, gray=True, color=True)
print("gray", pixels.gray.shape, "color", pixels.color.shape, "has color:", has_color(pixels.color))

# %%
# Shrinking averages the pixels in between; taking only every few pixels would not, and would make
# jagged edges that are not in the photograph. The squares in the last panel are 16-pixel patches.
height, width = pixels.gray.shape
down = np.arange(height) * photograph.shape[0] // height
across = np.arange(width) * photograph.shape[1] // width
skipped = photograph[np.ix_(down, across)].mean(axis=2) / 255
rows, columns = slice(70, 130), slice(120, 210)

figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
axes[0].imshow(photograph)
axes[0].set_title(f"as given, {photograph.shape[1]} x {photograph.shape[0]}")
axes[1].imshow(skipped[rows, columns], cmap="gray", vmin=0, vmax=1)
axes[1].set_title("only every few pixels (part)")
axes[2].imshow(pixels.gray[rows, columns], cmap="gray", vmin=0, vmax=1)
axes[2].set_title("as descriptors see it (part)")
axes[2].set_xticks(range(0, 90, 16), [])
axes[2].set_yticks(range(0, 60, 16), [])
axes[2].grid(color="#d1620a", lw=0.8)
for axis in axes[:2]:
    axis.set_axis_off()
plt.show()
