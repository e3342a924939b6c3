"""Ranks and steps in a terminal."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from rich.cells import cell_len

from gradscope import cli
from gradscope.analysis.ranks.heat import rank_steps
from gradscope.render.terminal.cells import PLAIN, UNICODE, Charset
from gradscope.render.views.rank_views import columns_in, heat_lines, rank_lane_lines
from gradscope.scene.choices import RankHeat
from gradscope.scene.timeline.rank_heat import heat_scene
from gradscope.scene.timeline.rank_lanes import rank_lanes
from gradscope.trace.load_save import save
from tests.analysis.ranks.several_ranks import MS, several_ranks
from tests.shared.example_traces import two_layers

SLOW = {(7, 1): 5 * MS, (3, 0): 3 * MS}


def drawn(what: RankHeat, width: int = 80, charset: Charset = UNICODE, **options: Any) -> list[str]:
    found = rank_steps(several_ranks(9, **{"slow": SLOW, "alike": True, **options}))
    assert found is not None
    scene = heat_scene(found, what, columns_in(width), 14)
    return [line.plain for line in heat_lines(scene, width, charset)]


def test_ranks_that_behave_alike_are_one_row() -> None:
    assert drawn(RankHeat.TIME) == [
        "ranks by step: time of each step, without recorded waits for other ranks",
        "                           0",
        "  ranks 0 to 2, 4 to 6, 8  ···",
        "  rank 3                   ▓··",
        "  rank 7                   ·█·",
        "  key: · about the median of the step, ▓ from 2 × on, █ from 4 × on",
        "  slowest: rank 7, step 1, 5.00 ms, 5 × the median",
    ]


@pytest.mark.parametrize("charset", [UNICODE, PLAIN])
@pytest.mark.parametrize("what", [*RankHeat])
def test_no_line_is_wider_than_the_terminal(what: RankHeat, charset: Charset) -> None:
    for width in (60, 79, 200):
        lines = drawn(what, width, charset, steps=150, alike=False)

        assert max(map(cell_len, lines)) <= width
        assert len(lines) <= 24
        assert not charset.plain or "".join(lines).isascii()


@pytest.mark.parametrize("charset", [UNICODE, PLAIN])
def test_lanes_of_ranks_have_one_axis(charset: Charset) -> None:
    scene = rank_lanes(several_ranks(2, late={(1, 2): 800_000}), 2)
    assert scene is not None
    for width in (60, 100):
        title, axis, first, second, *_ = [
            each.plain for each in rank_lane_lines(scene, width, charset)
        ]

        assert title.startswith("ranks in step 2: recorded work")
        assert max(map(cell_len, (title, axis, first, second))) <= width
        assert first.endswith(charset.text("  waited 800 µs"))
        assert (charset.wait in first, charset.wait in second) == (True, False)
        starts = {
            min(text.index(each) for each in charset.run + charset.some if each in text)
            for text in (first, second)
        }
        assert len(starts) == 1


def test_the_command_shows_a_table_and_its_numbers(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as left:
            cli.main(["timeline", *arguments])
        captured = capsys.readouterr()
        return left.value.code, captured.out, captured.err

    path, alone = str(tmp_path / "all.json"), str(tmp_path / "one.json")
    save(several_ranks(9, slow=SLOW, alike=True), tmp_path / "all.json")
    save(two_layers(steps=2), tmp_path / "one.json")

    assert "rank 7                   \u00b7\u2588\u00b7" in said("--ranks", "time", path)[1]
    code, out, _ = said("--ranks", "alike", path)
    assert (code, "all ranks had equal counts in all steps" in out) == (0, True)
    numbers = orjson.loads(said("--ranks", "time", "--json", path)[1])
    assert numbers["cells"][7] == [MS, 5 * MS, MS]
    assert numbers["rows"] == [[0, 1, 2, 4, 5, 6, 8], [3], [7]]
    assert said(path)[1].startswith("ranks by step: time of each step")
    assert said("--json", path)[::2] == (
        2,
        "gradscope: error: --json needs --ranks: gradscope timeline --ranks time --json\n",
    )
    assert "needs a trace of several ranks" in said("--ranks", "time", alone)[2]
