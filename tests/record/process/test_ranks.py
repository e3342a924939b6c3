"""Programs of several processes, as torchrun starts them: each rank writes a trace of its own."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gradscope.record.process import ranks
from gradscope.record.process.ranks import Rank, this_process, writing_to
from gradscope.trace.schema import Thread
from tests.record.running import House, needs_mpi

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
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "-1")

    assert this_process() == Rank(0, 1)


def test_each_attempt_of_a_launcher_has_files_of_its_own(house: House) -> None:
    """The second attempt replaced the traces of the first."""
    house.write(SCRIPT)

    said = [
        house.gradscope(
            "trace", "script.py", env=as_rank(number, 2) | {"TORCHELASTIC_RESTART_COUNT": restarts}
        ).err
        for restarts in "01"
        for number in range(2)
    ]

    assert [line.count("restart") for line in said[:2]] == [0, 0]
    assert said[2].startswith(
        "gradscope: restart 1 of the program: writing 'trace.restart1.rank0.json'; earlier "
        "attempts keep their files\ngradscope: trace.restart1.rank0.json: 1 step"
    )
    assert said[3].startswith("gradscope: trace.restart1.rank1.json: 1 step")
    assert sorted(path.name for path in house.folder.glob("*.json")) == [
        "trace.rank0.json", "trace.rank1.json",
        "trace.restart1.rank0.json", "trace.restart1.rank1.json",
    ]  # fmt: skip
    assert house.recorded("trace.restart1.rank1.json").meta["restarts"] == 1
    assert "restarts" not in house.recorded("trace.rank1.json").meta
    mixed = house.gradscope("inspect", "trace.rank0.json", "trace.restart1.rank1.json")
    assert (mixed.code, mixed.err[:72]) == (
        2, "gradscope: error: these traces are of several attempts of one program: the"[:72],
    )  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell when it started")
def test_an_attempt_that_the_launcher_does_not_count_has_files_of_its_own(house: House) -> None:
    """It replaced the trace of the first attempt: a node that joins is no restart."""
    house.write(SCRIPT)
    launched = as_rank(0, 2) | {"TORCHELASTIC_RUN_ID": "1", "TORCHELASTIC_RESTART_COUNT": "0"}

    command = "-m", "gradscope", "trace", "script.py"  # this process is the launcher
    for _ in range(3):
        house.python(*command, env=launched)

    names = ["trace.rank0.json", "trace.restart1.rank0.json", "trace.restart2.rank0.json"]
    assert sorted(path.name for path in house.folder.glob("*.json")) == names
    assert house.recorded("trace.restart2.rank0.json").meta["restarts"] == 2
    os.utime(house.folder / names[0], (0, 0))  # of an earlier program
    assert house.python(*command, env=launched).err.startswith(
        "gradscope: replacing 'trace.rank0.json'"
    )


def test_a_process_that_records_twice_replaces_its_own_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setattr(ranks, "_written", {})
    asked = tmp_path / "trace.json"

    for _ in range(2):
        assert writing_to(asked).restarts == 0
        asked.write_text("{}")

    monkeypatch.setattr(ranks, "_written", {})
    if sys.platform == "linux":
        assert writing_to(asked).restarts == 1
        assert this_process().restarts == 1


def test_a_single_process_that_is_restarted_keeps_both_traces() -> None:
    assert Rank(0, 1, 2).file(Path("a/trace.json.gz")) == Path("a/trace.restart2.json.gz")


def test_a_rank_stands_before_the_ending_of_a_file() -> None:
    names = ["trace.json", "a.b.json.zst", "plain", "folder/x.gz"]

    files = [str(Rank(3, 4).file(Path(name))) for name in names]

    assert files == ["trace.rank3.json", "a.b.rank3.json.zst", "plain.rank3", "folder/x.rank3.gz"]
    assert Rank(0, 1).file(Path("trace.json")) == Path("trace.json")


# --ranks-here -----------------------------------------------------------------------------------

TOGETHER = """
import os, sys
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
x = torch.full((2,), float(rank), requires_grad=True)
x.sum().backward()
dist.all_reduce(x.grad)
sys.stdout.write(f"{rank} of {os.environ['WORLD_SIZE']}: {x.grad.tolist()} {sys.argv[1:]}\\n")
sys.stdout.flush()
dist.destroy_process_group()
if "--fail" in sys.argv and rank == 1:
    sys.exit(3)
os._exit(0)
"""
EACH = ["0 of 2: [2.0, 2.0] ['a']", "1 of 2: [2.0, 2.0] ['a']"]
STARTS = (sys.executable, "-m", "gradscope", "trace", "-q", "--ranks-here", "2", "--on")


@needs_mpi
def test_ranks_of_the_own_engine_are_started_by_mpiexec(house: House) -> None:
    house.write(TOGETHER)
    ran = house.run(*STARTS, "gradscope", "script.py", "a")

    assert ran.code == 0, ran.err
    assert sorted(ran.out.splitlines()) == EACH
    for rank in range(2):
        assert house.recorded(f"trace.rank{rank}.json").meta["world_size"] == 2


@pytest.mark.torch
@pytest.mark.slow
def test_ranks_of_pytorch_are_started_as_torchrun_starts_them(house: House) -> None:
    house.write(TOGETHER)
    ran = house.run(*STARTS, "torch", "script.py", "a")

    assert ran.code == 0, ran.err
    assert sorted(ran.out.splitlines()) == EACH
    for rank in range(2):
        assert house.recorded(f"trace.rank{rank}.json").meta["rank"] == rank


@pytest.mark.torch
@pytest.mark.slow
def test_the_code_of_a_rank_that_failed_is_the_code_of_all(house: House) -> None:
    house.write(TOGETHER)
    ran = house.run(*STARTS, "torch", "script.py", "--fail")

    assert ran.code == 3, ran.err


@pytest.mark.skipif(find_spec("mpi4py") is not None, reason="mpi4py is installed")
def test_it_says_what_is_missing_for_the_own_engine(house: House) -> None:
    house.write(TOGETHER)
    ran = house.run(*STARTS, "gradscope", "script.py")

    assert ran.code == 2
    assert "pip install 'gradscope-trace[mpi]'" in ran.err
