"""Pages as Markdown and HTML."""

import pytest
from jinja2 import UndefinedError

from lrrspm.report import page
from tests.report.reports import Parsed

TOY = page.Page(
    "A page",
    [
        page.Heading("One & two"),
        page.Text("some `code`, **bold**, *slanted*, a [link](there.md) & <tags>"),
        page.Bullets(("first", "second")),
        page.Table("A table", ("", "a|b"), ((("x",), ("1", "2 < 3")),), ("a note",)),
        page.Figure("dot", b"<svg/>", "a dot"),
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
    (table,) = [block for block in TOY.blocks if isinstance(block, page.Table)]
    assert page.html_table(table) in made


def body(*blocks):
    made = page.to_html(page.Page("T", list(blocks)))
    return made.split("</h1>\n")[1].split("</main>")[0].strip()


HOSTILE = "<b> | & \"f\" 'g' </style><script>alert(1)</script>"
SAFE = (
    "&lt;b&gt; | &amp; &#34;f&#34; &#39;g&#39; &lt;/style&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
)


def test_tags_in_text_are_escaped():
    assert body(page.Text(HOSTILE)) == f"<p>{SAFE}</p>"
    assert body(page.Heading(HOSTILE, 3)) == f"<h3>{SAFE}</h3>"
    assert f"<li>{SAFE}</li>" in body(page.Bullets((HOSTILE,)))
    table = page.Table(HOSTILE, (HOSTILE,), (((HOSTILE, HOSTILE),),), (HOSTILE,))
    assert body(table).count(SAFE) == 5
    assert body(page.Figure("x", b"", HOSTILE)).count(SAFE) == 2
    assert f"<h1>{SAFE}</h1>" in page.to_html(page.Page(HOSTILE))
    assert body(page.Text('[a](x"onclick=b)')) == '<p><a href="x&#34;onclick=b">a</a></p>'


def test_values_of_templates_have_no_invisible_characters():
    made = page.to_html(page.Page("a\udcff \u202e \n\x1b[1m snow \N{SNOWMAN}"))
    assert "<h1>a\\udcff \\u202e \\n\\x1b[1m snow \N{SNOWMAN}</h1>" in made
    assert "\\u202e" in body(page.Text("a \u202e b"))


def test_tables_without_a_title():
    table = page.Table("", ("a", "b"), ((("1",), ("2",)),))
    assert "caption" not in body(table)
    assert page.to_markdown(page.Page("T", [table])) == "# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


def test_nothing_may_be_fetched():
    text = page.to_html(TOY)
    assert (
        'http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;' in text
    )
    Parsed(text)


def macro(call):
    """Render one call of a table macro."""
    source = '{% from "macros.html" import table %}{{ ' + call + " }}"
    return page._environment().from_string(source).render()


def test_columns_of_words_and_columns_that_narrow_screens_leave_out():
    made = macro('table(("a", "b", "c"), [("1", "2", "3")], words=(1,), spare=(1, 2))')
    assert '<th scope="col" class="words spare">b</th>' in made
    assert '<th scope="row">1</th><td class="words spare">2</td><td class="spare">3</td>' in made


def test_marks_in_tables_of_names_mean_nothing():
    made = macro('table(("**a**",), [("`b`",), (["[c](d)", "*e*"],)])')
    for shown in ("**a**", "`b`", "[c](d)", "<small>*e*</small>"):
        assert shown in made
    assert not {"code", "strong", "em", "a"} & {tag for tag, _ in Parsed(made).tags}


def test_templates_have_no_undefined_values():
    with pytest.raises(UndefinedError):
        page.render("page.html", title="T")
