"""lrrspm evaluate and lrrspm score."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import config
from .app import command, report_skipped
from .options import (
    ALL,
    CacheFolder,
    DeviceName,
    ImageFolder,
    Jobs,
    Json,
    MethodName,
    ModelPath,
    OnError,
    OnErrorLimited,
    OnErrorSkip,
    Penalty,
    ReportPath,
    Seed,
    most_skipped,
)
from .report import ABOUT_SCORE, about_evaluation, check_report, print_written, write_report
from .terminal import print_evaluation, print_json, print_methods, progress
from .tunables import Tuned, make_classifiers, tunable


@command
@tunable
def evaluate(
    context: typer.Context,
    folder: ImageFolder,
    tuned: Tuned,
    train_per_class: Annotated[
        int, typer.Option("--train-per-class", min=1, help="Training images per class.")
    ] = config.TRAIN_PER_CLASS,
    splits: Annotated[int, typer.Option("--splits", min=1, help="Random splits.")] = config.SPLITS,
    shared_codebook: Annotated[
        bool,
        typer.Option(
            "--shared-codebook",
            help="One codebook from all images, test images too, as in the paper.",
        ),
    ] = False,
    method: MethodName = config.METHOD,
    penalty: Penalty = config.C,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    cache: CacheFolder = None,
    on_error: OnErrorLimited = None,
    report: ReportPath = None,
    as_json: Json = False,
) -> None:
    """Measure accuracy on random splits of a folder: train on some images, test on the rest.

    Accuracy is the mean of the per-class accuracies. Images that cannot be read are
    listed and left out, as if they were not there; the exit code is then 3. With
    --method all every method is measured on the same splits and codebooks.

    Example: lrrspm evaluate images --train-per-class 30
    """
    from .._support.stages import Stages
    from ..evaluation import evaluate_all
    from ..images import find_images, warn_about
    from ..methods import METHODS

    names = list(METHODS) if method == ALL else [method]
    classifiers = make_classifiers(
        names, tuned, C=penalty, random_state=seed, n_jobs=jobs, cache=cache, device=device
    )
    check_report(report)
    paths, labels = find_images(folder)
    warn_about(paths, labels)
    with progress() as listener:
        stages = Stages(listener)
        results = evaluate_all(
            paths, labels, list(classifiers.values()), train_per_class, splits, shared_codebook,
            seed, stages, most_skipped(on_error),
        )  # fmt: skip
        by_name = dict(zip(names, results, strict=True))
        skipped = results[0].skipped
        if report is not None:
            parameters = {name: result.parameters for name, result in by_name.items()}
            what = "Methods" if method == ALL else method
            write_report(
                report, context, folder, jobs, f"{what} on {folder}",
                about_evaluation(train_per_class, splits, shared_codebook),
                parameters, by_name, paths, labels, skipped, stages,
            )  # fmt: skip
    if as_json:
        found = {name: result.to_json() for name, result in by_name.items()}
        written = {} if report is None else {"report": str(report)}
        print_json(
            **({"methods": found} if method == ALL else found[method]),
            skipped=[one.to_json() for one in skipped],
            **written,
        )
    else:
        if method == ALL:
            print_methods(by_name)
        else:
            print_evaluation(results[0])
        print_written(report)
    report_skipped(skipped, len(paths))


@command
def score(
    context: typer.Context,
    model: ModelPath,
    folder: ImageFolder,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    cache: CacheFolder = None,
    on_error: OnErrorSkip = OnError.SKIP,
    report: ReportPath = None,
    as_json: Json = False,
) -> None:
    """Measure a saved model on a labeled folder.

    Accuracy is the mean of the per-class accuracies. Folders must be named as in training.
    A file that cannot be read is listed and skipped; the exit code is then 3.

    Example: lrrspm score my.lrrspm test-images
    """
    from .._support.stages import Stages
    from ..classifier import load_model
    from ..evaluation import score_model
    from ..images import find_images

    check_report(report, model)
    classifier = load_model(model).set_params(n_jobs=jobs, cache=cache, device=device)
    paths, labels = find_images(folder)
    with progress() as listener:
        stages = Stages(listener)
        result = score_model(classifier, paths, labels, stages, on_error is OnError.SKIP)
        if report is not None:
            name = classifier.method_name
            write_report(
                report, context, folder, jobs, f"{model} on {folder}", ABOUT_SCORE,
                {name: result.parameters}, {name: result}, paths, labels, result.skipped, stages,
            )  # fmt: skip
    if as_json:
        written = {} if report is None else {"report": str(report)}
        skipped = [one.to_json() for one in result.skipped]
        print_json(model=str(model), **result.to_json(), skipped=skipped, **written)
    else:
        print_evaluation(result)
        print_written(report)
    report_skipped(result.skipped, len(paths))
