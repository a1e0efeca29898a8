"""Tables 1, 2 and 6, the schematic figures, and contradictions of the paper."""

from lrrspm.paper import figures, reference
from lrrspm.paper.experiments import SCHEMATICS, Options
from lrrspm.paper.results import Results

OPTIONS = Options()


def test_symbols_are_explained(tmp_path):
    table = reference.notation_table(Results(tmp_path), OPTIONS)
    assert [row[0][0] for row in table.rows] == list("nlmskryXDC")
    assert ("m",) in [row[0] for row in table.rows]
    assert table.rows[2][2] == ("128, the length of a descriptor",)


def test_counts_are_those_of_the_published_sets(tmp_path):
    rows = {row[0][0]: row[2:] for row in reference.datasets_table(Results(tmp_path), OPTIONS).rows}
    assert rows["LS"][0] == ("4485", "(4486)")
    assert rows["Caltech256"][3] == ("257", "(256)")
    assert rows["YaleB"] == (("2414",), ("168 x 192",), ("59-64",), ("38",))


def test_quoted_accuracies(tmp_path):
    table = reference.literature_table(Results(tmp_path), OPTIONS)
    assert table.rows[0][1] == ("(64.60 ± 0.80)",)
    assert table.rows[1][1] == ("",)
    assert len(reference.describe("table6", Results(tmp_path), OPTIONS)) == 2


def test_contradictions():
    said = reference.contradictions()
    assert len(said) == 4
    assert "KernelBOF's classification time on COIL20, 11.54 s" in said[0]
    assert "7200 images of COIL100 in 11.53 s and the 1440 of COIL20 in 11.54 s" in said[1]
    assert "bold on LS" in said[2]
    assert "bold on COIL100 with 10" in said[3]


def test_schematics_are_drawn(tmp_path):
    for name in SCHEMATICS:
        figure = figures.draw(name, Results(tmp_path), OPTIONS)
        assert figure is not None
        assert b"SIFT" in figures.to_bytes(figure, "svg")
