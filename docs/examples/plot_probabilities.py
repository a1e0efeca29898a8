"""
From scores to probabilities
============================

The scores of a support vector machine say which class is best, not how certain that is. One
number, the temperature, turns them into probabilities; cross-validation finds it while the model
is trained.
"""

# %%
# Handwritten digits from scikit-learn, enlarged from 8 to 48 pixels, with noise so that some are
# hard to tell apart. 20 per class are for training.
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from lrrspm import ImageClassifier

rng = np.random.default_rng(0)
digits = load_digits()
small = (digits.images / 16 + rng.normal(0, 0.25, digits.images.shape)).clip(0, 1)
images = [Image.fromarray(np.uint8(255 * one)).resize((48, 48)) for one in small]
train = np.concatenate([np.flatnonzero(digits.target == c)[:20] for c in range(10)])
test = np.concatenate([np.flatnonzero(digits.target == c)[20:80] for c in range(10)])

model = ImageClassifier(method="fast", random_state=0)
model.fit([images[i] for i in train], digits.target[train])
print(f"temperature {model.temperature_:.3f}")

# %%
# Scores and probabilities of images that the model has not seen.
scores = model.decision_function([images[i] for i in test])
chances = model.probabilities(scores)
right = scores.argmax(axis=1) == digits.target[test]
confidence = chances.max(axis=1)
print(f"right: {right.mean():.1%}, mean confidence: {confidence.mean():.1%}")

# %%
# On the left each image is a dot: its best score and the probability of that class. The same score
# can mean a lot or little, depending on the other classes. On the right, images are grouped by
# confidence: if probabilities were perfect, bars would end at the dashed line.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for truth, color, name in ((True, "#1f6fb4", "right"), (False, "#d1620a", "wrong")):
    chosen = right == truth
    axes[0].scatter(scores.max(axis=1)[chosen], confidence[chosen], s=8, color=color, label=name)
axes[0].set(xlabel="best score", ylabel="its probability")
axes[0].legend(frameon=False)
edges = np.linspace(0.2, 1, 9)
bins = np.digitize(confidence, edges[1:-1])
for number in range(8):
    inside = bins == number
    if inside.sum() >= 5:
        middle = edges[number] + 0.05
        axes[1].bar(middle, right[inside].mean(), width=0.09, color="#1f6fb4")
        axes[1].text(middle, 0.02, inside.sum(), ha="center", color="white", fontsize=8)
axes[1].plot([0.2, 1], [0.2, 1], "--", color="#8a8a8a")
axes[1].set(xlabel="probability of the best class", ylabel="share of right answers")
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
