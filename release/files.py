"""Write the generated files of a release: versions in citations, and the list of licenses."""

from __future__ import annotations

import re

from lrrspm import __version__

from .licenses import PAGE, ROOT, page

CITATIONS = {
    ROOT / "CITATION.cff": r"(?<=^version: ).+",
    ROOT / "docs" / "citing.md": r"(?<=^  version = \{).+(?=\})",
}
"""Files that state the version, and where."""


def main() -> None:
    for path, pattern in CITATIONS.items():
        text = path.read_text("utf-8")
        path.write_text(re.sub(pattern, __version__, text, flags=re.MULTILINE), "utf-8")
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
