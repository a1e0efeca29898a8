"""
The spatial pyramid
===================

An image is divided into grids of 1 x 1, 2 x 2 and 4 x 4 cells. In each of the 21 cells, the largest
code of each atom is kept, so the vector says what is in the image, and roughly where.
"""

# %%
# Patches of a photograph, and their low-rank codes over a codebook of 64 atoms.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from lrrspm import LRREncoder, MaxPooling, SpatialPyramid, dense_sift
from lrrspm.images import read_pixels

image = read_pixels(load_sample_image("china.jpg"), max_side=300).gray
patches = dense_sift(image)
encoder = LRREncoder(codebook_size=64, random_state=0).fit(patches.values)
codes = encoder.transform(patches.values)
print(f"{len(codes)} patches, {codes.shape[1]} atoms")

# %%
# Pooling turns them into 21 rows of 64 numbers, one row per cell.
levels = (1, 2, 4)
vector = MaxPooling(norm=None).pool(
    codes, patches.x, patches.y, patches.width, patches.height, levels
)
pooled = vector.reshape(SpatialPyramid(levels).n_cells, -1)
print(f"a vector of {vector.size} numbers")

# %%
# The atom that varies most between the 16 finest cells, drawn over the image on all three levels:
# its code is large where the image shows what the atom stands for.
atom = int(np.ptp(pooled[5:], axis=0).argmax())
figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
first = 0
for axis, n in zip(axes, levels, strict=True):
    cells = pooled[first : first + n * n, atom].reshape(n, n)
    first += n * n
    axis.imshow(image, cmap="gray")
    shade = axis.imshow(
        cells, cmap="Oranges", alpha=0.55, vmin=0, vmax=pooled[:, atom].max(),
        extent=(0, patches.width, patches.height, 0),
    )  # fmt: skip
    axis.set_title(f"{n} x {n} cells")
    axis.set_axis_off()
figure.colorbar(shade, ax=axes, label=f"largest code of atom {atom}", shrink=0.8)
plt.show()
