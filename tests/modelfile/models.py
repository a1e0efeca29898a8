"""Model files of both formats, to be changed by tests."""

import json
import struct

from safetensors.numpy import load_file, save_file

from tests.conftest import HERE

FORMAT_1 = HERE / "golden" / "format1-LrrSPM.safetensors"
FORMAT_1_KERNEL = HERE / "golden" / "format1-KernelSPM.safetensors"


def header(path):
    """Return the description of a model file."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["lrrspm"])


def rewrite(source, target, change):
    """Write a model file with another description or other arrays."""
    description, arrays = header(source), load_file(source)
    change(description, arrays)
    save_file(arrays, target, {"lrrspm": json.dumps(description)})
    return target


# Places of a description, and names of arrays, in either format.


def descriptor(d):
    """Return the parameters of the descriptor."""
    return d["parameters"] if d["format"] == 1 else d["channels"][0]["descriptor"]["parameters"]


def encoder(d):
    """Return the description of the encoder."""
    return d["encoder"] if d["format"] == 1 else d["channels"][0]["encoder"]


def name_encoder(d, name):
    """Give the encoder another name."""
    encoder(d)["type" if d["format"] == 1 else "name"] = name


def pyramid(d):
    """Return what holds the levels."""
    return d["parameters"] if d["format"] == 1 else d["channels"][0]


def svm(d):
    """Return the parameters of the SVM."""
    return d["parameters"] if d["format"] == 1 else d["svm"]["parameters"]


def name_method(d, name):
    """Give the model another method."""
    (d["parameters"] if d["format"] == 1 else d)["method"] = name


def codebook(d):
    """Return the name of the codebook's array."""
    return "codebook" if d["format"] == 1 else "channels.0.codebook"


def projection(d):
    """Return the name of the projection's array."""
    return "encoder.projection" if d["format"] == 1 else "channels.0.projection"
