"""Small features and classifiers with a store, and what is in it."""

from lrrspm import Channel, ImageClassifier, LRREncoder, SpatialPyramidFeatures, find_images
from lrrspm.cache import contents
from lrrspm.evaluation import train_with_estimate


def small(cache=None, encoder=None, **parameters):
    """Features of one channel; ``pooling`` and ``levels`` are the channel's."""
    own = {name: parameters.pop(name) for name in ("pooling", "levels") if name in parameters}
    channels = [Channel(encoder or LRREncoder(codebook_size=8), **own)]
    parameters = {"n_samples": 2000, "random_state": 0, **parameters}
    return SpatialPyramidFeatures(channels, cache=cache, **parameters)


def classifier(cache=None, **parameters):
    parameters = {"n_samples": 2000, "random_state": 0, **parameters}
    model = ImageClassifier(cache=cache, **parameters)
    return model.set_params(channels__0__encoder__codebook_size=8)


def shards(folder, kind="*"):
    return sorted(folder.glob(f"{kind}/*/*.safetensors"))


def counts(folder):
    """Arrays of each kind, and reasons for what cannot be read where there are any."""
    found = dict.fromkeys(("codebooks", "samples", "vectors"), 0)
    for shelf in contents(folder):
        found[shelf["kind"]] = found.get(shelf["kind"], 0) + shelf["arrays"]
    return found


def model_bytes(image_folder, path, cache, **parameters):
    model = classifier(cache, **parameters)
    train_with_estimate(*find_images(image_folder), model)
    model.save(path)
    return path.read_bytes()
