"""
A store that remembers
======================

With ``cache``, a classifier keeps codebooks and vectors in a folder, under a key made from
everything that they depend on. Training again reads them, and gives the same model, bit for bit.
"""

# %%
# A folder of drawings, with one folder per class.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from docs.parts import draw_folder
from lrrspm import ImageClassifier, find_images
from lrrspm.evaluation import train_with_estimate

folder = Path(tempfile.mkdtemp())
draw_folder(folder / "images", per_class=25)
paths, labels = find_images(folder / "images")


def train():
    """Train a model with the store; return its seconds per stage and its scores."""
    model = ImageClassifier(random_state=0, cache=folder / "store")
    seconds = train_with_estimate(paths, labels, model).estimate.seconds
    return seconds, model.decision_function(paths[:5])


# %%
# First a small run, which is not shown: it loads compiled loops.
train_with_estimate(paths[::5], labels[::5], ImageClassifier(random_state=0))
runs = {"empty store": train(), "full store": train()}
(_, before), (_, after) = runs.values()
print("same scores:", np.array_equal(before, after))
print("in the store:", sorted(part.name for part in (folder / "store").iterdir()))

# %%
# Where the time went.
stages = list(runs["empty store"][0])
figure, axis = plt.subplots(figsize=(8, 2.4), layout="constrained")
for place, (seconds, _) in enumerate(runs.values()):
    start = 0.0
    for number, stage in enumerate(stages):
        length = seconds.get(stage, 0.0)
        label = stage if place == 0 else None
        axis.barh(place, length, left=start, color=plt.get_cmap("tab20")(number), label=label)
        start += length
axis.set_yticks([0, 1], list(runs))
axis.invert_yaxis()
axis.set_xlabel("seconds")
axis.legend(frameon=False, ncols=2, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
axis.spines[["top", "right"]].set_visible(False)
plt.show()
