"""How Sphinx builds the site (`make site`). A built site needs no network."""

import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
HOUSE = DOCS.parent
sys.path[:0] = [str(HOUSE), str(HOUSE / "tools" / "docs")]

from messages import as_markdown  # noqa: E402

from gradscope import __version__, load, render  # noqa: E402

project = "gradscope"
author = "the gradscope developers"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["gallery/*.txt"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]

smartquotes = False

html_theme = "furo"
pygments_dark_style = "monokai"
html_title = "gradscope"
html_theme_options = {"source_repository": "", "top_of_page_buttons": []}
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_search_scorer = str(DOCS / "scorer.js")
html_show_search_summary = False  # it fetches pages, which files opened directly cannot

add_module_names = False
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


# Links to files of the repository that are no part of the site become their names.

LINK = re.compile(r"\[([^\]]+)\]\((\.\.?/[^)#:]*)(?:#[^)]*)?\)")


def _without_links_outside(_app: Any, name: str, source: list[str]) -> None:
    folder = (DOCS / name).parent

    def link(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        is_outside = not target.is_relative_to(DOCS)
        return found[1] if is_outside and (target.is_dir() or target.suffix == ".md") else found[0]

    source[0] = LINK.sub(link, source[0])


# The page of messages, too long and too often changed to be kept in the repository.


MESSAGES = "reference/messages"


def _add_messages(_app: Any, name: str, source: list[str]) -> None:
    if name == MESSAGES:
        source[0] += as_markdown()


def _messages_may_be_old(*_: Any) -> list[str]:
    return [MESSAGES]


# The live pages of the gallery.


def _add_live_pages(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.name != "html":
        return
    for trace in sorted((DOCS / "gallery").glob("*.json*")):
        name = trace.name.partition(".")[0]
        render(load(trace), Path(app.outdir) / "gallery" / f"{name}.trace.html", format="html")


# What axe-core finds in Furo's pages.

ACCESSIBLE = {
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    '<div class="highlight"><pre>': '<div class="highlight"><pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<div id="search-results">': '<h1>Search</h1><div id="search-results">',
}


def _make_accessible(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.name != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        if not page.name.endswith(".trace.html"):
            text = page.read_text(encoding="utf-8")
            for old, new in ACCESSIBLE.items():
                text = text.replace(old, new)
            page.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    app.connect("source-read", _without_links_outside)
    app.connect("source-read", _add_messages)
    app.connect("env-get-outdated", _messages_may_be_old)
    app.connect("build-finished", _make_accessible)
    app.connect("build-finished", _add_live_pages)
