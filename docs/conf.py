"""Settings of the documentation site; ``make docs`` builds it into docs/_build/html."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]  # docs.parts for examples, our extensions

from sphinx.application import Sphinx  # noqa: E402
from sphinx.errors import SphinxError  # noqa: E402

import lrrspm  # noqa: E402

project = "lrrspm"
author = "the lrrspm developers"
release = version = lrrspm.__version__

extensions = [
    "commands",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples"]
templates_path = ["_templates"]

# Without a network, names of other packages cannot be looked up; public ones of ours are.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!lrrspm\.).*"),
    (r"py:.*", r"lrrspm\._.*"),
    (r"py:.*", r"lrrspm\.\w+\.[a-z]\w*\..*"),  # of a file in a room, not of the room
    (r"py:mod", r"lrrspm\.\w+\.\w+"),
]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4  # as GitHub names them, which the pages' links rely on

smartquotes = False  # options keep their hyphens

html_theme = "furo"
html_title = f"lrrspm {release}"
# The font of formulas, STIX Two Math, comes with a package: not every system has one for them.
html_static_path = ["_static", str(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf")]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f6fb4", "color-brand-content": "#1f6fb4"},
    "dark_css_variables": {"color-brand-primary": "#6fb1e8", "color-brand-content": "#6fb1e8"},
}
# Furo's own fonts are those of the system; nothing is loaded from elsewhere.
pygments_style, pygments_dark_style = "friendly", "native"

autosummary_generate = True
autodoc_typehints = "signature"
autodoc_type_aliases = {
    name: name
    for name in ("AnyImage", "ArrayLike", "ClassWeight", "Floats", "Image", "Level", "NDArray",
                 "Progress", "SVM", "Source")
}  # fmt: skip
autodoc_member_order = "bysource"
maximum_signature_line_length = 88
numpydoc_show_class_members = False  # the template of a class lists them in full

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_.*\.py",
    "within_subsection_order": "gallery_order.GalleryOrder",
    "thumbnail_size": (480, 200),
    "abort_on_example_error": False,  # all of them are tried; any failure fails the build
    "download_all_examples": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # that page loads scripts from elsewhere
}


# Files of the repository that pages link to, and the pages that include them here.
INCLUDED = {
    "../CHANGELOG.md": "changelog.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../benchmarks/README.md": "benchmarks.md",
}


def link_included(app: Sphinx, page: str, source: list[str]) -> None:
    """Lead links to files outside docs/ to the pages that include them."""
    for path, own in INCLUDED.items():
        source[0] = source[0].replace(f"]({path}", f"]({own}")


def name_aliases(
    app: Sphinx, kind: str, name: str, member: Any, options: Any, signature: str, returned: str
) -> tuple[str | None, str | None]:
    """Write aliases of types, such as ArrayLike, by their names."""
    alias = r"TypeAliasForwardRef\('(\w+)'\)"
    both = [text and re.sub(alias, r"\1", text) for text in (signature, returned)]
    return both[0], both[1]


def skip_member(
    app: Sphinx, kind: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn and NamedTuple add to classes."""
    theirs = str(getattr(member, "__module__", "")).startswith("sklearn.")
    requested = name.startswith("set_") and name.endswith("_request")
    field = str(getattr(member, "__doc__", "")).startswith("Alias for field number")
    return True if theirs or requested or field else None


def check_assets(app: Sphinx, failure: Exception | None) -> None:
    """Fail where a page would load a script, a style, a font or an image from another host."""
    if failure is not None or app.builder.name != "html":
        return
    loads = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=["'](?:https?:)?//""")
    for path in sorted(Path(app.outdir).rglob("*.html")):
        if found := loads.search(path.read_text()):
            raise SphinxError(f"{path.name} loads from another host: {found[0]}")
    for path in sorted(Path(app.outdir).rglob("*.css")):
        if found := re.search(r"""(?:@import|url\()\s*["']?(?:https?:)?//""", path.read_text()):
            raise SphinxError(f"{path.name} loads from another host: {found[0]}")


def setup(app: Sphinx) -> None:
    """Connect what the settings above cannot say."""
    app.connect("source-read", link_included)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-signature", name_aliases)
    app.connect("build-finished", check_assets)
