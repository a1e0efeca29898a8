"""
Frames of one video belong together
===================================

Images that belong together, such as frames of a video, must not be on both sides of a split.
Here nothing distinguishes the classes, so an honest accuracy is that of guessing.
"""

# %%
# Four classes of six videos with five frames each. A video is a random image, and its frames
# differ by a little noise. Nothing tells one class from another.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from lrrspm import ImageClassifier, evaluate
from lrrspm.evaluation import name_groups
from lrrspm.images import find_labeled

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
for name in "abcd":
    (folder / name).mkdir()
    for video in range(6):
        scene = gaussian_filter(rng.normal(size=(96, 96)), 3)
        scene /= scene.std()
        for frame in range(5):
            noisy = scene + rng.normal(0, 0.3, scene.shape)
            pixels = np.uint8((128 + 40 * noisy).clip(0, 255))
            Image.fromarray(pixels).save(folder / name / f"video{video}_{frame}.png")

# %%
# Group names from a pattern: what comes before the last underscore. On the command line, this is
# ``--group '(.*)_'``.
found = find_labeled(folder)
groups = name_groups(found, folder, r"(.*)_")
print(groups)

model = ImageClassifier(method="fast")
results = {
    "frames anywhere": evaluate(found.paths, found.labels, model, train_per_class=15),
    "videos together": evaluate(
        found.paths, found.labels, model, train_per_class=15, groups=groups
    ),
}

# %%
# With frames on both sides, the model only has to remember them. That is not how well it will do on
# the next video.
figure, axes = plt.subplots(1, 2, figsize=(9, 2.9), width_ratios=[1.5, 1], layout="constrained")
shown = [Image.open(folder / "a" / f"video{v}_{f}.png") for v in range(3) for f in range(3)]
tiles = np.array([np.asarray(one) for one in shown]).reshape(3, 3, 96, 96)
axes[0].imshow(tiles.transpose(0, 2, 1, 3).reshape(288, 288), cmap="gray", aspect="auto")
axes[0].set_title("three frames of each of three videos (rows)")
axes[0].set_axis_off()
means = [result.mean for result in results.values()]
axes[1].bar(list(results), means, color=["#d1620a", "#1f6fb4"])
axes[1].axhline(25, color="#8a8a8a", ls="--", lw=1, label="guessing")
axes[1].set(ylabel="accuracy, %", ylim=(0, 100))
axes[1].legend(frameon=False)
axes[1].spines[["top", "right"]].set_visible(False)
plt.show()
