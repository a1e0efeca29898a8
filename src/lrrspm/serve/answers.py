"""What the API answers, as its schema shows it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class Problem(BaseModel):
    """Every answer that is no success."""

    error: str = Field(description="What is wrong, and what to do.")


class ClassScore(BaseModel):
    """A class and its score."""

    label: str
    score: float = Field(
        description='SVM margin: the larger the surer, above 0 means "yes" for that class alone.'
    )


class Prediction(BaseModel):
    """What is on a picture."""

    name: str = Field(description="The file's name, as it was sent.")
    label: str = Field(description="The best class.")
    score: float
    top: list[ClassScore] = Field(description="The best classes, best first.")
    milliseconds: float = Field(description="Time of the work, without waiting.")


class Refusal(BaseModel):
    """A picture that could not be used."""

    name: str
    error: str = Field(description="Why.")


class Predictions(BaseModel):
    """One entry a file, in the order they were sent."""

    predictions: list[Prediction | Refusal]


class Patches(BaseModel):
    """What each patch adds to the score, and where its centre is."""

    contributions: list[float] = Field(description="They sum to score minus intercept.")
    x: list[float] = Field(description="Pixels of the upright picture, from 0.")
    y: list[float]


class Evidence(BaseModel):
    """Why a picture has its score for a class."""

    name: str
    label: str = Field(description="The class that the evidence is for.")
    score: float
    intercept: float = Field(description="What the score would be without any patch.")
    classes: list[ClassScore] = Field(description="All classes, best first.")
    width: int = Field(description="Pixels of the picture, upright.")
    height: int
    map: str = Field(
        description="A PNG to lay over the picture, as a data URI: blue speaks for the class, "
        "orange against it, clear is nothing."
    )
    milliseconds: float = Field(description="Time of the work, without waiting.")
    preview: str | None = Field(description="The picture itself as a data URI, if asked for.")
    patches: Patches | None = Field(description="The numbers behind the map, if asked for.")


class HeldOut(BaseModel):
    """How good the model was on pictures that it was not trained on."""

    images: int
    accuracy: float = Field(description="Percent.")
    rough: bool = Field(description="Whether it rests on so few pictures that it is a rough guess.")


class Accepts(BaseModel):
    """The server's limits."""

    files: int = Field(description="Pictures in one request.")
    file_bytes: int
    request_bytes: int
    waiting: int = Field(description="Requests at once, waiting or not.")
    seconds: float = Field(description="Time of a request.")


class Card(BaseModel):
    """What is known of the model."""

    model: str = Field(description="The file's name.")
    bytes: int
    format: int = Field(description="Version of the file's format.")
    library: str = Field(description="The lrrspm that trained it.")
    server: str = Field(description="The lrrspm that serves it.")
    method: str
    summary: str = Field(description="What the method does.")
    images: int = Field(description="Pictures that it was trained on.")
    classes: dict[str, int] = Field(description="Pictures of each class.")
    held_out: HeldOut | None
    parameters: dict[str, Any]
    limits: Accepts
