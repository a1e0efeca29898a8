"""Draw a folder of synthetic images: metal washers, sound, scratched, chipped or stained.

``python -m docs.parts DIR`` writes DIR/CLASS/NUMBER.png. The figures of the evidence, the report
and the page in these documents use them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import gaussian_filter

CLASSES = ("chipped", "scratched", "sound", "stained")
WIDTH, HEIGHT = 280, 220

Floats = NDArray[np.float64]


def draw_part(kind: str, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw a washer as if photographed, (HEIGHT, WIDTH, 3)."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    x -= WIDTH / 2 + rng.uniform(-14, 14)
    y -= HEIGHT / 2 + rng.uniform(-10, 10)
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    outer, inner = rng.uniform(82, 92), rng.uniform(30, 38)
    edge = outer + np.zeros_like(angle)
    if kind == "chipped":
        where, wide = rng.uniform(-np.pi, np.pi), rng.uniform(0.12, 0.2)
        turned = np.abs(np.angle(np.exp(1j * (angle - where))))
        jagged = 1 + 0.3 * np.sin(40 * turned + rng.uniform(0, 6))
        edge -= rng.uniform(18, 26) * np.maximum(0, 1 - (turned / wide) ** 2) * jagged
    grooves = 0.5 * np.sin(radius * 1.1 + rng.uniform(0, 6))
    light = np.cos(2 * (angle - rng.uniform(0, np.pi)))
    metal = 150 + 22 * light + 9 * grooves + gaussian_filter(rng.normal(0, 6, x.shape), 0.7)
    if kind == "scratched":
        metal += 95 * _scratch(x, y, (inner + outer) / 2, rng)
    if kind == "stained":
        metal -= 60 * _stain(x, y, (inner + outer) / 2, rng)
    table = 62 + gaussian_filter(rng.normal(0, 12, x.shape), 1.5)
    shadow = gaussian_filter(((radius < edge) & (radius > inner)).astype(float), 6)
    shadow = np.roll(shadow, (5, 6), (0, 1))
    solid = np.clip(edge - radius, 0, 1) * np.clip(radius - inner, 0, 1)
    rim = np.exp(-(((edge - radius) - 2.5) ** 2) / 4) + np.exp(-(((radius - inner) - 2.5) ** 2) / 4)
    gray = solid * (metal + 45 * rim) + (1 - solid) * table * (1 - 0.5 * shadow)
    tint = solid[..., None] * np.array([1.0, 0.98, 0.94]) + (1 - solid[..., None]) * np.array(
        [0.82, 0.95, 1.08]
    )
    return (gray[..., None] * tint).clip(0, 255).astype(np.uint8)


def _scratch(x: Floats, y: Floats, at: float, rng: np.random.Generator) -> Floats:
    """Draw a few thin parallel lines, slightly bent."""
    around, along = rng.uniform(-np.pi, np.pi), rng.uniform(0, np.pi)
    u, v = x - at * np.cos(around), y - at * np.sin(around)
    u, v = u * np.cos(along) + v * np.sin(along), -u * np.sin(along) + v * np.cos(along)
    lines = np.zeros_like(x)
    for offset in rng.uniform(-9, 9, 6):
        bent = v - offset - 0.004 * rng.uniform(-1, 1) * u**2
        lines += np.exp(-(bent**2) / 1.2) * (np.abs(u - rng.uniform(-4, 4)) < rng.uniform(18, 26))
    return np.minimum(lines, 1)


def _stain(x: Floats, y: Floats, at: float, rng: np.random.Generator) -> Floats:
    """Draw a blot with a soft, uneven border."""
    around = rng.uniform(-np.pi, np.pi)
    u, v = x - at * np.cos(around), y - at * np.sin(around)
    uneven = gaussian_filter(rng.normal(0, 60, x.shape), 5)
    return 1 / (1 + np.exp((np.hypot(u, v) - rng.uniform(13, 18) + uneven) / 0.8))


def draw_folder(folder: Path, per_class: int, seed: int = 0) -> None:
    """Write images of every class."""
    rng = np.random.default_rng(seed)
    for kind in CLASSES:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            Image.fromarray(draw_part(kind, rng)).save(folder / kind / f"{number:03}.png")


if __name__ == "__main__":
    draw_folder(Path(sys.argv[1]), per_class=150)
