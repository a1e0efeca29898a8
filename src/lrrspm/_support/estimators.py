"""scikit-learn's base classes, with the types that it does not declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Tags = Any

    class BaseEstimator:
        """Parameters by name; attributes that fitting sets need not be declared."""

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def __sklearn_tags__(self) -> Tags: ...
        def __sklearn_clone__(self) -> Self: ...

    class ClassifierMixin:
        """Accuracy."""

        def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float: ...

    class TransformerMixin:
        """Fit and transform in one call."""

        def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[Any]: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...

    class FeatureNamesMixin:
        """Names of columns."""

        def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.base import ClassNamePrefixFeaturesOutMixin as FeatureNamesMixin
    from sklearn.utils import Tags

__all__ = ["BaseEstimator", "ClassifierMixin", "FeatureNamesMixin", "Tags", "TransformerMixin"]
