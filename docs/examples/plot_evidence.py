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

from docs.parts import CLASSES, draw_part
from lrrspm import ImageClassifier

rng = np.random.default_rng(0)
images = [draw_part(kind, rng) for kind in CLASSES for _ in range(40)]
labels = np.repeat(CLASSES, 40)
model = ImageClassifier(method="fast", random_state=0, n_jobs=-1).fit(images, labels)

# %%
# A new one, and the evidence for its class.
image = draw_part("stained", np.random.default_rng(99))
found = model.explain(image, "stained")
print(f"score {found.score:.4f}, sum of {len(found.contributions)} contributions", end=" ")
print(f"{found.contributions.sum() + found.intercept:.4f}")

# %%
# Blue is for the class, orange against it. Sorted by strength, contributions add up to the score:
# a few patches on the stain bring most of it.
strongest = np.abs(found.map).max()
order = np.argsort(-np.abs(found.contributions))
sums = found.intercept + np.cumsum(found.contributions[order])
figure, axes = plt.subplots(1, 3, figsize=(11, 2.9), width_ratios=[1, 1, 1.1], layout="constrained")
axes[0].imshow(image)
axes[0].set_title("a stained washer")
axes[1].imshow(image.mean(axis=2), cmap="gray", vmin=-400, vmax=400)
axes[1].imshow(
    found.map, cmap="PuOr", vmin=-strongest, vmax=strongest, alpha=np.abs(found.map) / strongest
)
axes[1].set_title('evidence for "stained"')
axes[2].plot(np.arange(1, len(sums) + 1), sums, color="#1f6fb4")
axes[2].axhline(found.score, color="#8a8a8a", ls="--", lw=1, label="score")
axes[2].set(xlabel="patches, strongest first", ylabel="sum of their contributions", xscale="log")
axes[2].legend(frameon=False)
axes[2].spines[["top", "right"]].set_visible(False)
for axis in axes[:2]:
    axis.set_axis_off()
plt.show()
