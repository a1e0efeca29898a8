"""Images: find, decode safely, resize, compare and audit."""

from .audit import audit, warn_about
from .copies import digest_images, group_copies
from .decoding import ImageError, Source, TooLargeError, colours, source_name
from .reading import (
    digest_picture,
    expand_paths,
    find_images,
    image_digest,
    read_image,
    read_with_shape,
    scan_classes,
    shrink,
    walk_images,
    walk_others,
)

__all__ = [
    "ImageError",
    "Source",
    "TooLargeError",
    "audit",
    "colours",
    "digest_images",
    "digest_picture",
    "expand_paths",
    "find_images",
    "group_copies",
    "image_digest",
    "read_image",
    "read_with_shape",
    "scan_classes",
    "shrink",
    "source_name",
    "walk_images",
    "walk_others",
    "warn_about",
]
