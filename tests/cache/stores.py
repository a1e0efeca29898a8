"""Small features and classifiers with a store, and what is in it."""

from lrrspm import ImageClassifier, LRREncoder, SpatialPyramidFeatures, find_images
from lrrspm.cache.store import contents
from lrrspm.evaluation.protocol import train_with_estimate


def small(cache=None, **parameters):
    parameters = {"encoder": LRREncoder(codebook_size=8), "random_state": 0, **parameters}
    return SpatialPyramidFeatures(cache=cache, **{"n_samples": 2000, **parameters})


def classifier(cache=None, **parameters):
    encoder = LRREncoder(codebook_size=8)
    parameters = {"encoder": encoder, "n_samples": 2000, "random_state": 0, **parameters}
    return ImageClassifier(cache=cache, **parameters)


def shards(folder, kind="*"):
    return sorted(folder.glob(f"{kind}/*/*.safetensors"))


def counts(folder):
    """Arrays of each kind, and reasons for what cannot be read where there are any."""
    found = dict.fromkeys(("codebooks", "samples", "vectors"), 0)
    for shelf in contents(folder):
        found[shelf["kind"]] = found.get(shelf["kind"], 0) + shelf["arrays"]
    return found


def model_bytes(pictures, path, cache, **parameters):
    model = classifier(cache, **parameters)
    train_with_estimate(*find_images(pictures), model)
    model.save(path)
    return path.read_bytes()
