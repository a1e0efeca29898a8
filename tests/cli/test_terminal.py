"""What is printed says what its numbers are."""

import numpy as np

from lrrspm.cli.terminal import print_evaluation
from lrrspm.evaluation import Evaluation


def test_shares_of_confused_classes_are_called_means(capsys):
    """Of a, 5 of 10 are confused, of b 10 of 100: the mean is 30 %, but 15 of 110 are 14 %."""
    counts = np.array([[5, 5], [10, 90]])
    print_evaluation(Evaluation(["a", "b"], [counts], 110))
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "confused with each other" in line]
    assert line.endswith("a, b (30.0 % of their images, mean over classes)")
