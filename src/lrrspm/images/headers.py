"""Headers: cheap checks of a file before Pillow opens it, where its loops have no limits."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from .bounded import BoundedFile, ImageError

# Bytes of a JPEG in memory at a time, and most that are searched for its end.
_WINDOW, _MAX_JPEG = 2**20, 2**28
# Up to so many bytes, counting patterns everywhere is faster than walking from marker to marker.
_SMALL_JPEG = 2**25
# Each scan of a JPEG is a pass over the whole image; a photograph has a dozen.
_MAX_SCANS = 50
# EXIF data longer than 64 kB are split into blocks, which Pillow joins in quadratic time.
_MAX_EXIF_BLOCKS = 8
MAX_EXIF = _MAX_EXIF_BLOCKS * 2**16
"""Most bytes of EXIF data; Pillow takes seconds for a tag of a million values."""
_MAX_SEGMENTS = 100_000

# In a scan's data only 0 or a restart marker follows 0xFF. Restart markers and 0xFF01 have no
# length field.
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")
_SCAN, _END, _APP1 = 0xDA, 0xD9, 0xE1
_SEQUENTIAL = (0xC0, 0xC1)
_SCAN_START, _EXIF = b"\xff\xda", b"Exif\0\0"

# Bytes of the list of brands that an ISO media file begins with, and brands of images.
_BRANDS = 128
_KINDS = {
    "AVIF": (b"avif", b"avis"),
    "HEIF": (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"),
}

# Entries of the first TIFF directory, as in libtiff, and of others; values of one tag (a strip per
# row, four planes) and of all; and fractions, which Pillow makes objects of.
_MAX_TAGS, _MAX_OTHER_TAGS = 2**12, 2**16
_MAX_VALUES, _MAX_ALL_VALUES, _MAX_FRACTIONS = 2**18, 2**20, 2**12
# A tile may extend beyond the image, but not by far; small ones always may.
_SMALL_TILE = 2**22
_WIDTH, _LENGTH, _TILE_WIDTH, _TILE_LENGTH = 256, 257, 322, 323
_SIZES = (_WIDTH, _LENGTH, _TILE_WIDTH, _TILE_LENGTH)
# Directories that Pillow reads with the first: EXIF, GPS, interoperability.
_DIRECTORIES = (34665, 34853, 40965)
_FRACTIONS = (5, 10)
_UNITS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}


def check_headers(file: BoundedFile) -> str | None:
    """Refuse a JPEG or TIFF file that would take too much to open.

    Returns "JPEG", "HEIF" or "AVIF" for a file that begins like one, else None.
    """
    start = file.file.read(_BRANDS)
    file.seek(0)
    kind = None
    if start.startswith(b"\xff\xd8\xff"):
        kind = "JPEG"
        _check_jpeg(file)
    elif start.startswith((b"II", b"MM")):
        _check_tiff(file)
    elif start[4:8] == b"ftyp":
        kind = _brand(start)
    file.seek(0)
    return kind


def _brand(start: bytes) -> str | None:
    """Return the kind of an ISO media file: its major brand may be one that both kinds have."""
    end = int.from_bytes(start[:4])
    brands = [start[8:12], *(start[i : i + 4] for i in range(16, min(end, len(start)), 4))]
    kinds = (kind for brand in brands for kind, known in _KINDS.items() if brand in known)
    return next(kinds, None)


def is_one_scan(file: BoundedFile) -> bool:
    """Return True for a JPEG that is decoded row by row.

    The coefficients of one that is progressive, or has a scan per color, are all
    in memory until the last scan: 2 bytes each, also where pixels are reduced.
    """
    colors = 0
    place = file.tell()
    try:
        for marker, head in _segments(file):
            if marker in _SEQUENTIAL and len(head) == 6:
                colors = head[5]
            if marker == _SCAN:
                return 0 < colors == head[0]
        return False
    finally:
        file.seek(place)


def _check_jpeg(file: BoundedFile) -> None:
    """Refuse a JPEG of very many scans, EXIF blocks or segments."""
    # The quick count may be too high, never too low, and few files fail it.
    if file.size > _SMALL_JPEG or not _few_patterns(file):
        scans = blocks = 0
        for number, (marker, head) in enumerate(_segments(file)):
            scans += marker == _SCAN
            blocks += marker == _APP1 and head.startswith(_EXIF)
            if scans > _MAX_SCANS:
                raise file.refusal(f"a JPEG of more than {_MAX_SCANS} scans; re-save the file")
            if blocks > _MAX_EXIF_BLOCKS:
                raise file.refusal("too much EXIF data; re-save the file")
            if number > _MAX_SEGMENTS:
                raise file.refusal("too many small chunks; re-save the file")


def _few_patterns(file: BoundedFile) -> bool:
    scans = blocks = 0
    window = min(_WINDOW, file.size)  # reading allocates all that is asked for
    for place in range(0, file.size, window):
        file.seek(max(0, place - len(_EXIF)))  # patterns across two windows
        content = file.file.read(window + len(_EXIF))
        scans += content.count(_SCAN_START)
        blocks += content.count(_EXIF)
        if scans > _MAX_SCANS or blocks > _MAX_EXIF_BLOCKS:
            return False
    return True


def _segments(file: BoundedFile) -> Iterator[tuple[int, bytes]]:
    """Yield the marker and first bytes of each segment of the first image in a JPEG file."""
    start, window = 0, b""
    place = 2
    while place < _MAX_JPEG:
        if place + 10 > start + len(window):  # the marker, its length and the start of its content
            file.seek(place)
            start, window = place, file.file.read(_WINDOW)
        found = _MARKER.search(window, place - start)
        if found is None:
            if len(window) < _WINDOW:
                return
            place = start + len(window) - 1
            continue
        marker, place = window[found.end() - 1], start + found.end()
        if marker == _END:
            return
        head = window[place - start : place - start + 8]
        if len(head) < 8:
            file.seek(place)
            head = file.file.read(8)
        yield marker, head[2:]
        place += int.from_bytes(head[:2])
    raise file.refusal(f"a JPEG without an end in its first {_MAX_JPEG:,} bytes")


def _check_tiff(file: BoundedFile) -> None:
    """Refuse a TIFF of very many values, or of tiles far larger than the image."""
    header = file.file.read(16)
    if header.startswith(b"MM\0+"):  # Pillow would read one directory, and libtiff another
        raise ImageError(file.source, "cannot be read: a big-endian BigTIFF file")
    if len(header) < 16:
        return
    order = "<" if header.startswith(b"II") else ">"
    big = header[2] == 43
    first = _integer(header[8:16] if big else header[4:8], order)
    directories, seen = [first], set[int]()
    sizes: dict[int, int] = {}
    values = fractions = 0
    while directories:
        place = directories.pop()
        if place in seen or place >= file.size:
            continue
        seen.add(place)
        most = _MAX_TAGS if place == first else _MAX_OTHER_TAGS
        for tag, kind, count, field in _tags(file, place, most, order, big):
            unit = _UNITS.get(kind, 8)
            if count * unit > file.size:
                continue  # not there, and so not read
            values += count * (unit > 1)
            fractions += count * (kind in _FRACTIONS)
            many = unit > 1 and count > _MAX_VALUES
            if many or values > _MAX_ALL_VALUES or fractions > _MAX_FRACTIONS:
                raise file.refusal("a TIFF tag of too many values; re-save the file")
            if tag in _DIRECTORIES or (tag in _SIZES and place == first):
                value = _number(file, unit, count, field, order)
                if tag in _DIRECTORIES:
                    directories.append(value)
                elif tag in (_WIDTH, _LENGTH):  # of duplicates, what leads to a refusal
                    sizes[tag] = min(value, sizes.get(tag, value))
                else:
                    sizes[tag] = max(value, sizes.get(tag, value))
    tile = sizes.get(_TILE_WIDTH, 0) * sizes.get(_TILE_LENGTH, 0)
    if tile > max(_SMALL_TILE, 2 * sizes.get(_WIDTH, 0) * sizes.get(_LENGTH, 0)):
        raise file.refusal("tiles far larger than the image; re-save the file")


def _tags(
    file: BoundedFile, place: int, most: int, order: str, big: bool
) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield number, type, count and value field of each tag of a TIFF directory."""
    file.seek(place)
    count = _integer(file.file.read(8 if big else 2), order)
    if count > most:
        raise file.refusal("too many TIFF tags; re-save the file")
    entry = struct.Struct(order + ("HHQ8s" if big else "HHL4s"))
    content = file.file.read(count * entry.size)
    yield from entry.iter_unpack(content[: len(content) // entry.size * entry.size])


def _number(file: BoundedFile, unit: int, count: int, field: bytes, order: str) -> int:
    """Return the first value of a tag, which the file has elsewhere if the field is too short."""
    if count * unit > len(field):
        file.seek(_integer(field, order))
        field = file.file.read(unit)
    return _integer(field[:unit], order)


def _integer(content: bytes, order: str) -> int:
    return int.from_bytes(content, "little" if order == "<" else "big")
