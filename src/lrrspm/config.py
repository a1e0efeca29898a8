"""Every default value of the library, once.

Signatures and the command line read their defaults here, so this module imports
nothing: ``lrrspm --help`` must not wait for NumPy or numba.
"""

MAX_SIDE = 300
"""Longest side of an image in pixels; larger images are shrunk to it."""

MIN_SIDE = 192
"""Longest side to which LrrFV and its peers enlarge smaller images, in pixels.

Their patches of up to 64 pixels would hold little but padding. The paper enlarges nothing."""

STEP = 6
"""Distance between neighboring patches in pixels."""

PATCH_SIZE = 16
"""Side of a patch in pixels, a multiple of 4."""

PATCH_SIZES, STEPS = (32, 48, 64), (8, 8, 8)
"""Patch sizes of RootSIFT in pixels, and the distance between patches of each."""

SMALL_PATCH_SIZES, SMALL_STEPS = (16, 24), (6, 6)
"""Patch sizes of the second RootSIFT of the preset best, and their distances."""

LBP_PATCH_SIZES, LBP_STEPS, LBP_RADII = (24, 32), (6, 8), (1, 2)
"""Patch sizes of local binary patterns, their distances, and the radii."""

OPPONENT_PATCH_SIZES, OPPONENT_STEPS = (32, 48), (8, 8)
"""Patch sizes of opponent SIFT, which has twice the values, and the distance between patches."""

COLOR_PATCH_SIZES, COLOR_STEPS = (24, 32, 48), (8, 10, 12)
"""Patch sizes of local color statistics, and the distance between patches of each."""

REGIONS = (1, 4)
"""Grids of moments: the whole image, and four by four cells."""

N_COMPONENTS = 62
"""Principal components of descriptors."""

POSITION = 0.3
"""Weight of a patch's place beside its principal components."""

CODEBOOK_SIZE = 256
"""Number of atoms k in a codebook."""

WEIGHT_ATOMS, WEIGHT_REGULARIZATION, SURVIVORS, WEIGHT_POWER = 64, 0.1, 0.5, 2.0
"""Low-rank weights: atoms, lambda, share of the largest entry that survives, power.

FV and VLAD have as many atoms."""

POSTERIORS = 1e-4
"""Share of the largest posterior below which others become 0."""

BALANCED_ATOMS = 32
"""Atoms of the preset balanced."""

REGULARIZATION = 0.7
"""The paper's lambda."""

THRESHOLD = 0.98
"""The paper's epsilon."""

N_NEIGHBORS = 5
"""Atoms per descriptor in LLC."""

SPARSITY = 0.15
"""Weight of the l1 norm in sparse coding."""

RIDGE = 1e-4
"""Weight of the squared l2 norm in sparse coding, and of the trace in LLC."""

DEVICE = "cpu"
"""Where vectors are computed."""

ENGINE = "threads"
"""Where chunks of images are computed."""

METHOD = "balanced"
"""The method that is used unless another is named."""

PAPER_METHOD = "LrrSPM"
"""The paper's own method."""

LEVELS = (1, 2, 4)
"""Cells along each side, one number per pyramid level."""

N_SAMPLES = 200_000
"""Descriptors that a codebook is learned from."""

SAMPLES_PER_IMAGE, FEW_SAMPLES = 150, 50_000
"""Where descriptors are projected: most of one image, unless that makes fewer than these in all."""

C = 10.0
"""Penalty of the support vector machine."""

PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Penalties that ``tune`` tries."""

BUDGET = 300.0
"""Seconds after which ``tune`` starts no further candidate."""

TRAIN_PER_CLASS, TRAIN_SHARE = 100, 0.8
"""Training images per class in ``evaluate``, but at most this share of a class."""

SPLITS = 5
"""Random splits in ``evaluate``."""

SEED = 0
"""Seed of the command line; the library's ``random_state`` defaults to None."""

TEMPERATURE = 0.2
"""Of the probabilities of a model that could not be calibrated."""

UNFAMILIAR = 0.01
"""Share of training images that count as unlike the others, in cross-validation."""

CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Least probabilities at which ``train`` says how many images would be answered."""

FOLDS = 10
"""Folds of the cross-validation by which ``train`` estimates how good a model is."""

DOUBTED = 0.05
"""Probability of a label below which ``review`` takes it for wrong.

With 5 % of the labels of 15-Scene changed, 91 % of these and 2 % of the others fall below."""

FEW_TESTED = 10
"""Test images per class; an accuracy that rests on fewer is called a rough guess."""

MAX_SKIPPED = 0.05
"""Share of unreadable images that ``train`` and ``evaluate`` skip by default."""

DRAWN_SIDE = 900
"""Longest side of an image that evidence is drawn over."""

IMAGE_SUFFIXES = (
    ".avif", ".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm",
    ".tif", ".tiff", ".webp",
)  # fmt: skip
"""Suffixes of image files, in any letter case."""

SERVE_HOST = "127.0.0.1"
"""Address that ``serve`` listens on: only this machine can reach it."""

SERVE_PORT = 8000
"""Port that ``serve`` listens on."""

SERVE_FILES = 20
"""Largest number of images per request."""

SERVE_FILE_MB = 32
"""Largest upload in megabytes."""

SERVE_REQUEST_MB = 64
"""Largest request in megabytes."""

SERVE_WAITING = 256
"""Largest number of requests in progress, waiting ones included."""

COLLECT_IMAGES, COLLECT_MB = 10_000, 2000
"""Images and megabytes that a folder of corrections may hold."""

SERVE_SECONDS = 30
"""Seconds that a request may take, from its first line to its response."""
