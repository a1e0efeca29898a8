"""Sampling: random descriptors of many images, and the channels fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state, column_or_1d

from .._support.stages import Stages
from .._support.text import plural
from ..cache import FeatureStore, Form, Shelf, hash_of, part_key
from ..encoders import Progress
from ..images import KeptImages
from .chunks import Draw, Item, Sources, compile_reading, draw_quota, sample_chunk
from .devices import check_computable
from .encoding import Stores, checked, device_key
from .engines import Engine
from .fitted import Place, array_names, fitted_arrays, recipe_of, restore_channel
from .timing import divided
from .unreadable import Unreadable

if TYPE_CHECKING:
    from ..channels import Channel
    from ..features import Image, SpatialPyramidFeatures

_CODEBOOKS = Form(("F32", "F64"), (range(1, 2**32), range(1, 2**32)))


def fit_features(
    features: Sequence[SpatialPyramidFeatures],
    images: Sequence[Image],
    members: Sequence[NDArray[np.int64]],
    engine: Engine,
    stages: Stages,
    skip: bool = False,
    store: FeatureStore | None = None,
    kept: KeptImages | None = None,
    labels: ArrayLike | None = None,
) -> dict[int, str]:
    """Fit several features, each to its own members of images, reading each image once.

    Channels with the same descriptor, seed, members and number of samples share
    their sample, and k-means codebooks of one size learned from it.
    ``features[i].fit`` on the members alone gives the same bits. Files are put
    into ``kept`` for the next pass over them. Labels of the images reach the
    encoders that use them, and nothing else.

    Returns
    -------
    dict of int to str
        With ``skip``, indices of images that cannot be read, and the reasons;
        if there are any, nothing was fitted. Images that are no members may be
        among them. Without ``skip`` the first one raises.
    """
    check_computable(features, engine)
    stores = Stores(features, store)
    sources = Sources(kept)
    plans = _make_plans(features, members, sources)
    known = _needed_labels(plans, labels, len(images))
    codebooks = stores.main.shelf("codebooks", {} if stores.main.active else None, _CODEBOOKS)
    unreadable = Unreadable(stores.main)
    with stores.main.timed(stages):
        digests = stores.main.digests(images, engine.map_each)
        for plan in plans:
            plan.look_up(stores.of(plan.owner), codebooks, digests, engine.device)
    skipped: dict[int, str] = {}
    try:
        if skip:
            skipped = unreadable.try_first(features[0], images, digests, engine)
        if not skipped:
            _sample(plans, sources, images, digests, stores, engine, stages, skip, skipped)
    finally:
        unreadable.keep(digests, skipped)
        for plan in plans:
            # The next try is without the skipped images, and draws other samples.
            plan.samples.discard() if skipped else plan.samples.flush()
    if skipped:
        return skipped
    # The sample of a plan that is left out stays in the store: it tells why.
    left_out = [plan for plan in plans if not plan.called_for]
    plans = [plan for plan in plans if plan.called_for]
    with stages.timed("codebook"):
        for number, plan in enumerate(plans, start=1):
            name = "learning codebook" + (f" {number}" if len(plans) > 1 else "")
            plan.fit_channels(codebooks, engine, partial(stages.tell, name), known)
    for number, feature in enumerate(features):
        fitted = {c: channel for plan in plans for o, c, channel in plan.channels if o == number}
        templates = feature.new_channels()
        for c, channel in fitted.items():
            channel.encoder = templates[c].encoder  # as it was given, without our seed
            channel.when = None  # decided
            channel.weight = 1.0 if channel.weight is None else channel.weight
        feature.channels_ = [fitted[c] for c in sorted(fitted)]
        feature.left_out_ = {
            c: plan.lacks for plan in left_out for o, c, _ in plan.channels if o == number
        }
    return {}


def _make_plans(
    features: Sequence[SpatialPyramidFeatures],
    members: Sequence[NDArray[np.int64]],
    sources: Sources,
) -> list[_Plan]:
    """List the samples that several features need; channels alike share one."""
    plans: dict[Any, _Plan] = {}
    for owner, (feature, indices) in enumerate(zip(features, members, strict=True)):
        feature.check_parameters()
        rng = check_random_state(feature.random_state)
        seed, encoder_seed = (int(n) for n in rng.randint(2**31, size=2))
        for number, channel in enumerate(feature.new_channels()):
            encoder = channel.encoder
            if "random_state" in encoder.get_params() and encoder.random_state is None:
                encoder.set_params(random_state=encoder_seed)
            source = sources.add(feature, channel)
            located = channel.projection is not None
            key = (source, seed, feature.n_samples, located, np.asarray(indices).tobytes())
            if key not in plans:
                drawn = _drawn_from(len(indices), feature.n_samples, seed)
                places = {int(indices[place]): int(place) for place in drawn}
                quota = draw_quota(feature.n_samples, len(indices), located)
                plans[key] = _Plan(feature, Draw(source, quota, seed, located), places)
            plans[key].channels.append((owner, number, channel))
    return list(plans.values())


def _drawn_from(n_images: int, n_samples: int, seed: int) -> NDArray[np.int64]:
    """Return the places of the images that samples are drawn from: all, but at most n_samples."""
    if n_images <= n_samples:
        return np.arange(n_images)
    rng = np.random.default_rng((seed, n_images))
    return np.sort(rng.choice(n_images, n_samples, replace=False))


def check_labels_of(labels: ArrayLike, n_images: int) -> NDArray[Any]:
    """Return labels as an array with one per image."""
    known = column_or_1d(labels)
    if len(known) != n_images:
        raise ValueError(f"{n_images} images, but {len(known)} labels")
    return known


def _needed_labels(
    plans: Sequence[_Plan], labels: ArrayLike | None, n_images: int
) -> NDArray[Any] | None:
    """Return one label per image; None where no encoder uses them."""
    users = [c.encoder for plan in plans for _, _, c in plan.channels if c.encoder.uses_labels]
    if not users:
        return None
    if labels is None:
        raise ValueError(f"{type(users[0]).__name__} learns from labels, but y is None")
    return check_labels_of(labels, n_images)


class _Rows:
    """A growing matrix: few large arrays, where a list of parts would fragment memory."""

    def __init__(self) -> None:
        self._rows = np.empty((0, 0), np.float32)
        self._used = 0

    def append(self, part: NDArray[np.float32]) -> None:
        if self._used + len(part) > len(self._rows):
            grown = np.empty((2 * (self._used + len(part)), part.shape[1]), np.float32)
            grown[: self._used] = self._rows[: self._used] if self._used else 0
            self._rows = grown
        self._rows[self._used : self._used + len(part)] = part
        self._used += len(part)

    def values(self) -> NDArray[np.float32]:
        return self._rows[: self._used]

    def clear(self) -> None:
        self._rows = self._rows[:0].copy()
        self._used = 0


class _Plan:
    """A sample to be drawn, and the channels to fit to it.

    Attributes
    ----------
    owner : SpatialPyramidFeatures
        The first features that need the sample.
    draw : Draw
    places : dict of int to int
        Place of each image, by its index, among those of the sample.
    channels : list of (int, int, Channel)
        Number of the features, number of the channel, and the channel.
    rows : _Rows
        The sample.
    learned : dict
        Codebooks by the recipe they were learned by.
    restored : set of (int, int)
        Features and channels that a store had, without a recipe for a codebook.
    samples : Shelf
        Rows that were drawn, until their codebooks are learned.
    drawn : dict
        Rows found there, by the image's index.
    sources : list of (int, int)
        Index of each image that rows came from, and how many. A plan of colors has
        none from images without color.
    """

    def __init__(self, owner: SpatialPyramidFeatures, draw: Draw, places: dict[int, int]) -> None:
        self.owner, self.draw, self.places = owner, draw, places
        self.channels: list[tuple[int, int, Channel]] = []
        self.rows = _Rows()
        self.learned: dict[str, NDArray[Any]] = {}
        self.restored: set[tuple[int, int]] = set()
        self.samples = FeatureStore(None).shelf("samples", None, _CODEBOOKS)
        self.drawn: dict[int, NDArray[np.float32]] = {}
        self.sources: list[tuple[int, int]] = []
        self._names: dict[str, str] = {}
        self._array_names: dict[tuple[int, int], dict[Place, str]] = {}

    @property
    def complete(self) -> bool:
        """True if nothing is left to be learned."""
        return all(
            (owner, number) in self.restored or recipe_of(channel) in self.learned
            for owner, number, channel in self.channels
        )

    @property
    def called_for(self) -> bool:
        """False for a plan of colors if less than half of its images have color."""
        # Codebooks are learned, and so found in a store, only for plans that were called for.
        return self.complete or 2 * len(self.sources) >= len(self.places)

    @property
    def lacks(self) -> str:
        """Why a plan is not called for."""
        images = plural(len(self.places), "training image")
        return f"only {len(self.sources):,} of {images} have color"

    def take(self, index: int, values: NDArray[np.float32]) -> None:
        """Add the descriptors that were drawn from one image, if any."""
        if len(values):
            self.rows.append(values)
            self.sources.append((index, len(values)))

    def look_up(
        self,
        store: FeatureStore,
        codebooks: Shelf,
        digests: Sequence[str | None],
        device: str,
    ) -> None:
        """Take from a store what an earlier run left there.

        Samples have the same bits beside a device; what is learned from them may not.
        """
        # Nobody can ask again for results of a seed that was never named.
        if self.owner.random_state is None or not store.active:
            return
        descriptor = part_key("descriptors", self.channels[0][2].descriptor)
        if descriptor is None:
            return
        members = [digests[index] for index in self.places]
        about = {
            "descriptor": descriptor,
            "when": self.channels[0][2].when,
            "sides": (self.owner.max_side, self.owner.min_side),
            "seed": self.draw.seed,
            "quota": self.draw.quota,
            "located": self.draw.located,
            "members": hash_of(members),
        }
        if None not in members:
            learned = {**about, **device_key(device)}
            recipes = {
                recipe_of(channel)
                for _, _, channel in self.channels
                if part_key("encoders", channel.encoder) is not None
            }
            self._names = {recipe: hash_of([learned, recipe]) for recipe in recipes if recipe}
            self._restore(codebooks, learned)
        n_values = self.channels[0][2].descriptor.n_values
        found = dict(codebooks.fetch(self._names.values()))
        self.learned = {
            recipe: found[name]
            for recipe, name in self._names.items()
            if name in found and found[name].shape[1] == n_values
        }
        rows = range(self.draw.quota + 1)
        columns = n_values + 2 * self.draw.located
        form = Form(("F32",), (rows, range(columns, columns + 1)))
        self.samples = store.shelf("samples", about, form)
        if not self.complete:
            index_of = {str(place): index for index, place in self.places.items()}
            for name, values in self.samples.fetch(index_of):
                self.drawn[index_of[name]] = values

    def _restore(self, codebooks: Shelf, about: dict[str, Any]) -> None:
        """Take whole channels from a store: those that learn more than a codebook."""
        for owner, number, channel in self.channels:
            if recipe_of(channel) is not None or channel.encoder.uses_labels:
                continue
            names = array_names(channel, about)
            self._array_names[owner, number] = names
            found = dict(codebooks.fetch(names.values()))
            arrays = {place: found[name] for place, name in names.items() if name in found}
            if arrays and len(arrays) == len(names) and restore_channel(channel, arrays):
                self.restored.add((owner, number))

    def fit_channels(
        self,
        codebooks: Shelf,
        engine: Engine,
        progress: Progress,
        known: NDArray[Any] | None,
    ) -> None:
        """Fit the channels; each codebook is learned once."""
        rows = self.rows.values()
        labels = None
        if known is not None and self.sources:
            indices, counts = zip(*self.sources, strict=True)
            labels = np.repeat(known[list(indices)], counts)
        for owner, number, channel in self.channels:
            recipe, encoder = recipe_of(channel), channel.encoder
            if (owner, number) in self.restored:
                continue
            if recipe is None:
                channel.fit_on(rows, engine.threads, progress, labels)
                names = self._array_names.get((owner, number), {})
                for place, array in fitted_arrays(channel).items() if names else ():
                    codebooks.put(names[place], array)
                codebooks.flush()
                continue
            if recipe not in self.learned:
                self.learned[recipe] = encoder.learn(rows, engine.threads, progress)
                codebooks.put(self._names.get(recipe), self.learned[recipe])
                codebooks.flush()
            codebook = self.learned[recipe]
            # Where all came from a store nothing was drawn, and nothing is needed.
            encoder.set_params(codebook=codebook)
            channel.fit_on(rows if len(rows) else codebook[:1], engine.threads, progress)
            for one in (encoder, channel.encoder_):
                one.set_params(codebook=None)
        self.samples.discard()
        self.rows.clear()


def _sample(
    plans: Sequence[_Plan],
    sources: Sources,
    images: Sequence[Image],
    digests: Sequence[str | None],
    stores: Stores,
    engine: Engine,
    stages: Stages,
    skip: bool,
    skipped: dict[int, str],
) -> None:
    """Draw the samples of several plans, reading each image once."""
    plans = [plan for plan in plans if not plan.complete]
    items = []
    for index in sorted(set().union(*(plan.places for plan in plans))):
        jobs = tuple(
            n for n, plan in enumerate(plans) if index in plan.places and index not in plan.drawn
        )
        places = tuple(plans[n].places[index] for n in jobs)
        items.append(Item(index, images[index], jobs, places))
    if items:
        compile_reading()
    draws = [plan.draw for plan in plans]
    with divided(stages, ["read", "describe"]) as spent:
        made = engine.map_chunks(sample_chunk, items, sources, draws)
        outcomes = stages.track("reading images", made, len(items))
        for item, outcome, unchanged in checked(items, outcomes, stores.main, digests):
            spent += outcome.seconds
            if outcome.error is not None:
                if not skip:
                    raise outcome.error
                skipped[item.number] = outcome.error.reason
                continue
            drawn = dict(zip(item.jobs, outcome.arrays, strict=True))
            for n, plan in enumerate(plans):
                if n in drawn:
                    if unchanged:
                        plan.samples.put(str(plan.places[item.number]), drawn[n])
                    plan.take(item.number, drawn[n])
                elif item.number in plan.drawn:
                    plan.take(item.number, plan.drawn.pop(item.number))
