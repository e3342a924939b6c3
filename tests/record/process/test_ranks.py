"""Programs of several processes, as torchrun starts them: each rank writes a trace of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.record.process.ranks import Rank, this_process
from gradscope.trace.schema import Thread
from tests.record.running import House

SCRIPT = "import torch\n(torch.ones(2, requires_grad=True) * 2).sum().backward()\nprint('out')"


def as_rank(number: int, size: int) -> dict[str, str]:
    return {"RANK": str(number), "WORLD_SIZE": str(size)}


def test_each_rank_writes_its_own_trace_and_says_which(house: House) -> None:
    house.write(SCRIPT)

    for number in range(2):
        ran = house.gradscope("trace", "-o", "all.json.gz", "script.py", env=as_rank(number, 2))
        assert ran.err.startswith(f"gradscope: all.rank{number}.json.gz: 1 step, 3 nodes")

        trace = house.recorded(f"all.rank{number}.json.gz")
        assert (trace.meta["rank"], trace.meta["world_size"]) == (number, 2)
        assert {thread.rank for thread in trace.rows(Thread)} == {number}
        assert house.violations(f"all.rank{number}.json.gz") == []


def test_a_trace_of_the_only_process_has_no_rank(house: House) -> None:
    house.write(SCRIPT)

    house.gradscope("trace", "script.py")

    assert {"rank", "world_size"}.isdisjoint(house.recorded().meta)


def test_ranks_that_nobody_asked_for_run_unrecorded(house: House) -> None:
    house.write(SCRIPT)

    ran = [
        house.gradscope("trace", "--ranks", "0,2", "script.py", env=as_rank(n, 3)) for n in range(3)
    ]

    assert [each.out for each in ran] == ["out\n"] * 3
    assert ran[1].err == ""
    assert sorted(path.name for path in house.folder.glob("*.json")) == [
        "trace.rank0.json",
        "trace.rank2.json",
    ]
    refused = house.gradscope("trace", "--ranks", "0-2", "script.py")
    assert (refused.code, refused.err) == (
        2,
        "gradscope: error: --ranks expects numbers, such as 0,2, not '0-2'\n",
    )


@pytest.mark.parametrize(
    ("rank", "size"), [("", ""), ("0", ""), ("first", "2"), ("²", "3"), ("2", "2"), ("-1", "2")]
)
def test_an_environment_that_makes_no_sense_is_one_process(
    rank: str, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RANK=first ended the recording in exit code 70."""
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)

    assert this_process() == Rank(0, 1)


def test_a_rank_stands_before_the_ending_of_a_file() -> None:
    names = ["trace.json", "a.b.json.zst", "plain", "folder/x.gz"]

    files = [str(Rank(3, 4).file(Path(name))) for name in names]

    assert files == ["trace.rank3.json", "a.b.rank3.json.zst", "plain.rank3", "folder/x.rank3.gz"]
    assert Rank(0, 1).file(Path("trace.json")) == Path("trace.json")
