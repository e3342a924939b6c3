"""The site that `make site` builds: its search finds everything, it is accessible and offline."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gradscope.analysis.rules import all_rules
from gradscope.cli import app
from tests.shared.browsing import check_accessible, needs_axe

HOUSE = Path(__file__).parents[2]
SITE = Path(sys.prefix) / "site"
sys.path.insert(0, str(HOUSE / "tools" / "docs"))

import messages  # noqa: E402

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not SITE.exists(), reason="the site is not built: make site"),
]

FOUND = r"""questions => questions.map(question => {
  const [, ...terms] = Search._parseQuery(question);
  if (terms[0].size === 0) return null;  // "and more": words that the index leaves out
  return Search._performSearch(question, ...terms).reverse().map(each => each[0]);
})"""
"""What Sphinx's search finds for each question, best first; null if its words are not indexed."""
KINDS_OF_PAGES = (
    "index", "quickstart", "search", "guide/trace", "how-to/share", "rules/index",
    "rules/graph-cut", "reference/commands/inspect", "reference/api", "gallery/index",
    "engine/index",
)  # fmt: skip


@pytest.fixture
def site(chromium: Any) -> Generator[Any]:
    """A page that fails the test if it asks for anything outside the site."""
    outside: list[str] = []
    page = chromium.new_page()
    page.on(
        "request",
        lambda asked: asked.url.startswith(SITE.as_uri()) or outside.append(asked.url),
    )
    yield page
    page.close()
    assert outside == []


def asked(site: Any, question: str) -> str:
    """The first result that a reader sees."""
    site.goto(f"{(SITE / 'search.html').as_uri()}?q={question}")
    first = site.locator("#search-results li a").first
    return str(first.inner_text())


def found(site: Any, questions: list[str]) -> dict[str, list[str] | None]:
    site.goto((SITE / "search.html").as_uri())
    site.wait_for_function("Search.hasIndex()")
    return dict(zip(questions, site.evaluate(FOUND, questions), strict=True))


def test_the_search_finds_every_rule(site: Any) -> None:
    rules = [*all_rules()]
    first = {rule.slug: asked(site, rule.slug) for rule in rules}
    by_id = {rule.slug: asked(site, rule.id) for rule in rules[::8]}

    assert first == {rule.slug: f"{rule.id} {rule.slug}" for rule in rules}
    assert by_id.items() <= first.items()


def test_the_search_finds_every_option(site: Any) -> None:
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    options = {
        option
        for command in commands.values()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    }
    first = {option: asked(site, option) for option in options}

    assert {each: first[each] for each in options if not first[each].endswith(each)} == {}


def test_the_search_finds_every_environment_variable(site: Any) -> None:
    page = (HOUSE / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    variables = re.findall(r"`(GRADSCOPE\w*)`", page)

    pages = found(site, variables)

    assert {
        name: got for name, got in pages.items() if "reference/environment" not in (got or [])
    } == {}


def test_the_search_finds_every_message(site: Any) -> None:
    texts = [each.text.replace("{…}", " ") for each in messages.messages()]

    pages = found(site, texts)

    lost = [text for text, got in pages.items() if got and "reference/messages" not in got]
    assert len(texts) > 2_000
    assert lost == []


@needs_axe
@pytest.mark.parametrize("name", KINDS_OF_PAGES)
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_pages_are_accessible(site: Any, name: str, width: int, theme: str) -> None:
    site.set_viewport_size({"width": width, "height": 900})
    site.emulate_media(color_scheme=theme)
    site.goto((SITE / f"{name}.html").as_uri())

    check_accessible(site)
