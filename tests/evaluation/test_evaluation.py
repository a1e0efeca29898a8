import numpy as np
import pytest

from lrrspm import ImageClassifier, LRREncoder, find_images
from lrrspm._support.stages import Stages
from lrrspm.evaluation import (
    Skipped,
    class_accuracies,
    count_confusions,
    evaluate,
    score_model,
    split_by_class,
    train_with_estimate,
)


def small(**parameters):
    return ImageClassifier(LRREncoder(codebook_size=8), n_samples=500, **parameters)


def test_split_by_class():
    labels = np.array(["a"] * 5 + ["b"] * 9)
    train = split_by_class(labels, 3, 0)
    assert np.unique(labels[train], return_counts=True)[1].tolist() == [3, 3]
    assert len(set(train.tolist())) == 6
    np.testing.assert_array_equal(train, split_by_class(labels, 3, 0))
    assert any(not np.array_equal(train, split_by_class(labels, 3, s)) for s in (1, 2, 3))
    with pytest.raises(ValueError, match=r"class 'a' has 5 images.*use at most 4"):
        split_by_class(labels, 5, 0)
    with pytest.raises(ValueError, match="a whole number of at least 1"):
        split_by_class(labels, 0, 0)


@pytest.mark.parametrize("shared_codebook", [False, True])
def test_bad_penalty_fails_before_images_are_read(shared_codebook):
    with pytest.raises(ValueError, match="C must be positive"):
        evaluate(["none"] * 4, ["a", "a", "b", "b"], small(C=0), 1, 1, shared_codebook)


def test_confusions_by_hand():
    names = np.array(["a", "b"])
    matrix = count_confusions(names, np.array(["a", "a", "b", "b"]), np.array(["a", "b", "b", "b"]))
    np.testing.assert_array_equal(matrix, [[1, 1], [0, 2]])
    np.testing.assert_array_equal(class_accuracies(matrix), [50, 100])


def test_confusions_of_names_in_any_order():
    """Integer classes sort as numbers, their names as text."""
    names = np.array([str(i) for i in range(12)])
    np.testing.assert_array_equal(count_confusions(names, names, names), np.eye(12))


def test_each_split_is_a_plain_fit_and_predict(image_folder):
    """Sharing the work over splits changes nothing: same bits as one by one."""
    paths, labels = find_images(image_folder)
    result = evaluate(paths, labels, small(n_jobs=2, C=0.001), 2, 3, seed=5)
    y = np.array(labels)
    for seed, found in zip(
        np.random.SeedSequence(5).generate_state(3) >> 1, result.accuracies, strict=True
    ):
        train = split_by_class(y, 2, int(seed))
        test = np.setdiff1d(np.arange(len(y)), train)
        model = small(C=0.001, random_state=int(seed))
        model.fit([paths[i] for i in train], y[train])
        predicted = model.predict([paths[i] for i in test])
        per_class = [np.mean(predicted[y[test] == name] == name) for name in np.unique(y)]
        assert found == pytest.approx(100 * np.mean(per_class))


@pytest.mark.parametrize("shared_codebook", [False, True])
def test_result(image_folder, shared_codebook):
    paths, labels = find_images(image_folder)
    stages = Stages()
    result = evaluate(paths, labels, small(), 4, 2, shared_codebook, stages=stages)
    assert result.mean > 90
    assert result.std is not None
    assert result.std >= 0
    assert len(result.accuracies) == 2
    assert set(result.seconds) == {"read", "describe", "codebook", "encode", "train", "test"}
    assert result.images == 36
    assert result.class_names == ["across", "along", "dots"]
    assert result.confusion.sum() == 2 * 3 * 8
    assert result.parameters["shared_codebook"] is shared_codebook
    assert evaluate(paths, labels, small(), 4, 1).std is None


def test_shared_codebook_sees_every_image(image_folder, sample_sizes):
    paths, labels = find_images(image_folder)
    classifier = ImageClassifier(LRREncoder(codebook_size=8), n_samples=10**6)
    evaluate(paths, labels, classifier, 4, 2, shared_codebook=True)
    assert sample_sizes == [36 * 36]
    evaluate(paths, labels, classifier, 4, 2)
    assert sample_sizes[1:] == [12 * 36] * 2


