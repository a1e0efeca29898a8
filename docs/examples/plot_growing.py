"""
A model that grows
==================

A model in use meets images that it gets wrong, and classes that it does not know. ``partial_fit``
and ``grow`` train its support vector machine again with them; the codebook stays the same, so
nothing else has to be computed again.
"""

# %%
# Washers, sound or stained, 10 of each; later more of these, and a new class.
import matplotlib.pyplot as plt
import numpy as np

from docs.parts import draw_part
from lrrspm import ImageClassifier


def draw(kinds, count, seed):
    """Draw images of some kinds, and return them with their labels."""
    rng = np.random.default_rng(seed)
    images = [draw_part(kind, rng)[::2, ::2] for kind in kinds for _ in range(count)]
    return images, np.repeat(kinds, count)


tests, truth = draw(["sound", "stained", "chipped"], 20, seed=1)
steps = {
    "10 sound,\n10 stained": draw(["sound", "stained"], 10, seed=2),
    "20 more\nof each": draw(["sound", "stained"], 20, seed=3),
    "10 chipped,\na new class": draw(["chipped"], 10, seed=4),
    "20 more\nchipped": draw(["chipped"], 20, seed=5),
}

# %%
# The first call is ``fit``, and learns the codebook. Later ones are exact, not incremental updates:
# the scores are those of an SVM that was trained on all vectors at once.
model = ImageClassifier(method="balanced", random_state=0)
recalls = []
for name, (images, labels) in steps.items():
    model.partial_fit(images, labels)
    right = model.predict(tests) == truth
    recalls.append([right[truth == kind].mean() for kind in ("sound", "stained", "chipped")])
    line = " ".join(name.split())
    print(f"{line:25} {model.summary_['images']} images, classes {', '.join(model.classes_)}")

# %%
# Share of right answers for each class after each step.
figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
for shift, kind, shares in zip(
    (-0.25, 0, 0.25), ("sound", "stained", "chipped"), zip(*recalls, strict=True), strict=True
):
    axis.bar(np.arange(4) + shift, shares, width=0.24, label=kind)
axis.set_xticks(range(4), list(steps))
axis.set(ylabel="share of right answers", ylim=(0, 1.02))
axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
axis.spines[["top", "right"]].set_visible(False)
plt.show()
