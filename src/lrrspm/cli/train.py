"""lrrspm train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import config
from .._support.text import plural, printable
from .app import command, report_skipped
from .options import (
    ALL,
    CacheFolder,
    ClassWeights,
    DeviceName,
    ImageFolder,
    Jobs,
    Json,
    MethodName,
    OnErrorLimited,
    Penalty,
    ReportPath,
    Seed,
    most_skipped,
    parse_weights,
)
from .report import NO_ESTIMATE, about_training, check_report, print_written, write_report
from .terminal import print_estimate, print_json, print_seconds, progress, warn_about_rare
from .tunables import Tuned, make_classifiers, tunable


@command
@tunable
def train(
    context: typer.Context,
    folder: ImageFolder,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="Where to write the model.")
    ],
    tuned: Tuned,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate/--no-estimate",
            help="Say how good the model is, by cross-validation: in all, per class, and "
            "by confidence.",
        ),
    ] = True,
    method: MethodName = config.METHOD,
    penalty: Penalty = config.C,
    class_weight: ClassWeights = None,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    cache: CacheFolder = None,
    on_error: OnErrorLimited = None,
    report: ReportPath = None,
    as_json: Json = False,
) -> None:
    """Train a model from a folder of images and write it to one file.

    Images that cannot be read are listed and left out, as if they were not there;
    the exit code is then 3. With --cache a second run takes seconds, and an
    interrupted run resumes.

    Example: lrrspm train images -o my.lrrspm
    """
    from .._support.files import check_target
    from .._support.stages import Stages
    from ..evaluation import train_with_estimate
    from ..images import find_images, warn_about
    from ..modelfile import check_restorable, describe_parameters

    if method == ALL:
        raise typer.BadParameter("all is for evaluate; name one method", param_hint="--method")
    classifier = make_classifiers(
        [method],
        tuned,
        C=penalty,
        class_weight=parse_weights(class_weight),
        random_state=seed,
        n_jobs=jobs,
        cache=cache,
        device=device,
    )[method]
    check_target(output)
    _check_replaced(output)
    check_restorable(classifier.new_features(), classifier.new_svm(), saved=True)
    check_report(report, output)
    paths, labels = find_images(folder)
    warn_about(paths, labels)
    with progress() as listener:
        stages = Stages(listener)
        found, skipped = train_with_estimate(
            paths, labels, classifier, estimate, stages, most_skipped(on_error),
            mistakes=report is not None,
        )  # fmt: skip
        classifier.save(output)
        seconds = dict(stages.seconds)  # without those of the report
        parameters = describe_parameters(classifier)
        summary = classifier.summary_
        if report is not None:
            write_report(
                report, context, folder, jobs, f"Training on {folder}",
                about_training(summary, estimate), {method: parameters},
                {} if found is None else {method: found}, paths, labels, skipped, stages,
            )  # fmt: skip
    if as_json:
        print_json(
            model=str(output),
            images=summary["images"],
            classes=len(classifier.classes_),
            images_per_class=summary["images_per_class"],
            estimate=summary.get("estimate"),
            bytes=output.stat().st_size,
            seconds=seconds,
            parameters=parameters,
            skipped=[one.to_json() for one in skipped],
            **({} if report is None else {"report": str(report)}),
        )
    else:
        images, classes = plural(summary["images"], "image"), len(classifier.classes_)
        print(f"{printable(output)}: {images}, {plural(classes, 'class')}")
        if found is not None:
            print_estimate(summary)
        elif estimate:
            print(f"no estimate: {NO_ESTIMATE}")
        print_seconds(seconds)
        print_written(report)
        print(f"next: lrrspm predict {printable(output)} IMAGE...")
    warn_about_rare(summary)
    report_skipped(skipped, len(paths))


def _check_replaced(output: Path) -> None:
    """Refuse to overwrite a file that is no model: it may be precious."""
    from ..modelfile import ModelFileError, open_model

    if not output.is_file() or not output.stat().st_size:
        return
    try:
        with open_model(output):
            pass
    except ModelFileError:
        raise typer.BadParameter(
            f"{printable(output)} exists and is not a model; give another name",
            param_hint="--output",
        ) from None
