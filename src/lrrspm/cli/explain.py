"""lrrspm explain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import config
from .._support.text import percent, printable
from .app import command
from .options import Json, ModelPath, Place, as_file, as_place, check_ending, check_given
from .terminal import print_json, print_rich, text


@command
def explain(
    model: ModelPath,
    image: Annotated[
        Place, typer.Argument(metavar="IMAGE", parser=as_place, help="The image to explain.")
    ],
    output: Annotated[
        Place,
        typer.Option(
            "--output", "-o", metavar="PNG", parser=as_file, help="Where to write the drawing."
        ),
    ] = Path("evidence.png"),
    label: Annotated[
        str | None,
        typer.Option(
            "--label", metavar="NAME", help="The class to explain. Default: the predicted one."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="N", help="Show the N best classes.")
    ] = 5,
    as_json: Json = False,
) -> None:
    """Show where an image has evidence for and against a class.

    The score of a class is a sum over small patches of the image; higher means more
    likely. Blue patches raise it, orange ones lower it. --json prints the scores and the
    contribution of each patch.

    Example: lrrspm explain my.lrrspm new.jpg -o why.png --label forest
    """
    from .._support.files import check_target

    check_ending(output, "--output", "drawings are PNG files", ".png")
    check_given(output, "--output", image, model)
    check_target(output)
    if Path(image).is_dir():
        raise ValueError(f"{image}: is a folder; give one image")
    import numpy as np

    from ..images import read_thumbnail
    from ..loading import load_model
    from ..report.draw import draw_explanation

    classifier = load_model(model)
    names = [str(name) for name in classifier.classes_]
    if label is not None and label not in names:
        raise ValueError(f"the model has no class {label!r}; choose from: {', '.join(names)}")
    examination = classifier.examine(image)
    drawn = np.asarray(read_thumbnail(image, config.DRAWN_SIDE))
    wanted = None if label is None else classifier.classes_.tolist()[names.index(label)]
    found = examination.explain(wanted, shape=(drawn.shape[0], drawn.shape[1]))
    ranked = examination.ranked()
    shown = [
        one for place, one in enumerate(ranked) if place < top or one.label == str(found.label)
    ]
    calibrated = classifier.temperature_ is not None
    draw_explanation(output, drawn, found, shown, calibrated)
    if as_json:
        print_json(
            model=str(model),
            path=str(image),
            output=str(output),
            label=str(found.label),
            probability=next(one.probability for one in ranked if one.label == str(found.label)),
            calibrated=calibrated,
            score=found.score,
            intercept=found.intercept,
            top=[one._asdict() for one in ranked[:top]],
            width=examination.shape[1],
            height=examination.shape[0],
            x=found.x.tolist(),
            y=found.y.tolist(),
            size=found.size.tolist(),
            contributions=found.contributions.tolist(),
        )
        return
    from rich.table import Table

    table = Table("class", box=None, pad_edge=False)
    table.add_column("probability", justify="right")
    for one in shown:
        table.add_row(text(one.label), percent(one.probability))
    print_rich(table)
    if not calibrated:
        print("the model is not calibrated, so probabilities are rough; train it again")
    gains = found.contributions
    constant = f", {found.intercept:+.2f} intercept" if found.intercept else ""
    print(
        f"score of {printable(found.label)}: {gains[gains > 0].sum():+.2f} for, "
        f"{gains[gains < 0].sum():+.2f} against{constant}; patches: {len(gains)}"
    )
    print(f"wrote {printable(output)}")
