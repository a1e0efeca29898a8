"""Images: find, decode safely, resize, compare and audit."""

from .audit import KINDS, Finding, audit, warn_about
from .decoding import ImageError, Source, TooLargeError, source_name
from .digests import digest_images, group_copies, image_digest
from .finding import expand_paths, find_images, scan_classes, walk_images, walk_others
from .reading import (
    Pixels,
    as_gray,
    read_image,
    read_pixels,
    read_thumbnail,
    read_with_shape,
)
from .resizing import shrink

colours = read_thumbnail  # until every caller uses the new name

__all__ = [
    "KINDS",
    "Finding",
    "ImageError",
    "Pixels",
    "Source",
    "TooLargeError",
    "as_gray",
    "audit",
    "colours",
    "digest_images",
    "expand_paths",
    "find_images",
    "group_copies",
    "image_digest",
    "read_image",
    "read_pixels",
    "read_thumbnail",
    "read_with_shape",
    "scan_classes",
    "shrink",
    "source_name",
    "walk_images",
    "walk_others",
    "warn_about",
]
