"""
Images of classes that a model does not know
============================================

A model of six digits is shown all ten. With a minimum confidence it answers "unknown" if it is not
sure, or if an image is less familiar than nearly all training images were. That catches some images
of unknown classes, not all of them.
"""

# %%
# Train on the digits 0 to 5.
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from lrrspm import ImageClassifier
from lrrspm.svm import familiarity

digits = load_digits()
images = [Image.fromarray(np.uint8(15 * one)).resize((48, 48)) for one in digits.images]
train = np.concatenate([np.flatnonzero(digits.target == c)[:40] for c in range(6)])
test = np.concatenate([np.flatnonzero(digits.target == c)[40:90] for c in range(10)])
model = ImageClassifier(method="fast", random_state=0)
model.fit([images[i] for i in train], digits.target[train])

# %%
# ``is_known`` is the test that ``lrrspm predict --min-confidence 0.8`` applies.
scores = model.decision_function([images[i] for i in test])
answered = model.is_known(scores, 0.8)
foreign = digits.target[test] > 5
print(f"answered: {answered[~foreign].mean():.0%} of known digits")
print(f"answered: {answered[foreign].mean():.0%} of digits 6 to 9, all of them wrongly")

# %%
# Confidence and familiarity of every image: those above and to the right of both dashed lines are
# answered. Confidence alone would not be enough: the model is sure of many unknown digits, too.
found = familiarity(scores, model.temperature_)
confidence = model.probabilities(scores).max(axis=1)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for chosen, color, name in ((~foreign, "#1f6fb4", "0 to 5"), (foreign, "#d1620a", "6 to 9")):
    axes[0].scatter(confidence[chosen], found[chosen], s=8, color=color, label=name)
axes[0].axvline(0.8, color="#8a8a8a", ls="--", lw=1)
axes[0].axhline(model.familiar_, color="#8a8a8a", ls="--", lw=1)
axes[0].set(xlabel="confidence", ylabel="familiarity")
axes[0].legend(frameon=False)
shares = [answered[digits.target[test] == c].mean() for c in range(10)]
axes[1].bar(range(10), shares, color=["#1f6fb4"] * 6 + ["#d1620a"] * 4)
axes[1].set(xlabel="digit", ylabel="share that is answered", ylim=(0, 1.02), xticks=range(10))
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
