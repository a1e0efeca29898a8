"""lrrspm train."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import config
from .._support.text import plural, printable
from .app import command, report_skipped
from .folders import find_training, keep_together
from .options import (
    ALL,
    CacheFolder,
    ClassWeights,
    DeviceName,
    EngineName,
    Group,
    ImageFolder,
    Jobs,
    Json,
    LabelColumn,
    MethodName,
    NearCopies,
    OnError,
    OnErrorLimited,
    PathColumn,
    Penalty,
    Place,
    ReportPath,
    Seed,
    as_file,
    check_replaced,
    most_skipped,
    parse_weights,
)
from .report import NO_ESTIMATE, about_training, check_report, print_written, write_report
from .terminal import (
    print_estimate,
    print_json,
    print_kept_together,
    print_reused,
    print_seconds,
    print_tested,
    progress,
    reused,
    warn_about_rare,
)
from .tunables import Tuned, make_classifiers, tunable


@command
@tunable
def train(
    context: typer.Context,
    folder: ImageFolder,
    output: Annotated[
        Place,
        typer.Option(
            "--output",
            "-o",
            metavar="MODEL",
            parser=as_file,
            help="Where to save the model: a file, or an address such as s3://a/my.lrrspm.",
        ),
    ],
    tuned: Tuned,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate/--no-estimate",
            help="Estimate the accuracy by cross-validation: overall, per class, and by "
            "confidence.",
        ),
    ] = True,
    group: Group = None,
    near_copies: NearCopies = True,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    method: MethodName = config.METHOD,
    penalty: Penalty = config.C,
    class_weight: ClassWeights = None,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    engine: EngineName = config.ENGINE,
    cache: CacheFolder = None,
    on_error: OnErrorLimited = None,
    report: ReportPath = None,
    as_json: Json = False,
) -> None:
    """Train a model on a folder of images and save it to one file.

    Unreadable images are listed and left out, as if they were not there; the exit code
    is then 3. With --cache, a second run takes seconds and an interrupted run resumes.
    If the folder has train/ and test/, the model is trained on train/ and also tested
    on test/.

    Example: lrrspm train images -o my.lrrspm
    """
    from .._support.files import check_target, file_size
    from .._support.stages import Stages
    from ..evaluation import score_model, train_with_estimate
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
        engine=engine,
    )[method]
    check_target(output)
    check_replaced(output)
    check_restorable(classifier.new_features(), classifier.new_svm(), saved=True)
    check_report(report, output)
    images = find_training(folder, path_column, label_column)
    paths, labels = images.part(test=False)
    to_test = images.part(test=True)
    with progress() as listener:
        stages = Stages(listener)
        store = classifier.store()
        groups = keep_together(images, folder, group, near_copies, jobs, stages, store, engine)
        groups = None if groups is None else groups.first(len(paths))
        found, skipped = train_with_estimate(
            paths, labels, classifier, estimate, stages, most_skipped(on_error), groups,
            mistakes=report is not None, store=store,
        )  # fmt: skip
        classifier.save(output)
        tested = None
        if set(to_test[1]) & set(labels):
            tested = score_model(classifier, *to_test, stages, on_error is not OnError.FAIL)
            skipped = [*skipped, *tested.skipped]
        seconds = dict(stages.seconds)  # without those of the report
        parameters = describe_parameters(classifier)
        summary = classifier.summary_
        if report is not None:
            write_report(
                report, context, folder, jobs, f"Training on {folder}",
                about_training(summary, estimate, tested), {method: parameters},
                {} if found is None else {method: found}, paths, labels, skipped, stages,
                (path_column, label_column),
            )  # fmt: skip
    if as_json:
        print_json(
            model=str(output),
            images=summary["images"],
            classes=len(classifier.classes_),
            images_per_class=summary["images_per_class"],
            estimate=summary.get("estimate"),
            **({} if groups is None else {"kept_together": groups.to_json()}),
            **({} if tested is None else {"test": tested.to_json()}),
            bytes=file_size(output),
            seconds=seconds,
            from_cache=reused(store),
            parameters=parameters,
            skipped=[one.to_json() for one in skipped],
            **({} if report is None else {"report": str(report)}),
        )
    else:
        used, classes = plural(summary["images"], "image"), len(classifier.classes_)
        print(f"{printable(output)}: {used}, {plural(classes, 'class')}")
        if found is not None:
            print_estimate(summary)
        elif estimate:
            print(f"no estimate: {NO_ESTIMATE}")
        print_kept_together(groups)
        if tested is not None:
            print_tested(tested)
        print_seconds(seconds)
        print_reused(store)
        print_written(report)
        print(f"next: lrrspm predict {printable(output)} IMAGE...")
    warn_about_rare(summary)
    report_skipped(skipped, len(images.paths))
