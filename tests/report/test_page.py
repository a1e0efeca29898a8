"""Pages as Markdown and HTML."""

import pytest

from lrrspm.report import page

TOY = page.Page(
    "A page",
    [
        page.Heading("One & two"),
        page.Text("some `code`, **bold**, *slanted*, a [link](there.md) & <tags>"),
        page.Bullets(("first", "second")),
        page.Table("A table", ("", "a|b"), ((("x",), ("1", "2 < 3")),), ("a note",)),
        page.Picture("dot", b"<svg/>", "a dot"),
    ],
)


def test_page_as_markdown():
    assert page.to_markdown(TOY) == (
        "# A page\n\n## One & two\n\n"
        "some `code`, **bold**, *slanted*, a [link](there.md) & <tags>\n\n"
        "- first\n- second\n\n**A table**\n\n|  | a\\|b |\n|---|---|\n| x | 1<br>2 < 3 |\n\n"
        "a note\n\n![a dot](figures/dot.svg)\n\n*a dot*\n"
    )


def test_page_as_html():
    made = page.to_html(TOY)
    assert "<h2>One &amp; two</h2>" in made
    assert (
        "<p>some <code>code</code>, <strong>bold</strong>, <em>slanted</em>, a "
        '<a href="there.md">link</a> &amp; &lt;tags&gt;</p>' in made
    )
    assert "<td>1<br><small>2 &lt; 3</small></td>" in made
    assert 'src="data:image/svg+xml;base64,PHN2Zy8+"' in made


def body(*blocks):
    made = page.to_html(page.Page("T", list(blocks)))
    return made.split("</h1>\n")[1].split("\n</main>")[0]


HOSTILE = "<b>`a` **b** *c* [d](e) | & \"f\" 'g' \udcff \u202e \n"
SAFE = "&lt;b&gt;`a` **b** *c* [d](e) | &amp; &quot;f&quot; &#x27;g&#x27; \\udcff \\u202e \\n"


def test_marks_in_names_mean_nothing():
    name = page.Plain(HOSTILE)
    assert body(page.Text(name)) == f"<p>{SAFE}</p>"
    assert body(page.Heading(name, 3)) == f"<h3>{SAFE}</h3>"
    assert body(page.Bullets((name,))) == f"<ul><li>{SAFE}</li></ul>"
    assert f"<summary>{SAFE}</summary>" in body(page.Details(name, ()))
    table = body(page.Table("", (name, name), (((name,), ("x", name)),)))
    assert table.count(SAFE) == 4
    assert f"<h1>{SAFE}</h1>" in page.to_html(page.Page(HOSTILE))


def test_anchors_folds_and_markup():
    assert body(page.Heading("A", 2, "a")) == '<h2 id="a">A</h2>'
    folded = page.Details("more", (page.Text("*in*"), page.Markup("<hr>")))
    assert body(folded) == "<details><summary>more</summary>\n<p><em>in</em></p>\n<hr>\n</details>"
    assert page.to_markdown(page.Page("T", [folded])) == (
        "# T\n\n<details><summary>more</summary>\n\n*in*\n\n<hr>\n\n</details>\n"
    )


def test_tables_without_a_title_and_with_words():
    table = page.Table("", ("a", "b"), ((("1",), ("2",)),), words=(1,))
    assert "caption" not in body(table)
    assert '<td class="words">2</td>' in body(table)
    assert page.to_markdown(page.Page("T", [table])) == "# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


def test_columns_that_narrow_screens_do_without():
    table = page.Table("", ("a", "b", "c"), ((("1",), ("2",), ("3",)),), words=(1,), spare=(1, 2))
    assert '<th scope="col" class="words spare">b</th>' in body(table)
    assert '<td class="words spare">2</td><td class="spare">3</td>' in body(table)
    assert "| a | b | c |" in page.to_markdown(page.Page("T", [table]))


def test_nothing_may_be_fetched():
    made = page.to_html(page.Page("T", [], "p { color: red; }"))
    assert (
        'http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;' in made
    )
    assert "p { color: red; }</style>" in made


@pytest.mark.parametrize(("given", "shown"), [("a\x1b[1m", "a\\x1b[1m"), ("snow ☃", "snow ☃")])
def test_printable(given, shown):
    assert page.printable(given) == shown
