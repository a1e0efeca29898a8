"""Small files that would become large images, or keep a decoder busy."""

import io
import json
import struct
import sys
import zlib

from PIL import Image

from tests.conftest import run_alone

READ_ALL = """
import json, resource, sys, time
from lrrspm import read_image
from lrrspm.images import ImageError

found = {}
for path in json.load(sys.stdin):
    start = time.process_time()
    try:
        read_image(path)
        reason = None
    except ImageError as error:
        reason = error.reason
    found[path] = (reason, time.process_time() - start)
print(json.dumps([found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


def png(width: int, height: int, pixels: bytes, *extra: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = chunk(b"IHDR", header), *extra, chunk(b"IDAT", pixels), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def zeros(count: int) -> bytes:
    """Zlib stream of very many zeros, made a piece at a time."""
    packer = zlib.compressobj(1)
    piece = bytes(10**6)
    parts = [packer.compress(piece) for _ in range(count // len(piece))]
    return b"".join(parts) + packer.compress(bytes(count % len(piece))) + packer.flush()


def tiff(width: int, height: int, compression: int = 1, samples: int = 1, **more) -> bytes:
    """A gray TIFF of one strip with 200 bytes of pixels, whatever its size says."""
    tags = {
        256: width, 257: height, 258: 8, 259: compression, 262: 1, 273: 300, 277: samples,
        278: height, 279: width * height % 2**32,
    }  # fmt: skip
    entries = [(tag, 4, 1, value) for tag, value in tags.items()] + list(more.values())
    table = b"".join(struct.pack("<HHII", *entry) for entry in sorted(entries))
    return (b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + table).ljust(500, b"\0")


def gif(canvas: int, frame: int) -> bytes:
    screen = struct.pack("<HHBBB", canvas, canvas, 0x80, 0, 0) + bytes(6)
    return b"GIF89a" + screen + b"," + struct.pack("<HHHHB", 0, 0, frame, frame, 0) + b"\2\2L\1\0;"


def bmp(side: int) -> bytes:
    return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, side, side, 1, 24, *[0] * 6)


def webp(side: int) -> bytes:
    """Everything but the pixels is as it must be, or old decoders refuse it for another reason."""
    canvas = bytes(4) + 2 * (side - 1).to_bytes(3, "little")
    frame = b"\x2f" + ((side - 1) | (side - 1) << 14).to_bytes(4, "little") + bytes(15)
    parts = ((b"VP8X", canvas), (b"VP8L", frame))
    content = b"".join(name + struct.pack("<I", len(part)) + part for name, part in parts)
    return b"RIFF" + struct.pack("<I", 4 + len(content)) + b"WEBP" + content


def plain_webp(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "WEBP", lossless=True, quality=0, method=0)
    return file.getvalue()


def many_scans(count: int = 5000, before: bytes = b"") -> bytes:
    file = io.BytesIO()
    Image.new("L", (2000, 2000)).save(file, "JPEG", progressive=True)
    content = file.getvalue()
    last = content.rindex(b"\xff\xda")
    return content[:last] + before + count * content[last:-2] + b"\xff\xd9"


def bombs() -> dict[str, tuple[bytes, str]]:
    """Files, and what their refusal says."""
    many, short = "pixels", "cannot be read"
    text = chunk(b"zTXt", b"key\0\0" + zeros(3 * 10**8))
    profile = chunk(b"iCCP", b"key\0\0" + zeros(3 * 10**8))
    texts = [chunk(b"zTXt", b"%d\0\0" % i + zeros(900_000)) for i in range(100)]
    pixel = zlib.compress(bytes(2))
    return {
        "20k.png": (png(20_000, 20_000, zeros(20_001 * 20_000)), many),
        "lying.png": (png(9000, 9000, pixel), short),
        "row.png": (png(89_000_000, 1, zeros(89_000_001)), "a side is over"),
        "text.png": (png(1, 1, pixel, text), short),
        "texts.png": (png(1, 1, pixel, *texts), short),
        "profile.png": (png(1, 1, pixel, profile), short),
        "20k.tif": (tiff(20_000, 20_000), many),
        "lying.tif": (tiff(9000, 9000), short),
        "lying-deflate.tif": (tiff(9000, 9000, compression=8), short),
        "lying-lzw.tif": (tiff(9000, 9000, compression=5), short),
        "samples.tif": (tiff(9, 9, samples=65_535), "not an image"),
        "tag.tif": (tiff(9000, 9000, more=(700, 1, 2**31 - 1, 8)), short),
        "canvas.gif": (gif(65_535, 65_535), many),
        "frame.gif": (gif(1, 60_000), many),
        "lying.gif": (gif(1, 9000), short),
        "giant.bmp": (bmp(2**31 - 1), many),
        "lying.bmp": (bmp(9000), short),
        "giant.pgm": (b"P5 2000000000 2000000000 255\n", many),
        "lying.pgm": (b"P5 9000 9000 255\n", short),
        "number.pgm": (b"P5 " + b"1" * 10**7 + b" 5 255\n", short),
        "comment.pgm": (b"P2 8 8 255\n" + b"#" * 10**7, short),
        "16k.webp": (webp(16_383), many),
        "plain.webp": (plain_webp(7000, 5000), many),
        "lying.webp": (webp(5000), short),
        "scans.jpg": (many_scans(), "scans"),
        # A marker without a length: the 65,498 bytes behind it are not its content.
        "hidden-scans.jpg": (many_scans(2000, before=b"\xff\x01"), "scans"),
        "short-scans.jpg": (many_scans(2000, before=b"\xff\xda\0\2" * 10**6), "scans"),
        **floods(),
    }


def floods() -> dict[str, tuple[bytes, str]]:
    """Files of millions of tiny parts."""
    reason = "small chunks"
    jpeg, image = many_scans(0), gif(9, 9)
    text, nothing = chunk(b"tEXt", b"a\0b"), chunk(b"IDAT", b"")
    pixels, end = zlib.compress(bytes(2)), chunk(b"IEND", b"")
    return {
        "fill.jpg": (b"\xff\xd8" + b"\xff" * 10**7, reason),
        "junk.jpg": (b"\xff\xd8\xff" + bytes(10**7), reason),
        "comments.jpg": (jpeg[:2] + b"\xff\xfe\0\2" * 10**6 + jpeg[2:], reason),
        "texts-before.png": (png(1, 1, pixels, text * 10**6), reason),
        "texts-behind.png": (png(1, 1, pixels)[: -len(end)] + text * 10**6 + end, reason),
        "empty.png": (png(1, 1, pixels, nothing * 10**6), reason),
        "comment-before.pgm": (b"P5 #" + b"x" * 10**7 + b"\n8 8 255\n" + bytes(64), reason),
        "blanks.pgm": (b"P5 " + b" " * 10**7 + b"\n8 8 255\n" + bytes(64), reason),
        "comment.gif": (image[:19] + b"!\xfe" + b"\1x" * 10**6 + b"\0" + image[19:], reason),
        "comments.gif": (image[:19] + b"!\xfe\1x\0" * 10**6 + image[19:], reason),
    }


def test_bombs_are_refused_in_little_time_and_memory(tmp_path):
    made = bombs()
    for name, (content, _) in made.items():
        (tmp_path / name).write_bytes(content)
    done = run_alone(READ_ALL, json.dumps([str(tmp_path / name) for name in made]))
    assert done.returncode == 0, done.stderr
    found, peak = json.loads(done.stdout)
    for name, (_, expected) in made.items():
        reason, seconds = found[str(tmp_path / name)]
        assert expected in (reason or "was read"), name
        assert seconds < 5, name
    assert peak * (1 if sys.platform == "darwin" else 1024) < 300e6
