"""
How good is it, and with how many images?
=========================================

``evaluate`` draws random splits, trains on some images per class and tests on all others.
"""

# %%
# Handwritten digits from scikit-learn, saved as files in one folder per class, since ``evaluate``
# takes paths.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from lrrspm import ImageClassifier, evaluate, find_images

folder = Path(tempfile.mkdtemp())
digits = load_digits()
for number in range(400):
    path = folder / str(digits.target[number]) / f"{number:04}.png"
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.uint8(15 * digits.images[number])).resize((48, 48)).save(path)
paths, labels = find_images(folder)

# %%
# Two ways to encode the same descriptors, with 2 to 20 training images per class.
counts = (2, 5, 10, 20)
found = {
    method: [
        evaluate(paths, labels, ImageClassifier(method=method), train_per_class=n, splits=3)
        for n in counts
    ]
    for method in ("LinearBOF", "LrrSPM")
}
for method, results in found.items():
    print(method, [f"{result.mean:.1f}" for result in results])

# %%
# Mean and standard deviation over the splits, and which digits the best result confuses.
figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), width_ratios=[1.2, 1], layout="constrained")
for (method, results), color in zip(found.items(), ("#d1620a", "#1f6fb4"), strict=True):
    means, deviations = ([getattr(one, name) for one in results] for name in ("mean", "std"))
    axes[0].errorbar(counts, means, deviations, color=color, marker="o", capsize=3, label=method)
axes[0].set(xlabel="training images per class", ylabel="accuracy, %", ylim=(60, 101))
axes[0].legend(frameon=False, loc="lower right")
axes[0].spines[["top", "right"]].set_visible(False)
confusions = sum(found["LrrSPM"][-1].confusions)
shares = confusions / confusions.sum(axis=1, keepdims=True)
axes[1].imshow(shares, cmap="Blues", vmin=0, vmax=1)
for row, column in np.argwhere(shares > 0.005):
    shade = "white" if shares[row, column] > 0.5 else "black"
    text = f"{100 * shares[row, column]:.0f}"
    axes[1].text(column, row, text, ha="center", va="center", color=shade, fontsize=7)
axes[1].set(xlabel="predicted", ylabel="true", xticks=range(10), yticks=range(10))
axes[1].set_title("LrrSPM, 20 per class, %")
plt.show()
