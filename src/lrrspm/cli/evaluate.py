"""lrrspm evaluate and lrrspm score."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .. import config
from .._support.text import plural
from .app import SKIPPED, command, report_skipped
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
    ModelPath,
    NearCopies,
    OnError,
    OnErrorLimited,
    OnErrorSkip,
    PathColumn,
    Penalty,
    ReportPath,
    Seed,
    most_skipped,
    parse_weights,
)
from .predictions import PredictionsPath, check_predictions, write_predictions
from .report import (
    ABOUT_SCORE,
    about_evaluation,
    check_report,
    print_written,
    write_report,
    written_files,
)
from .terminal import (
    print_evaluation,
    print_json,
    print_methods,
    print_reused,
    progress,
    reused,
)
from .tunables import Tuned, make_classifiers, tunable

if TYPE_CHECKING:
    from ..classifier import ImageClassifier
    from ..evaluation import Skipped


def _check_share(value: float | None) -> float | None:
    from ..evaluation.splits import check_train_per_class

    if value is not None:  # the check needs NumPy
        try:
            check_train_per_class(value)
        except ValueError as error:
            # Without the name that it has in Python.
            raise typer.BadParameter(str(error).removeprefix("train_per_class ")) from None
    return value


@command
@tunable
def evaluate(
    context: typer.Context,
    folder: ImageFolder,
    tuned: Tuned,
    train_per_class: Annotated[
        float | None,
        typer.Option(
            "--train-per-class",
            metavar="N|SHARE",
            callback=_check_share,
            help="Training images per class, or a share of each class, such as 0.8. Default: 100, "
            "but at most 0.8 of a class.",
        ),
    ] = None,
    splits: Annotated[
        int, typer.Option("--splits", min=1, metavar="N", help="Number of random splits.")
    ] = config.SPLITS,
    shared_codebook: Annotated[
        bool,
        typer.Option(
            "--shared-codebook",
            help="Learn one codebook from all images, test images too, as in the paper.",
        ),
    ] = False,
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
    predictions: PredictionsPath = None,
    as_json: Json = False,
) -> None:
    """Measure accuracy on random splits of a folder: train on some images, test on the rest.

    Accuracy is the mean of the recalls of the classes. Unreadable images are listed and
    left out, as if they were not there; the exit code is then 3. With --method all, the
    paper's seven methods are measured on the same splits and codebooks. If the folder
    has train/ and test/, they are the only split, and --train-per-class and --splits
    are ignored. --json has what you need to repeat an evaluation: machine and versions,
    fingerprints of the data, splits and predictions.

    Example: lrrspm evaluate images --train-per-class 30
    """
    from .._support.environment import describe_environment
    from .._support.stages import Stages
    from ..evaluation import evaluate_all
    from ..evaluation.record import describe_data, describe_predictions, describe_splits
    from ..methods import METHODS
    from ..pipeline import open_engine

    names = list(METHODS) if method == ALL else [method]
    classifiers = make_classifiers(
        names, tuned, C=penalty, class_weight=parse_weights(class_weight), random_state=seed,
        n_jobs=jobs, cache=cache, device=device, engine=engine,
    )  # fmt: skip
    if shared_codebook:
        _refuse_labels(list(classifiers.values()))
    check_report(report)
    check_predictions(predictions, "--predictions", folder)
    images = find_training(folder, path_column, label_column)
    paths, labels, tests, _ = images
    given = any(tests)
    if given and (train_per_class is not None or splits != config.SPLITS):
        print(
            "note: train/ and test/ are the only split; ignoring --train-per-class and --splits",
            file=sys.stderr,
        )
    with progress() as listener:
        stages = Stages(listener)
        store = next(iter(classifiers.values())).store()
        with open_engine(jobs, engine, device, len(paths)) as opened:
            groups = keep_together(images, folder, group, near_copies, jobs, stages, store, opened)
            results = evaluate_all(
                paths, labels, list(classifiers.values()), train_per_class, splits,
                shared_codebook, seed, stages, most_skipped(on_error), opened, groups,
                tests if given else None,
                # Class weights work by thresholds, too, which calibration finds.
                calibrate=predictions is not None or report is not None or class_weight is not None,
                store=store,
            )  # fmt: skip
        by_name = dict(zip(names, results, strict=True))
        skipped = results[0].skipped
        write_predictions(predictions, by_name, paths, labels)
        if report is not None:
            parameters = {name: result.parameters for name, result in by_name.items()}
            what = "Methods" if method == ALL else method
            write_report(
                report, context, folder, jobs, f"{what} on {folder}",
                about_evaluation(train_per_class, splits, shared_codebook, given),
                parameters, by_name, paths, labels, skipped, stages, (path_column, label_column),
            )  # fmt: skip
    if as_json:
        found = {
            name: {**result.to_json(), "predictions": describe_predictions(result)}
            for name, result in by_name.items()
        }
        written = written_files(report=report, predictions_file=predictions)
        print_json(
            **({"methods": found} if method == ALL else found[method]),
            from_cache=reused(store),
            environment=describe_environment(),
            data=describe_data(
                *_kept(paths, labels, skipped), folder, results[0].class_names, jobs
            ),
            splits=describe_splits(results[0]),
            skipped=[one.to_json() for one in skipped],
            **written,
        )
    else:
        if method == ALL:
            print_methods(by_name)
        else:
            print_evaluation(results[0])
        print_reused(store)
        print_written(report, predictions)
    report_skipped(skipped, len(paths))


def _kept(
    paths: list[str], labels: list[str], skipped: list[Skipped]
) -> tuple[list[str], list[str]]:
    """Return paths and labels without those of skipped images."""
    gone = {one.path for one in skipped}
    kept = [i for i, path in enumerate(paths) if path not in gone]
    return [paths[i] for i in kept], [labels[i] for i in kept]


def _refuse_labels(classifiers: list[ImageClassifier]) -> None:
    from ..training import refuse_labels

    try:
        refuse_labels([classifier.new_features() for classifier in classifiers])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--shared-codebook") from None


@command
def score(
    context: typer.Context,
    model: ModelPath,
    folder: ImageFolder,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    engine: EngineName = config.ENGINE,
    cache: CacheFolder = None,
    on_error: OnErrorSkip = OnError.SKIP,
    report: ReportPath = None,
    predictions: PredictionsPath = None,
    as_json: Json = False,
) -> None:
    """Measure the accuracy of a saved model on a labeled folder.

    Accuracy is the mean of the recalls of the classes. Name the folders as in training:
    other classes are listed and left out. Unreadable files are listed and skipped. The
    exit code is 3 if anything was left out or skipped. If the folder has train/ and
    test/, the model is measured on test/.

    Example: lrrspm score my.lrrspm test-images
    """
    from .._support.stages import Stages
    from ..evaluation import score_model
    from ..images import find_labeled
    from ..loading import load_model

    check_report(report, model)
    check_predictions(predictions, "--predictions", model, folder)
    classifier = load_model(model).set_params(
        n_jobs=jobs, cache=cache, device=device, engine=engine
    )
    images = find_labeled(folder, path_column, label_column)
    paths, labels = images.part(test=any(images.tests))
    with progress() as listener:
        stages = Stages(listener)
        result = score_model(classifier, paths, labels, stages, on_error is OnError.SKIP)
        name = classifier.method_name
        write_predictions(predictions, {name: result}, paths, labels)
        if report is not None:
            write_report(
                report, context, folder, jobs, f"{model} on {folder}", ABOUT_SCORE,
                {name: result.parameters}, {name: result}, paths, labels, result.skipped, stages,
                (path_column, label_column),
            )  # fmt: skip
    if as_json:
        written = written_files(report=report, predictions_file=predictions)
        skipped = [one.to_json() for one in result.skipped]
        print_json(model=str(model), **result.to_json(), skipped=skipped, **written)
    else:
        print_evaluation(result)
        print_written(report, predictions)
    _warn_of_trained(classifier, paths)
    report_skipped(result.skipped, len(paths))
    if result.unknown:
        raise typer.Exit(SKIPPED)


def _warn_of_trained(classifier: ImageClassifier, paths: list[str]) -> None:
    """Say how many of the images a model was trained on: they flatter it."""
    from ..growing import count_trained

    trained = count_trained(classifier, paths)
    if trained:
        some = f"{trained} of {plural(len(paths), 'image')}"
        print(
            f"warning: the model was trained on {some}, so it looks better than it is",
            file=sys.stderr,
        )
