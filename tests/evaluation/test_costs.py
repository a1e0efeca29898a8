"""What tuning expects of a candidate, by a clock that only these tests move."""

from functools import partial

import numpy as np
import pytest

from lrrspm.evaluation import Candidate, Evaluation, tune
from lrrspm.evaluation.costs import Costs, Step
from lrrspm.methods import PRESETS, find_method, measured

FAST, BALANCED = (
    Step(name, find_method(name).channels()[0].levels, 10) for name in ("fast", "balanced")
)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def length(method):
    return sum(channel.expected_features for channel in find_method(method).channels())


def spend(costs, clock, step, fixed=20.0, grown=8.0, gram=1.0, dual=0.5):
    """Take as long as a preset whose vectors cost ``fixed``, and ``grown`` for its images."""
    with costs.timed("vectors"):
        clock.now += fixed + grown
        # Half of the images again: (2 + 1) / 0.5 for all of them, and 2.
        costs.encoded(0.5, grown / 4, grown / 8)
    for what, seconds in (("gram", gram), ("dual", dual)):
        with costs.timed(what):
            clock.now += seconds
    costs.tried(step)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def costs(clock):
    return Costs(clock)


def test_the_first_candidate_is_expected_to_take_no_time(costs):
    assert costs.expect(FAST) == 0


@pytest.mark.parametrize("grown", [0.0, 8.0, 800.0])
def test_only_what_grows_with_the_images_is_scaled(costs, clock, grown):
    spend(costs, clock, FAST, grown=grown)
    slower = measured()["fast"]["images_per_second"] / measured()["balanced"]["images_per_second"]
    longer = length("balanced") / length("fast")
    assert costs.expect(BALANCED) == pytest.approx(20 + grown * slower + longer + 0.5)


def test_vectors_from_a_store_are_not_expected_to_take_less_than_nothing(costs, clock):
    """Encoding some again takes longer than all did, so all that they took is scaled."""
    with costs.timed("vectors"):
        clock.now += 1
        costs.encoded(0.5, 2.0, 1.0)
    costs.tried(FAST)
    slower = measured()["fast"]["images_per_second"] / measured()["balanced"]["images_per_second"]
    assert costs.expect(BALANCED) == pytest.approx(slower)


def test_candidates_of_one_preset_share_its_vectors(costs, clock):
    spend(costs, clock, FAST)
    assert costs.expect(FAST._replace(C=3)) == 0.5
    fewer = FAST._replace(levels=FAST.levels[:1])
    assert costs.expect(fewer) == 1.5
    assert costs.expect(fewer._replace(C=3), fewer) == 0.5


def test_of_a_preset_that_is_left_out_the_vectors_count_once(costs, clock):
    spend(costs, clock, FAST)
    gram = length("balanced") / length("fast")
    assert costs.expect(BALANCED._replace(C=3), BALANCED) == 0.5
    fewer = BALANCED._replace(levels=BALANCED.levels[:1])
    assert costs.expect(fewer, BALANCED) == pytest.approx(gram + 0.5)
    assert costs.expect(fewer) == costs.expect(BALANCED)


def test_the_gram_matrix_of_fewer_levels_says_nothing_of_another_preset(costs, clock):
    spend(costs, clock, FAST)
    before = costs.expect(BALANCED)
    with costs.timed("gram"):
        clock.now += 0.001
    costs.tried(FAST._replace(levels=FAST.levels[:1]))
    assert costs.expect(BALANCED) == before


@pytest.fixture
def search(image_folder, clock, monkeypatch):
    """Tune, on a clock: what candidates take is as expected of presets."""

    class Trials:
        def __init__(self, *given):
            self.costs, self.last = given[-1], Step("", (), 0)

        def run(self, step):
            rates = [measured()[name]["images_per_second"] for name in ("fast", step.method)]
            if step.method != self.last.method:
                gram = length(step.method) / length("fast")
                spend(self.costs, clock, step, 20, 8 * rates[0] / rates[1], gram)
            else:
                with self.costs.timed("dual"):
                    clock.now += 0.5
                if step.levels != self.last.levels:
                    clock.now += 1  # less than expected of the longest
                self.costs.tried(step)
            self.last = step
            confusion = np.array([[3, 1], [1, 3]])
            found = Evaluation(["a", "b"], [confusion], 8)
            return Candidate(step.method, step.levels, step.C, found, 1.0, 1.0)

    monkeypatch.setattr("lrrspm.evaluation.tuning._Trials", Trials)
    monkeypatch.setattr("lrrspm.evaluation.tuning.Costs", partial(Costs, clock))
    paths = [str(image_folder / kind / f"{i:02}.png") for kind in "ab" for i in range(3)]
    return partial(tune, paths, ["a"] * 3 + ["b"] * 3)


@pytest.mark.parametrize("budget", [0, 40, 90])
def test_the_budget_that_is_named_is_enough(search, budget):
    found = search(budget=budget)
    assert found.candidates[0].method == "fast"
    assert found.left_out
    budgets = [one.budget for one in found.left_out]
    assert budgets == sorted(budgets)
    assert budgets[0] > budget
    again = search(budget=budgets[-1])
    assert again.left_out == []
    assert len(again.candidates) == 35


def test_each_preset_has_its_own_budget(search):
    found = search(budget=0)
    for method, other in zip(PRESETS, list(PRESETS)[1:], strict=False):
        enough = max(one.budget for one in found.left_out if one.method == method)
        again = search(budget=enough)
        assert method not in {one.method for one in again.left_out}
        assert other in {one.method for one in again.left_out}


def test_a_step_takes_no_more_than_is_left(search, clock):
    """Fast takes 29.5 s; all of its candidates fit in, and nothing else."""
    begin = clock.now
    found = search(budget=50)
    assert clock.now - begin <= 50
    assert {one.method for one in found.candidates} == {"fast"}
    assert len(found.candidates) == 15