def test_images_are_read_twice_whatever_the_number_of_splits(image_folder, reads):
    paths, labels = find_images(image_folder)
    evaluate(paths, labels, small(), 4, 3)
    seeds = [int(s) for s in np.random.SeedSequence(0).generate_state(3) >> 1]
    trained_on = {i for s in seeds for i in split_by_class(np.array(labels), 4, s).tolist()}
    assert len(reads) == len(trained_on) + len(paths)


def test_train_with_estimate(image_folder):
    paths, labels = find_images(image_folder)
    model = small(random_state=0)
    estimate, skipped = train_with_estimate(paths, labels, model)
    assert estimate is not None
    assert estimate.mean > 80
    assert skipped == []
    found = model.summary_["estimate"]
    assert (found["accuracy"], found["images"]) == (estimate.mean, 36)
    assert (found["low"], found["high"]) == estimate.interval
    assert found["per_class"] == estimate.per_class
    assert (found["precision"], found["f1"]) == (estimate.precision, estimate.f1)
    precisions = {name: one.precision for name, one in estimate.class_metrics.items()}
    assert found["precision_per_class"] == precisions
    assert model.summary_["images"] == 36
    # The estimate changes nothing about the model.
    plain = small(random_state=0)
    assert train_with_estimate(paths, labels, plain, estimate=False).estimate is None
    np.testing.assert_array_equal(plain.decision_function(paths), model.decision_function(paths))


def test_too_few_images_for_an_estimate(image_folder):
    paths, labels = find_images(image_folder)
    model = small(random_state=0)
    assert train_with_estimate(paths[11:13], labels[11:13], model).estimate is None
    assert model.temperature_ is None
    assert "estimate" not in model.summary_
    assert set(model.predict(paths[11:13])) == {"across", "along"}
    assert model.predict_proba(paths[11:13]).max() < 1


def test_class_of_one_image_is_kept_out_of_the_estimate(image_folder):
    paths, labels = find_images(image_folder)
    model = small(random_state=0)
    estimate = train_with_estimate(paths[:25], labels[:25], model).estimate
    assert estimate is not None
    assert model.classes_.tolist() == ["across", "along", "dots"]
    assert (estimate.images, set(estimate.per_class)) == (24, {"across", "along"})


def test_score_model(image_folder):
    paths, labels = find_images(image_folder)
    model = small(random_state=0).fit(paths, labels)
    result = score_model(model, [*paths, "missing.png"], [*labels, "dots"], Stages(), skip=True)
    assert result.mean == 100
    assert result.images == 36
    assert result.skipped == [Skipped("missing.png", "no such file")]
    some = score_model(model, paths[:12], labels[:12], Stages())
    assert some.per_class == {"across": 100}
    assert some.skipped == []
    with pytest.raises(ValueError, match="does not know these classes: bee; it knows: across"):
        score_model(model, paths[:1], ["bee"], Stages())
    with pytest.raises(ValueError, match="none of the images could be read"):
        score_model(model, ["missing.png"], ["dots"], Stages(), skip=True)
    with pytest.raises(ValueError, match=r"missing\.png: no such file"):
        score_model(model, ["missing.png"], ["dots"], Stages())


@pytest.mark.parametrize(
    ("name", "train_per_class", "at_least"),
    [("COIL20", 20, 98.0), ("YaleB", 30, 97.0)],
)
def test_real_images(data_dir, name, train_per_class, at_least):
    paths, labels = find_images(data_dir / name)
    result = evaluate(paths, labels, ImageClassifier(n_jobs=-1), train_per_class, 1)
    assert result.mean >= at_least


def test_splits_one_at_a_time_give_the_same(image_folder, monkeypatch):
    paths, labels = find_images(image_folder)
    classifier = ImageClassifier(LRREncoder(codebook_size=8), C=0.01)
    together = evaluate(paths, labels, classifier, 3, 3)
    monkeypatch.setattr("lrrspm.training.MEMORY", 1)
    apart = evaluate(paths, labels, classifier, 3, 3)
    np.testing.assert_array_equal(apart.confusions, together.confusions)
    assert [(m.path, m.split) for m in apart.mistakes] == [
        (m.path, m.split) for m in together.mistakes
    ]
    assert set(apart.seconds) == set(together.seconds)
