"""Images: find, decode safely, resize, compare and audit."""

from .auditing import KINDS, Finding, audit, warn_about
from .bounded import ImageError, Source, TooLargeError
from .digests import digest_images, group_copies, image_digest
from .finding import Labeled, expand_paths, find_images, find_labeled, walk_images
from .kept import KeptImages
from .reading import (
    AnyImage,
    Pixels,
    as_gray,
    check_images,
    has_color,
    list_images,
    read_image,
    read_pixels,
    read_thumbnail,
)
from .resizing import resize, scale_to
from .suspects import looks_damaged

__all__ = [
    "KINDS", "AnyImage", "Finding", "ImageError", "KeptImages", "Labeled", "Pixels", "Source",
    "TooLargeError", "as_gray", "audit", "check_images", "digest_images", "expand_paths",
    "find_images", "find_labeled", "group_copies", "has_color", "image_digest", "list_images",
    "looks_damaged", "read_image", "read_pixels", "read_thumbnail", "resize", "scale_to",
    "walk_images", "warn_about",
]  # fmt: skip
