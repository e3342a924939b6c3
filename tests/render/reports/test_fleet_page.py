"""The page of an answer about a fleet, as a person meets it in Chromium."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.shared.browsing import check_accessible, needs_axe

pytest.importorskip("duckdb", reason="a fleet needs it: pip install 'gradscope-trace[fleet]'")
pytest.importorskip("pyarrow", reason="a fleet needs it: pip install 'gradscope-trace[fleet]'")

from gradscope.fleet.asking.answer import Asking, FleetAnswer
from gradscope.fleet.asking.folder import Asked, fleet_at
from gradscope.fleet.asking.question import question_called
from gradscope.render.reports.fleet_page import fleet_page
from tests.fleet.planted import Planted, write

pytestmark = pytest.mark.browser

RANKS, STEPS = 6, 30
Opens = Callable[..., Any]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of two questions."""
    root = tmp_path_factory.mktemp("fleet")
    write(root, Planted(ranks=RANKS, steps=STEPS, run="a", nan=(1, 20, 1)))
    write(root, Planted(ranks=RANKS, steps=STEPS, run="b", seed=1, drift=(4, 12, 2)))
    found = {"long": _page_of_many_steps(root.parent / "long")}
    for name in ("first-nan", "drift"):
        question = question_called(name)
        asking = Asking(fleet_at(root, Asked()), question, dict(question.parameters))
        found[name] = root / f"{name}.html"
        found[name].write_bytes(fleet_page(asking.answer(plot=True), "fleet"))
    return found


def _page_of_many_steps(root: Path) -> Path:
    """A page on which three steps share a cell, written from rows."""
    import pyarrow as pa

    root.mkdir()
    rows = [
        {"run": "base", "at_rank": rank, "at_step": at, "value": 24.0 * (at > 1), "rank": rank,
         "step": 3 * at, "rank_bin": 1, "step_bin": 3}
        for rank in range(2) for at in range(4)
    ]  # fmt: skip
    question = question_called("first-nan")
    named = [{"run": "base", "step": 7, "ranks": [0, 1], "rank": 0}]
    table = pa.Table.from_pylist(named)
    answer = FleetAnswer(question, named, table, plot=pa.Table.from_pylist(rows))
    page = root / "page.html"
    page.write_bytes(fleet_page(answer, "fleet"))
    return page


@pytest.fixture
def opened(chromium: Any, pages: dict[str, Path]) -> Generator[Opens]:
    """Opens the page of a question. What it asks for or complains of fails the test."""
    said: list[str] = []
    contexts = []

    def asks(url: str, file: Path) -> None:
        if url != file.as_uri():
            said.append(f"asks {url}")

    def open_page(name: str, *, width: int = 1280, dark: bool = False) -> Any:
        file = pages[name]
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda asked: asks(asked.url, file))
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def cells(page: Any, run: int) -> int:
    return int(page.locator(".map").nth(run).locator("rect").count())


def test_each_run_has_a_map_with_a_cell_for_each_rank_and_step(opened: Opens) -> None:
    page = opened("drift")

    assert [cells(page, run) for run in range(2)] == [RANKS * STEPS] * 2
    assert page.locator("figcaption").all_inner_texts() == ["run a", "run b"]
    assert page.locator("rect.named").count() == 1
    assert page.locator("tbody tr").count() == 1


def test_a_click_on_a_cell_names_the_command_that_shows_its_step(opened: Opens) -> None:
    page = opened("first-nan")
    page.locator('.map rect[data-row="1"][data-column="20"]').first.click()

    said = page.locator("#chosen")
    assert said.inner_text().startswith("run a, rank 1, step 20: ")
    assert said.locator("code").inner_text() == "gradscope view --step 20 a.rank1.json"
    assert page.locator("rect.chosen").count() == 1


def test_arrow_keys_begin_at_what_the_answer_names_and_stay_in_the_map(opened: Opens) -> None:
    page = opened("drift")
    page.locator(".map").nth(1).focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#chosen").inner_text().startswith("run b, rank 4, step 12: ")

    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert page.locator("#chosen").inner_text().startswith("run b, rank 5, step 13: ")
    assert page.locator("rect.chosen").count() == 1


def test_a_cell_of_several_steps_is_marked_if_one_of_them_is_named(opened: Opens) -> None:
    page = opened("long")

    places = page.locator("rect.named").evaluate_all(
        "every => every.map(each => [each.dataset.row, each.dataset.column])"
    )
    assert places == [["0", "2"], ["1", "2"]]
    assert page.locator("#chosen").inner_text().startswith("A row is a rank, a column 3 steps.")
    legend = page.locator(".legend li").all_inner_texts()
    assert (legend[0], legend[-2]) == ("0 to 4.8", "19.2 to 24")
    assert page.locator("rect.heat0").count() == page.locator("rect.heat4").count() == 4


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_is_never_wider_than_the_window(opened: Opens, width: int) -> None:
    page = opened("first-nan", width=width)

    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_narrow_window_shows_what_the_answer_names(opened: Opens) -> None:
    page = opened("first-nan", width=400)

    assert page.locator("rect.named").first.evaluate(
        """named => { const [cell, map] = [named, named.closest(".map")].map(
            each => each.getBoundingClientRect());
        return map.left < cell.left && cell.right < map.right; }"""
    )
    page.locator(".map").first.focus()
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    assert page.locator("#chosen").inner_text().startswith("run a, rank 0, step 9: ")
    assert page.locator("rect.chosen").evaluate(
        """chosen => { const [cell, map] = [chosen, chosen.closest(".map")].map(
            each => each.getBoundingClientRect());
        return map.left <= cell.left && cell.right <= map.right; }"""
    )


@needs_axe
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
def test_axe_finds_nothing(opened: Opens, width: int, *, dark: bool) -> None:
    page = opened("first-nan", width=width, dark=dark)
    page.locator(".map").first.focus()
    page.keyboard.press("ArrowRight")

    check_accessible(page)
