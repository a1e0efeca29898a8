"""Commands that train, measure and use classifiers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import config
from .app import command, list_skipped, report_skipped
from .options import (
    LEVELS,
    CacheFolder,
    CodebookSize,
    Jobs,
    Json,
    Lambda,
    Levels,
    MethodName,
    ModelPath,
    NormalizeCodes,
    OnError,
    OnErrorLimited,
    OnErrorSkip,
    PatchSize,
    Penalty,
    Pictures,
    ReportPath,
    Seed,
    Step,
    Threshold,
)
from .report import (
    ABOUT_SCORE,
    about_evaluation,
    about_training,
    check_report,
    say_written,
    write_report,
)
from .terminal import (
    print_confusion,
    print_estimate,
    print_evaluation,
    print_json,
    print_methods,
    print_rich,
    print_seconds,
    printable,
    progress,
    text,
)

if TYPE_CHECKING:
    from ..classifier import ImageClassifier


def _classifier(
    method: str,
    codebook_size: int,
    regularization: float,
    threshold: float,
    normalize_codes: bool,
    penalty: float,
    step: int,
    patch_size: int,
    levels: str,
    seed: int,
    jobs: int,
    cache: Path | None,
) -> ImageClassifier:
    from ..classifier import ImageClassifier
    from ..encoders.base import LRREncoder
    from ..methods import find_method

    encoder = find_method(method).encoder().set_params(codebook_size=codebook_size)
    if isinstance(encoder, LRREncoder):
        encoder.set_params(
            regularization=regularization, threshold=threshold, normalize_codes=normalize_codes
        )
    return ImageClassifier(
        encoder=encoder,
        levels=_parse_levels(levels),
        step=step,
        patch_size=patch_size,
        C=penalty,
        n_jobs=jobs,
        random_state=seed,
        method=method,
        cache=cache,
    )


def _tolerance(on_error: OnError | None) -> tuple[dict[int, str] | None, float]:
    """Where skipped pictures are noted (None: nowhere, fail), and the share that may be."""
    skipped: dict[int, str] | None = None if on_error is OnError.FAIL else {}
    return skipped, config.MAX_SKIPPED if on_error is None else 1.0


def _refuse_strangers(
    method: str, regularization: float, threshold: float, normalize_codes: bool
) -> None:
    """--lambda, --threshold and --normalize-codes mean nothing to the other methods."""
    usual = (config.REGULARIZATION, config.THRESHOLD, False)
    given = (regularization, threshold, normalize_codes) != usual
    if given and method not in (config.METHOD, "all"):
        raise typer.BadParameter(
            f"--lambda, --threshold and --normalize-codes belong to {config.METHOD} alone"
        )


def _parse_levels(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in given.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"expected whole numbers with commas between them, such as {LEVELS}, got {given!r}",
            param_hint="--levels",
        ) from None


@command
def train(
    context: typer.Context,
    folder: Pictures,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="Where to write the model.")
    ],
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate/--no-estimate",
            help="Keep a fifth of each class aside first, to say how good the model is.",
        ),
    ] = True,
    method: MethodName = config.METHOD,
    codebook_size: CodebookSize = config.CODEBOOK_SIZE,
    regularization: Lambda = config.REGULARIZATION,
    threshold: Threshold = config.THRESHOLD,
    normalize_codes: NormalizeCodes = False,
    penalty: Penalty = config.C,
    step: Step = config.STEP,
    patch_size: PatchSize = config.PATCH_SIZE,
    levels: Levels = LEVELS,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    cache: CacheFolder = None,
    on_error: OnErrorLimited = None,
    report: ReportPath = None,
    as_json: Json = False,
) -> None:
    """Train a model from a folder of pictures and write it to one file.

    Pictures that cannot be read are named and left out, as if they were not there;
    the exit code is then 3. With --cache a second run takes seconds, and one that
    was interrupted goes on.

    Example: lrrspm train pictures -o my.lrrspm
    """
    _refuse_strangers(method, regularization, threshold, normalize_codes)
    from .._support.files import check_target
    from .._support.stages import Stages
    from ..evaluation.protocol import train_with_estimate
    from ..images import find_images, warn_about
    from ..modelfile.card import describe_parameters

    classifier = _classifier(
        method,
        codebook_size,
        regularization,
        threshold,
        normalize_codes,
        penalty,
        step,
        patch_size,
        levels,
        seed,
        jobs,
        cache,
    )
    skipped, max_skipped = _tolerance(on_error)
    check_target(output)
    measured = check_report(report, output)
    paths, labels = find_images(folder)
    warn_about(paths, labels)
    with progress() as listener:
        stages = Stages(listener)
        accuracy = train_with_estimate(
            paths, labels, classifier, estimate, stages, skipped, max_skipped, measured
        )
        classifier.save(output)
        seconds = dict(stages.seconds)  # without those of the report
        if report is not None:
            write_report(
                report,
                context,
                folder,
                jobs,
                f"Training on {folder}",
                about_training(classifier.summary_, estimate),
                {method: describe_parameters(classifier)},
                measured or [],
                paths,
                labels,
                skipped,
                stages,
            )
    if as_json:
        print_json(
            model=str(output),
            images=classifier.summary_["images"],
            classes=len(classifier.classes_),
            images_per_class=classifier.summary_["images_per_class"],
            estimate=classifier.summary_.get("held_out"),
            bytes=output.stat().st_size,
            seconds=seconds,
            parameters=describe_parameters(classifier),
            skipped=list_skipped(paths, skipped),
            **({} if report is None else {"report": str(report)}),
        )
    else:
        images = classifier.summary_["images"]
        print(f"{output}: {images} pictures, {len(classifier.classes_)} classes")
        if accuracy is not None:
            print_estimate(classifier.summary_)
        elif estimate:
            print("no estimate: the classes have too few pictures to keep some aside")
        print_seconds(seconds)
        say_written(report)
        print(f"next: lrrspm predict {output} PICTURE...")
    report_skipped(paths, skipped)


@command
def evaluate(
    context: typer.Context,
    folder: Pictures,
    train_per_class: Annotated[
        int, typer.Option("--train-per-class", min=1, help="Training pictures a class.")
    ] = config.TRAIN_PER_CLASS,
    splits: Annotated[int, typer.Option("--splits", min=1, help="Random splits.")] = config.SPLITS,
    shared_codebook: Annotated[
        bool,
        typer.Option(
            "--shared-codebook",
            help="One codebook from all pictures, test pictures too, as in the paper.",
        ),
    ] = False,
    method: MethodName = config.METHOD,
    codebook_size: CodebookSize = config.CODEBOOK_SIZE,
    regularization: Lambda = config.REGULARIZATION,
    threshold: Threshold = config.THRESHOLD,
    normalize_codes: NormalizeCodes = False,
    penalty: Penalty = config.C,
    step: Step = config.STEP,
    patch_size: PatchSize = config.PATCH_SIZE,
    levels: Levels = LEVELS,
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    cache: CacheFolder = None,
    on_error: OnErrorLimited = None,
    report: ReportPath = None,
    as_json: Json = False,
) -> None:
    """Measure accuracy on random splits of a folder: train on some, test on all the rest.

    Accuracy is the mean of the classes' accuracies. Pictures that cannot be read
    are named and left out, as if they were not there; the exit code is then 3. With
    --method all every method is measured on the same splits and codebooks.

    Example: lrrspm evaluate pictures --train-per-class 30
    """
    _refuse_strangers(method, regularization, threshold, normalize_codes)
    from .._support.stages import Stages
    from ..evaluation.protocol import evaluate_all
    from ..images import find_images, warn_about
    from ..methods import METHODS
    from ..modelfile.card import describe_parameters

    names = list(METHODS) if method == "all" else [method]
    classifiers = [
        _classifier(
            name, codebook_size, regularization, threshold, normalize_codes, penalty, step,
            patch_size, levels, seed, jobs, cache,
        )
        for name in names
    ]  # fmt: skip
    skipped, max_skipped = _tolerance(on_error)
    measured = check_report(report)
    paths, labels = find_images(folder)
    warn_about(paths, labels)
    protocol = {
        "train_per_class": train_per_class,
        "splits": splits,
        "shared_codebook": shared_codebook,
    }
    with progress() as listener:
        stages = Stages(listener)
        results = evaluate_all(
            paths, labels, classifiers, train_per_class, splits, shared_codebook, seed,
            stages, skipped, max_skipped, measured,
        )  # fmt: skip
        for result, classifier in zip(results, classifiers, strict=True):
            result["parameters"] = {**describe_parameters(classifier), **protocol}
        if report is not None:
            parameters = {
                name: result["parameters"] for name, result in zip(names, results, strict=True)
            }
            what = "Methods" if method == "all" else method
            write_report(
                report, context, folder, jobs, f"{what} on {folder}",
                about_evaluation(train_per_class, splits, shared_codebook),
                parameters, measured or [], paths, labels, skipped, stages,
            )  # fmt: skip
    by_name = dict(zip(names, results, strict=True))
    if as_json:
        found = results[0] if method != "all" else {"methods": by_name}
        written = {} if report is None else {"report": str(report)}
        print_json(**found, skipped=list_skipped(paths, skipped), **written)
    elif method != "all":
        print_evaluation(results[0])
    else:
        print_methods(by_name)
    if not as_json:
        say_written(report)
    report_skipped(paths, skipped)


@command
def methods(as_json: Json = False) -> None:
    """List the methods that --method takes.

    Example: lrrspm evaluate pictures --method LLC
    """
    from rich.table import Table

    from ..methods import METHODS

    if as_json:
        print_json(methods={name: method.summary for name, method in METHODS.items()})
        return
    table = Table("method", "what it does", box=None, pad_edge=False)
    for name, method in METHODS.items():
        table.add_row(name, method.summary)
    table.add_row("all", "every one of them, for evaluate")
    print_rich(table)


@command
def predict(
    model: ModelPath,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            readable=False,
            help="Pictures, folders of pictures, or CSV files of path,label rows.",
        ),
    ],
    top: Annotated[int, typer.Option("--top", min=1, help="Show the N best classes.")] = 1,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated rows.")] = False,
    jobs: Jobs = -1,
    cache: CacheFolder = None,
    on_error: OnErrorSkip = OnError.SKIP,
    as_json: Json = False,
) -> None:
    """Say what is on pictures.

    A file that cannot be read is named and skipped; the exit code is then 3.
    Scores are SVM margins: the larger the surer, above 0 means "yes" for that class alone.

    Example: lrrspm predict my.lrrspm new.jpg holiday/ --top 3
    """
    from .._support.stages import Stages
    from ..classifier import load_model, rank
    from ..images import expand_paths

    classifier = load_model(model).set_params(n_jobs=jobs, cache=cache)
    files = expand_paths(paths)
    skipped, _ = _tolerance(on_error)
    with progress() as listener:
        ranked = rank(classifier, files, top, Stages(listener), skipped)
    done = [file for index, file in enumerate(files) if index not in (skipped or ())]
    rows = list(zip(done, ranked, strict=True))
    if as_json:
        print_json(
            **({} if rows else {"error": "none of the files could be read"}),
            model=str(model),
            predictions=[
                {
                    "path": path,
                    "label": best[0][0],
                    "score": best[0][1],
                    "top": [{"label": label, "score": score} for label, score in best],
                }
                for path, best in rows
            ],
            skipped=list_skipped(files, skipped),
        )
    elif as_csv:
        import csv

        writer = csv.writer(sys.stdout)
        ranks = range(1, len(rows[0][1]) + 1) if rows else range(1, 2)
        writer.writerow(
            ["path", *(f"{n}_{r}" if top > 1 else n for r in ranks for n in ("label", "score"))]
        )
        for path, best in rows:
            writer.writerow(
                [path, *(value for label, score in best for value in (label, f"{score:.4f}"))]
            )
    elif rows:
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        table.add_column("picture", overflow="fold")
        table.add_column("class", overflow="fold")
        table.add_column("score", justify="right", no_wrap=True)
        for path, best in rows:
            for place, (label, score) in enumerate(best):
                table.add_row(text("" if place else path), text(label), f"{score:+.2f}")
        print_rich(table)
    report_skipped(files, skipped)


@command
def score(
    context: typer.Context,
    model: ModelPath,
    folder: Pictures,
    jobs: Jobs = -1,
    cache: CacheFolder = None,
    on_error: OnErrorSkip = OnError.SKIP,
    report: ReportPath = None,
    as_json: Json = False,
) -> None:
    """Measure a saved model on a labelled folder.

    Accuracy is the mean of the classes' accuracies. Folders must be named as in training.
    A file that cannot be read is named and skipped; the exit code is then 3.

    Example: lrrspm score my.lrrspm test-pictures
    """
    from .._support.stages import Stages
    from ..classifier import load_model
    from ..evaluation.protocol import score_model
    from ..images import find_images
    from ..modelfile.card import describe_parameters

    measured = check_report(report, model)
    classifier = load_model(model).set_params(n_jobs=jobs, cache=cache)
    paths, labels = find_images(folder)
    skipped, _ = _tolerance(on_error)
    with progress() as listener:
        stages = Stages(listener)
        result = score_model(classifier, paths, labels, stages, skipped, measured)
        if report is not None:
            write_report(
                report, context, folder, jobs, f"{model} on {folder}",
                ABOUT_SCORE,
                {classifier.method: describe_parameters(classifier)}, measured or [], paths,
                labels, skipped, stages,
            )  # fmt: skip
    if as_json:
        written = {} if report is None else {"report": str(report)}
        print_json(model=str(model), **result, skipped=list_skipped(paths, skipped), **written)
    else:
        print_evaluation(result)
        say_written(report)
    report_skipped(paths, skipped)


@command
def info(model: ModelPath, as_json: Json = False) -> None:
    """Show what is inside a model file.

    Example: lrrspm info my.lrrspm
    """
    from ..classifier import load_model
    from ..modelfile.card import describe_model

    facts = describe_model(model, load_model(model))
    if as_json:
        print_json(**facts)
        return
    summary = facts["summary"]
    size = f"{facts['bytes'] / 1e3:,.0f} kB"
    print(f"{model}: {size}, format {facts['format']}, lrrspm {printable(facts['library'])}")
    print(f"trained on {summary['images']} pictures of {len(facts['classes'])} classes:")
    for name, count in summary["images_per_class"].items():
        print(f"  {printable(name)}: {count}")
    if "held_out" in summary:
        print_estimate(summary)
    print("parameters:")
    for name, value in facts["parameters"].items():
        print(f"  {name}: {value}")


@command
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to write what it makes.")
    ] = Path("lrrspm-demo"),
    seed: Seed = config.SEED,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Tour on real pictures: photographs of solar cells, sound and defective.

    Needs the extra: pip install 'lrrspm\\[demo]'. Works offline.
    """
    from .._support.stages import Stages
    from .tour import run

    with progress() as listener:
        result = run(output, seed, jobs, Stages(listener))
    if as_json:
        print_json(**result)
        return
    print_evaluation(result)
    print()
    print_confusion(result)
    print(f"\n{result['images_per_second']:.0f} pictures a second, from file to vector")
    print(f"wrote {result['model']}, {result['picture']} and {result['evidence']}")
    print(result["licence"])
    print("\nnow with your own pictures, one folder a class:")
    print("  lrrspm train my-pictures -o my.lrrspm")
    print("  lrrspm predict my.lrrspm new.jpg")
    print("  lrrspm explain my.lrrspm new.jpg -o why.png")
