"""
Evidence that adds up
=====================

A score is exactly the sum of what the patches of the image add to it, so a map of these
contributions is not an approximation of the model: it is the model's own sum.
"""

# %%
# Drawings of washers: sound, chipped, scratched or stained.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from docs.parts import CLASSES, draw_part
from lrrspm import ImageClassifier

rng = np.random.default_rng(0)
images = [draw_part(kind, rng) for kind in CLASSES for _ in range(30)]
labels = np.repeat(CLASSES, 30)
model = ImageClassifier(random_state=0, n_jobs=-1).fit(images, labels)

# %%
# A new washer, and the evidence for its class.
image = draw_part("stained", np.random.default_rng(99))
found = model.explain(image, "stained")
print(f"score {found.score:.4f}, sum of {len(found.contributions)} contributions", end=" ")
print(f"{found.contributions.sum() + found.intercept:.4f}")

# %%
# Blue is evidence for the class, orange against it. Every class has evidence of both kinds; their
# sum is its score, and the class with the largest score is predicted.
examined = model.examine(image)
strongest = np.abs(found.map).max()
colors = LinearSegmentedColormap.from_list("evidence", ["#d1620a", "#ffffff", "#1f6fb4"])
figure, axes = plt.subplots(1, 3, figsize=(11, 2.9), width_ratios=[1, 1, 1.1], layout="constrained")
axes[0].imshow(image)
axes[0].set_title("a stained washer")
axes[1].imshow(image.mean(axis=2), cmap="gray", vmin=-400, vmax=400)
axes[1].imshow(
    found.map, cmap=colors, vmin=-strongest, vmax=strongest, alpha=np.abs(found.map) / strongest
)
axes[1].set_title('evidence for "stained"')
for place, kind in enumerate(CLASSES):
    parts = examined.explain(kind).contributions
    axes[2].barh(place, parts[parts > 0].sum(), color="#1f6fb4")
    axes[2].barh(place, parts[parts < 0].sum(), color="#d1620a")
    axes[2].plot(parts.sum(), place, "D", color="black")
axes[2].set_yticks(range(len(CLASSES)), CLASSES)
axes[2].set_xlabel("evidence against and for; the diamond is the score")
axes[2].axvline(0, color="#8a8a8a", lw=0.8)
axes[2].spines[["top", "right"]].set_visible(False)
for axis in axes[:2]:
    axis.set_axis_off()
plt.show()
