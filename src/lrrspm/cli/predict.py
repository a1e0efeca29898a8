"""lrrspm predict."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .. import config
from .._support.text import percent, plural, printable
from .app import command, report_skipped
from .options import (
    CacheFolder,
    DeviceName,
    EngineName,
    Jobs,
    Json,
    MinConfidence,
    ModelPath,
    OnError,
    OnErrorSkip,
    PathColumn,
    Place,
    as_file,
    as_place,
)
from .predictions import check_predictions
from .report import print_written, written_files
from .terminal import print_json, print_rich, progress, text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._support.rows import Rows
    from ..classifier import ImageClassifier
    from ..evaluation import Skipped

UNKNOWN = "unknown"
"""Label of an image that no class is likely enough for."""


class Answer(NamedTuple):
    """An image, whether it is known, and its best classes with probabilities and scores.

    One that is not familiar is unlike the images that the model was trained on.
    """

    path: str
    known: bool
    familiar: bool
    best: list[tuple[str, float, float]]

    @property
    def label(self) -> str:
        """The best class, or "unknown"."""
        return self.best[0][0] if self.known else UNKNOWN


@command
def predict(
    model: ModelPath,
    paths: Annotated[
        list[Any],
        typer.Argument(
            metavar="PATH...",
            parser=as_place,
            help="Images, folders of images, CSV files with a column of paths, or addresses such "
            "as s3://bucket/images (needs lrrspm\\[cloud]).",
        ),
    ],
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="N", help="Show the N best classes.")
    ] = 1,
    output: Annotated[
        Place | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=as_file,
            help="Write one row per image to a .csv or .jsonl file or address instead of printing "
            "a table.",
        ),
    ] = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print what --output would write, as CSV.")
    ] = False,
    min_confidence: MinConfidence = None,
    path_column: PathColumn = None,
    jobs: Jobs = -1,
    device: DeviceName = config.DEVICE,
    engine: EngineName = config.ENGINE,
    cache: CacheFolder = None,
    on_error: OnErrorSkip = OnError.SKIP,
    as_json: Json = False,
) -> None:
    """Classify images.

    Each image gets a class and its probability. Unreadable files are listed and skipped;
    the exit code is then 3. With -o, rows are written as they are computed, and the same
    command resumes an interrupted run.

    Rows have the columns path, label, confidence (the probability), score (of the SVM)
    and error; with --top also label_2, confidence_2, score_2 and so on; with
    --min-confidence also best, the most likely class, even where label is "unknown".

    Example: lrrspm predict my.lrrspm holiday -o found.csv --min-confidence 0.8
    """
    from .._support.files import file_digest
    from .._support.rows import csv_text
    from .._support.stages import Stages
    from ..evaluation import Skipped
    from ..images import expand_paths
    from ..loading import load_model, stream_scores
    from ..modelfile.container import local_model

    if as_csv and as_json:
        raise typer.BadParameter("print CSV or JSON, not both", param_hint="--csv")
    check_predictions(output, "--output", model, *paths)
    with local_model(model) as file:  # once, if it is at an address
        classifier, digest = load_model(file), file_digest(file)
    classifier.set_params(n_jobs=jobs, cache=cache, device=device, engine=engine)
    files = expand_paths(paths, path_column)
    columns = _columns(min(top, len(classifier.classes_)), min_confidence is not None)
    target = None
    if output is not None:
        options = (top, min_confidence, on_error.value)
        target = _resumed(output, columns, f"{digest}{options}", classifier, files)
    # What is only written is not kept, so that memory does not grow with the number of images.
    kept = as_json or as_csv or target is None
    first = 0 if target is None or kept else target.done
    counts, skipped = _earlier(target) if first and target is not None else (Counter(), [])
    answers: list[Answer] = []
    lines: list[dict[str, Any]] = []
    with target or nullcontext(), progress() as listener, _resumable(target):
        skip = on_error is OnError.SKIP
        small = target is not None  # rows are written often, so that little is lost
        for part in stream_scores(classifier, files, Stages(listener), skip, first, small):
            here = range(first, first + part.images)
            skipped += [Skipped(files[i], why) for i, why in sorted(part.skipped.items())]
            done = [files[i] for i in here if i not in part.skipped]
            found = _answers(classifier, done, part.scores, top, min_confidence)
            counts.update(answer.known for answer in found)
            rows = _lines(files, here, found, part.skipped, min_confidence is not None)
            if target is not None and first + part.images > target.done:
                # Blocks may begin elsewhere than those of the earlier run.
                target.append(rows[max(0, target.done - first) :])
            answers += found if kept else []
            lines += rows if as_csv else []
            first += part.images
        if target is not None:
            target.finish()
    if as_json:
        print_json(
            **({} if answers else {"error": "none of the files could be read"}),
            model=str(model),
            calibrated=classifier.temperature_ is not None,
            predictions=[_to_json(answer) for answer in answers],
            skipped=[one.to_json() for one in skipped],
            **written_files(output=output),
        )
    elif as_csv:
        print(csv_text(columns, lines), end="")
    elif output is not None:
        print_written(output)
        unknown = f", {counts[False]} unknown" if counts[False] else ""
        print(plural(counts.total(), "image") + unknown)
    elif answers:
        _print_table(answers)
    if classifier.temperature_ is None and not as_json:
        warning = "the model is not calibrated, so probabilities are rough; train it again"
        print(f"warning: {warning}", file=sys.stderr)
    report_skipped(skipped, len(files))


@contextmanager
def _resumable(target: Rows | None) -> Iterator[None]:
    """Say, where a run is stopped, that its rows are kept."""
    try:
        yield
    except KeyboardInterrupt:
        if target is not None and target.done:
            kept = f"{plural(target.done, 'row')} {'is' if target.done == 1 else 'are'} kept"
            print(f"note: {kept}; the same command resumes", file=sys.stderr)
        raise


def _resumed(
    output: Place,
    columns: list[str],
    key: str,
    classifier: ImageClassifier,
    files: list[str],
) -> Rows:
    """Open the file of rows; that of an interrupted run is continued, and a note says so."""
    from .._support.files import file_signature
    from .._support.remote import is_remote
    from .._support.rows import open_rows
    from ..loading import scored_together

    names = hashlib.sha256()
    for file in files:  # one that was replaced since is read again; to ask for addresses takes long
        state = () if is_remote(file) else file_signature(file)
        names.update(f"{file}\0{state}".encode(errors="surrogateescape"))
    together = scored_together(classifier)
    target = open_rows(output, columns, f"{key}{names.hexdigest()}", together)
    if target.done:
        print(
            f"note: resuming after {plural(target.done, 'row')} of an interrupted run; "
            f"to start over, delete {printable(target.part)}",
            file=sys.stderr,
        )
    return target


def _earlier(target: Rows) -> tuple[Counter[bool], list[Skipped]]:
    """Count known and unknown images of a run that was stopped, and list those it skipped."""
    from ..evaluation import Skipped

    counts: Counter[bool] = Counter()
    skipped = []
    for row in target.earlier():
        if row["error"]:
            skipped.append(Skipped(row["path"], row["error"]))
        else:
            counts[row["label"] != UNKNOWN or not row.get("best")] += 1
    return counts, skipped


def _answers(
    classifier: ImageClassifier,
    paths: list[str],
    scores: NDArray[Any],
    top: int,
    least: float | None,
) -> list[Answer]:
    from ..loading import rank

    known = [True] * len(paths) if least is None else classifier.is_known(scores, least).tolist()
    familiar = classifier.is_known(scores, 0.0).tolist()
    likely = rank(classifier.classes_, classifier.probabilities(scores), top)
    ranked = rank(classifier.classes_, scores, top)
    return [
        Answer(
            path,
            sure,
            like,
            [(name, p, score) for (name, score), (_, p) in zip(best, chances, strict=True)],
        )
        for path, sure, like, best, chances in zip(
            paths, known, familiar, ranked, likely, strict=True
        )
    ]


def _to_json(answer: Answer) -> dict[str, Any]:
    top = [{"label": name, "probability": p, "score": score} for name, p, score in answer.best]
    return {
        "path": answer.path,
        "label": answer.label,
        "known": answer.known,
        "familiar": answer.familiar,
        "probability": top[0]["probability"],
        "score": top[0]["score"],
        "top": top,
    }


def _columns(top: int, with_best: bool) -> list[str]:
    columns = ["path", "label", "confidence", "score", "error"]
    columns += [f"{n}_{r}" for r in range(2, top + 1) for n in ("label", "confidence", "score")]
    return columns + ["best"] * with_best


def _lines(
    files: list[str],
    numbers: Iterable[int],
    answers: list[Answer],
    reasons: dict[int, str],
    with_best: bool,
) -> list[dict[str, Any]]:
    """Return a row for each of the files with these numbers; an unreadable one says why."""
    from ..evaluation import rounded

    lines, read = [], iter(answers)
    for i in numbers:
        line: dict[str, Any] = {"path": files[i], "error": reasons.get(i)}
        lines.append(line)
        if i in reasons:
            continue
        answer = next(read)
        for place, (label, probability, score) in enumerate(answer.best, start=1):
            values = {"label": label, **rounded(score, probability)}
            end = "" if place == 1 else f"_{place}"
            line |= {f"{name}{end}": value for name, value in values.items()}
        line["label"] = answer.label
        if with_best:
            line["best"] = answer.best[0][0]
    return lines


def _print_table(answers: list[Answer]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("image", overflow="fold")
    table.add_column("class", overflow="fold")
    table.add_column("probability", justify="right", no_wrap=True)
    for answer in answers:
        if not answer.known:
            why = "" if answer.familiar else ": unlike the training images"
            table.add_row(text(answer.path), UNKNOWN + why, "")
        for place, (label, probability, _) in enumerate(answer.best):
            path = answer.path if answer.known and not place else ""
            shown = label if answer.known else f"perhaps {label}"
            table.add_row(text(path), text(shown), percent(probability))
    print_rich(table)
