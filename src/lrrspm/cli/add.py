"""lrrspm add."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import config
from .._support.text import plural, printable
from .app import command, report_skipped
from .options import (
    CacheFolder,
    DeviceName,
    Jobs,
    Json,
    LabelColumn,
    ModelPath,
    NearCopies,
    OnErrorLimited,
    PathColumn,
    Place,
    as_file,
    as_place,
    check_replaced,
    most_skipped,
)
from .report import NO_ESTIMATE
from .terminal import (
    print_estimate,
    print_json,
    print_reused,
    print_seconds,
    progress,
    reused,
    warn_about_rare,
)

if TYPE_CHECKING:
    from ..growing import Changes


@command
def add(
    model: ModelPath,
    folders: Annotated[
        list[Place],
        typer.Argument(
            metavar="DIR...",
            parser=as_place,
            help="Folders with one subfolder of images per class, or CSV files: all images of the "
            "model, old and new. If an image is in several, the last one counts.",
        ),
    ],
    output: Annotated[
        Place | None,
        typer.Option(
            "--output",
            "-o",
            metavar="MODEL",
            parser=as_file,
            help="Write the new model here and keep the old one.",
        ),
    ] = None,
    forget_missing: Annotated[
        bool,
        typer.Option("--forget-missing", help="Forget images of the model that are not in DIR."),
    ] = False,
    retrain: Annotated[
        bool,
        typer.Option("--retrain", help="Learn the codebooks anew, too, as train does."),
    ] = False,
    estimate: Annotated[
        bool,
        typer.Option("--estimate/--no-estimate", help="Estimate the accuracy of the new model."),
    ] = True,
    near_copies: NearCopies = True,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    cache: CacheFolder = None,
    on_error: OnErrorLimited = None,
    as_json: Json = False,
) -> None:
    """Add images to a model: new images, new classes, corrected labels.

    Codebooks stay as they are; the rest is trained again on all images. The vectors of
    old images come from --cache if train used the same one, else they are computed again.

    Example: lrrspm add my.lrrspm images corrections
    """
    from .._support.files import check_target, file_size
    from .._support.stages import Stages
    from ..evaluation import find_groups, train_with_estimate
    from ..growing import find_changes, gather
    from ..images import find_images, warn_about
    from ..loading import load_model
    from ..pipeline import open_engine

    target = model if output is None else output
    classifier = load_model(model).set_params(n_jobs=jobs, cache=cache, device=device)
    check_target(target)
    check_replaced(target)
    found = [
        find_images(folder, "train", path_column, label_column)
        if Path(folder).is_file()
        else find_images(folder)
        for folder in folders
    ]
    store = classifier.store()
    with open_engine(jobs) as engine:
        images = gather(found, store, engine)
    changes = find_changes(classifier, images)
    if changes.gone and not forget_missing:
        gone, each = _count_gone(changes)
        raise ValueError(
            f"not in {', '.join(map(str, folders))}: {gone} of the model ({each}); add their "
            "folders, or forget them with --forget-missing"
        )
    warn_about(images.paths, images.labels)
    before = set(classifier.classes_.tolist())
    with progress() as listener:
        stages = Stages(listener)
        groups = None
        if near_copies:
            groups = find_groups(images.paths, images.labels, jobs, stages, store)
        result, skipped = train_with_estimate(
            images.paths, images.labels, classifier, estimate, stages, most_skipped(on_error),
            groups, frozen=not retrain, store=store,
        )  # fmt: skip
        classifier.save(target)
    left_out = {one.path for one in skipped}
    changes = changes._replace(new=[path for path in changes.new if path not in left_out])
    summary, after = classifier.summary_, set(classifier.classes_.tolist())
    if as_json:
        print_json(
            model=str(target),
            images=summary["images"],
            **changes._asdict(),
            classes=len(after),
            new_classes=sorted(after - before),
            gone_classes=sorted(before - after),
            images_per_class=summary["images_per_class"],
            estimate=summary.get("estimate"),
            bytes=file_size(target),
            seconds=dict(stages.seconds),
            from_cache=reused(store),
            skipped=[one.to_json() for one in skipped],
        )
    else:
        _print_changes(changes, sorted(after - before), sorted(before - after))
        total = f"{plural(summary['images'], 'image')}, {plural(len(after), 'class')}"
        print(f"{printable(target)}: {total}")
        if result is not None:
            print_estimate(summary)
        elif estimate:
            print(f"no estimate: {NO_ESTIMATE}")
        print_seconds(stages.seconds)
        print_reused(store)
    warn_about_rare(summary)
    report_skipped(skipped, len(images.paths))


def _print_changes(changes: Changes, new_classes: list[str], gone_classes: list[str]) -> None:
    gone, each = _count_gone(changes)
    print(
        f"{plural(len(changes.new), 'new image')}, {changes.known:,} known, "
        f"{len(changes.relabeled):,} with a new label"
        + (f"; forgot {gone} ({each})" if changes.gone else "")
    )
    for what, names in (("new", new_classes), ("gone", gone_classes)):
        if names:
            print(f"{what} classes: {', '.join(map(printable, names))}")


def _count_gone(changes: Changes) -> tuple[str, str]:
    """Return how many images are gone, in all and per class."""
    each = ", ".join(f"{count:,} of {printable(name)}" for name, count in changes.gone.items())
    return plural(sum(changes.gone.values()), "image"), each
