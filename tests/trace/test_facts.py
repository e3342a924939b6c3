"""What `meta` and columns of JSON hold is of the declared type, or the file is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from gradscope.cli import main
from gradscope.errors import UnreadableTraceError
from gradscope.trace.load_save import decode, encode, load, save
from gradscope.trace.schema import TABLES, Node, Row, columns
from gradscope.trace.schema.run_facts import RunFacts
from tests.shared.by_hand import trace_of

WHOLE: dict[str, Any] = {
    "producer": "pytorch", "producer_version": "0.1.0", "level": "engine", "on": "torch",
    "script": "train.py", "run_as": "module",
    "arguments": ["--lr", "1"], "cwd": "/home/me", "host": "vm", "pid": 7, "rank": 0,
    "world_size": 1, "restarts": 1, "clock_base": 10**18, "python": "3.11.7",
    "dropped": {"edge": 3},
    "unwanted": {"steps": 1}, "let_go": {"steps": 5, "keep": 2}, "max_bytes": 9,
    "summary": {"measured": 3},
    "checked_nodes": {
        "asked": "all", "agree": 5, "differ": 1, "hooks": 2, "copying_ns": 9, "computing_ns": 8,
        "recording": "1f",
        "not_computed": {"a custom Function": {"SquareBackward": 1}},
    },
    "observed": ["op"], "inferred": ["version"], "absent": ["push"],
    "left_out": ["source"], "redacted": "secrets",
    "unseen": {"ends of nodes": 2}, "no_machine_code": "it was switched off",
    "not_shown": ["saved values"], "follows_from": 0, "exit": "ok", "exit_code": 0,
    "raised_at": "engine.py:7", "unfinished": 1, "written_every": 0.5, "cut": "No space left",
    "steps_end_with": "backward", "own_time": {"writing": 5, "recorded": 90},
    "children": [{"kind": "fork", "line": "train.py:3", "count": 1, "pids": [8],
                  "traces": ["train.rank0.json"]}],
    "ranks": [{
        "rank": 0, "host": "vm", "pid": 7, "exit": "ok", "exit_code": 0, "clock_base": 10**18,
        "ids": {"node": [0, 9]},
    }],
    "clock": "ranks share it",
}  # fmt: skip
ODD: tuple[Any, ...] = (None, "text", 7, 1.5, True, ["x"], [None], {"x": "y"})
DOCS = Path(__file__).parents[2] / "docs"


def places(value: Any, name: str) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Each value in this one: what it is called, the value, and the way to it."""
    yield name, value, ()
    if isinstance(value, dict):
        inside = [(f"{name}.{key}", key, each) for key, each in value.items()]
    else:
        many = value if isinstance(value, list) else []
        inside = [(f"{name}[{place}]", place, each) for place, each in enumerate(many)]
    for called, key, each in inside:
        yield from ((deep, found, (key, *way)) for deep, found, way in places(each, called))


def changed(value: Any, way: tuple[Any, ...], odd: Any) -> Any:
    if not way:
        return odd
    made = value.copy()
    made[way[0]] = changed(value[way[0]], way[1:], odd)
    return made


CASES = [
    pytest.param(name, changed(WHOLE, way, odd), id=f"{name} {odd}")
    for name, value, way in places(WHOLE, "meta") if way
    for odd in ODD
    if type(odd) is not type(value) and not (type(value) is float and type(odd) is int)
]  # fmt: skip


def test_facts_of_their_types_are_read() -> None:
    assert WHOLE.keys() == get_type_hints(RunFacts).keys()
    assert decode(encode(trace_of(meta=WHOLE))).meta == WHOLE


@pytest.mark.parametrize(("name", "facts"), CASES)
def test_a_fact_of_another_type_is_refused_by_its_name(name: str, facts: dict[str, Any]) -> None:
    with pytest.raises(UnreadableTraceError) as caught:
        decode(encode(trace_of(meta=facts)))

    message = str(caught.value)
    assert re.fullmatch(rf"{re.escape(name)} is .*, expected [a-z ]+; record it again", message)
    assert caught.value.exit_code == 3


def test_a_range_of_ids_has_two_ends() -> None:
    facts = changed(WHOLE, ("ranks", 0, "ids", "node"), [1, 2, 3])

    with pytest.raises(UnreadableTraceError, match=r"meta\.ranks\[0\]\.ids\.node is"):
        decode(encode(trace_of(meta=facts)))


JSON = [(row, each) for row in TABLES.values() for each in columns(row) if each.json]


@pytest.mark.parametrize(
    ("row", "column"), [pytest.param(r, c.name, id=f"{r.TABLE}.{c.name}") for r, c in JSON]
)
def test_text_that_is_to_be_json_is(row: type[Row], column: str) -> None:
    for text in ("{", "7", "null", '"x"', "nan", "[" * 10_000):
        with pytest.raises(UnreadableTraceError, match=rf"^{row.TABLE}\.{column} is "):
            trace_of(row(0, **{column: text}))


def test_every_command_refuses_it_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    save(trace_of(Node(0, "MulBackward0"), meta={"absent": 7}), path)
    name, fine = str(path), str(DOCS / "engine" / "twice.json")
    said = f"cannot read '{name}': meta.absent is '7', expected a list; record it again"
    commands = [
        *(["info"], ["inspect"], ["timeline"], ["check"], ["view", "--no-open"], ["debug"]),
        *(["render", "-f", "dot", "-o", "-"], ["diff", fine], ["merge", fine]),
    ]

    for command, *more in commands:
        with pytest.raises(SystemExit) as ended:
            main([command, name, *more])
        assert ended.value.code == 3, command
        assert capsys.readouterr().err == f"gradscope: error: {said}\n", command


@pytest.mark.parametrize("path", sorted(DOCS.glob("*/*.json*")), ids=lambda path: path.stem)
def test_all_facts_that_are_recorded_are_declared(path: Path) -> None:
    assert load(path).meta.keys() <= get_type_hints(RunFacts).keys()
