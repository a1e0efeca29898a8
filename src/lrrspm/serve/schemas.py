"""JSON of the API."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, PositiveFloat, PositiveInt

from .. import config


class Error(BaseModel):
    """Error response."""

    error: str = Field(description="What is wrong, and what to do about it.")


_PROBABILITY = "From 0 to 1; those of all classes sum to 1."
_KNOWN = (
    "With --min-confidence: False if the best class is less likely, or the image is not familiar."
)


class ClassScore(BaseModel):
    """A class, its score and its probability."""

    label: str
    score: float = Field(
        description="SVM margin: higher means more confident; above 0 the class's own SVM says yes."
    )
    probability: float = Field(description=_PROBABILITY)


class Prediction(BaseModel):
    """Classes of an image."""

    name: str = Field(description="File name, as sent.")
    label: str = Field(description="Best class.")
    score: float
    confidence: float = Field(description="Probability of the best class.")
    familiar: bool = Field(
        description="False if the image is less like the training images than 99 % of them are."
    )
    known: bool = Field(description=_KNOWN)
    top: list[ClassScore] = Field(description="Best classes, best first.")
    milliseconds: float = Field(description="Computing time, without waiting.")


class ErrorItem(BaseModel):
    """An image that could not be used."""

    name: str
    error: str = Field(description="Reason.")


class Predictions(BaseModel):
    """One entry per file, in the order sent."""

    predictions: list[Prediction | ErrorItem]


class Patches(BaseModel):
    """Contribution of each patch to the score, and the patch's center."""

    contributions: list[float] = Field(description="Their sum is the score minus the intercept.")
    x: list[float] = Field(description="Pixels of the upright image, from 0.")
    y: list[float]


class Evidence(BaseModel):
    """Evidence for a class in an image."""

    name: str
    label: str = Field(description="Class that the evidence is for.")
    score: float
    probability: float = Field(description=_PROBABILITY)
    familiar: bool = Field(
        description="False if the image is less like the training images than 99 % of them are."
    )
    known: bool = Field(description=_KNOWN)
    intercept: float = Field(description="Score that the class would have without any patch.")
    classes: list[ClassScore] = Field(description="All classes, best first.")
    width: int = Field(description="Pixels of the upright image.")
    height: int
    map: str = Field(
        description="PNG to overlay on the image, as a data URI: blue is evidence for the class, "
        "orange is evidence against it."
    )
    milliseconds: float = Field(description="Computing time, without waiting.")
    preview: str | None = Field(description="The image as a data URI, on request.")
    patches: Patches | None = Field(description="Numbers behind the map, on request.")


class Estimate(BaseModel):
    """Accuracy to be expected on new images."""

    images: int = Field(description="Images that were tested.")
    accuracy: float = Field(description="Percent.")
    low: float | None = Field(description="Where its 95 % interval begins; null in older models.")
    high: float | None = Field(description="Where it ends.")
    rough: bool = Field(description="True if there are too few images for a good estimate.")


class Limits(BaseModel, frozen=True, json_schema_serialization_defaults_required=True):
    """Limits of one request."""

    files: PositiveInt = Field(default=config.SERVE_FILES, description="Images per request.")
    file_bytes: PositiveInt = config.SERVE_FILE_MB * 10**6
    request_bytes: PositiveInt = config.SERVE_REQUEST_MB * 10**6
    waiting: PositiveInt = Field(default=config.SERVE_WAITING, description="Open requests.")
    seconds: PositiveFloat = Field(default=config.SERVE_SECONDS, description="Per request.")


class ModelCard(BaseModel):
    """Facts about the model and the server."""

    model: str = Field(description="File name.")
    bytes: int
    format: int = Field(description="Version of the file format.")
    library: str = Field(description="Version of lrrspm that trained the model.")
    server: str = Field(description="Version of lrrspm that serves it.")
    method: str
    summary: str = Field(description="What the method does.")
    images: int = Field(description="Training images.")
    classes: dict[str, int] = Field(description="Training images per class.")
    estimate: Estimate | None
    calibrated: bool = Field(
        description="False if probabilities were not learned from images left out of training."
    )
    min_confidence: float | None = Field(
        description="Probability below which an image is unknown; null if all are answered."
    )
    parameters: dict[str, Any]
    limits: Limits
    collects: bool = Field(description="True if the server takes corrections.")
