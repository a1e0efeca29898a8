"""Do the paper's seven methods keep their bits?

Checks out an earlier commit beside this one, trains every method on real images
with both, in processes of their own, and compares vectors, scores and
predictions bit for bit; models that the earlier commit saved are loaded too.

    LRRSPM_DATA=... python -m benchmarks.identity [COMMIT]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ._measure import ROOT, MissingError, data_folder, figure, save, show

BASE = "df8a6ff"
SETS = {"LS": 12, "YaleB": 8}
"""Training images per class; as many again are tested."""

_PROBE = r"""
import hashlib, json, sys
from pathlib import Path
import numpy as np
from lrrspm import ImageClassifier, find_images, load_model
from lrrspm.methods import METHODS

root, per_class, out, models = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]

def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()

paths, labels = map(np.array, find_images(root))
train, test = [], []
for name in np.unique(labels):
    own = np.flatnonzero(labels == name)
    train += own[:per_class].tolist()
    test += own[-per_class:].tolist()
found = {}
for method in METHODS:
    model = ImageClassifier(method=method, n_samples=40_000, n_jobs=2, random_state=0)
    model.fit(paths[train], labels[train])
    tested = paths[test].tolist()
    scores = model.decision_function(tested)
    found[method] = {
        "vectors": digest(model.features_.transform(tested)),
        "scores": digest(scores),
        "predictions": model.predict(tested).tolist(),
    }
    if models == "save":
        model.save(out / f"{root.name}-{method}.lrrspm")
    else:
        old = load_model(out / f"{root.name}-{method}.lrrspm")
        found[method]["loaded"] = digest(old.decision_function(tested))
print(json.dumps(found))
"""


def _probe(checkout: Path, folder: Path, per_class: int, out: Path, models: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout / "src"),
        "NUMBA_CACHE_DIR": str(out / f"numba-{models}"),
    }
    command = [sys.executable, "-c", _PROBE, str(folder), str(per_class), str(out), models]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=out
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(base: str = BASE) -> dict[str, Any]:
    """Compare this checkout with an earlier commit."""
    rows, images = [], 0
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "-f", str(out / "base"), base], check=True)
        try:
            for name, per_class in SETS.items():
                images_of = data_folder(name)
                before = _probe(out / "base", images_of, per_class, out, "save")
                after = _probe(ROOT, images_of, per_class, out, "load")
                for method, old in before.items():
                    new = after[method]
                    images += len(old["predictions"])
                    rows.append(
                        {
                            "set": name,
                            "method": method,
                            "tested": len(old["predictions"]),
                            "same_vectors": new["vectors"] == old["vectors"],
                            "same_scores": new["scores"] == old["scores"],
                            "same_predictions": new["predictions"] == old["predictions"],
                            "same_scores_of_saved_model": new["loaded"] == old["scores"],
                        }
                    )
        finally:
            subprocess.run([*git, "remove", "--force", str(out / "base")], check=True)
    keys = [key for key in rows[0] if key.startswith("same_")]
    figures = [
        figure(key.replace("_", " "), sum(row[key] for row in rows), f">= {len(rows)}")
        for key in keys
    ]
    return {"base": base, "rows": rows, "images": images, "figures": figures}


def main() -> None:
    try:
        result = run(*sys.argv[1:])
    except MissingError as error:
        sys.exit(f"missing: {error}")
    save("identity", result)
    show("identity", result)


if __name__ == "__main__":
    main()
