"""
Train on a folder, save, predict
================================

The whole way in a few lines: find images, train, see how good the model is, save it, use it.
"""

# %%
# A folder with one folder per class. Here the images are drawings of washers; use your own instead.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from docs.parts import draw_folder, draw_part
from lrrspm import ImageClassifier, find_images, load_model
from lrrspm.evaluation import train_with_estimate

folder = Path(tempfile.mkdtemp())
draw_folder(folder / "images", per_class=30)
paths, labels = find_images(folder / "images")
print(len(paths), "images of", sorted(set(labels)))

# %%
# ``fit`` would be enough; this also estimates by cross-validation how good the model is, as
# ``lrrspm train`` does.
model = ImageClassifier(random_state=0, n_jobs=-1)
estimate = train_with_estimate(paths, labels, model).estimate
low, high = estimate.interval
print(f"accuracy {estimate.mean:.1f} %, between {low:.1f} and {high:.1f}")

# %%
# A model is one file. It holds no code, so a file from a stranger is safe to load.
model.save(folder / "my.lrrspm")
print(f"{(folder / 'my.lrrspm').stat().st_size / 1e6:.1f} MB")
loaded = load_model(folder / "my.lrrspm")

# %%
# New images, with the probability of the best class.
rng = np.random.default_rng(7)
kinds = ["sound", "chipped", "scratched", "stained"] * 2
images = [draw_part(kind, rng) for kind in kinds]
chances = loaded.predict_proba(images)
figure, axes = plt.subplots(2, 4, figsize=(10, 4.4), layout="constrained")
for axis, image, kind, row in zip(axes.ravel(), images, kinds, chances, strict=True):
    best = loaded.classes_[row.argmax()]
    axis.imshow(image)
    axis.set_title(f"{best}, {row.max():.0%}", color="#1f6fb4" if best == kind else "#d1620a")
    axis.set_axis_off()
plt.show()
