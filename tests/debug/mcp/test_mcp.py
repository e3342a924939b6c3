"""`gradscope mcp`, asked over standard input and output by the official client."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gradscope.commands.debugging import mcp as command
from gradscope.debug.mcp.served_folder import ServedFolder
from gradscope.errors import MissingProgramError, UsageError
from gradscope.trace.load_save import save
from gradscope.trace.trace import Trace
from tests.shared.example_traces import mean_of_squares, nan_in_backward, two_layers

TOOLS = ["traces", "findings", "explain", "why_none", "value_history", "node", "sql"]
Call = Callable[..., Awaitable[tuple[bool, Any]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of traces, with links that lead out of it."""
    served = tmp_path / "served"
    (served / "inner").mkdir(parents=True)
    save(mean_of_squares(), served / "mean.json")
    save(nan_in_backward(), served / "nan.json")
    save(two_layers(steps=3), served / "inner" / "train.json")
    save(nan_in_backward(), tmp_path / "private.json")
    (served / "notes.json").write_text('{"not": "a trace"}', encoding="utf-8")
    (served / "link.json").symlink_to(tmp_path / "private.json")
    (served / "up").symlink_to(tmp_path, target_is_directory=True)
    return served


def asked(folder: Path, ask: Callable[[Call], Awaitable[None]]) -> None:
    """Start the server, as a client does, and let `ask` call its tools."""
    anyio = pytest.importorskip("anyio")
    client = pytest.importorskip("mcp")
    source = str(Path(command.__file__).parents[3])
    server = client.StdioServerParameters(
        command=sys.executable,
        args=["-m", "gradscope", "mcp", str(folder)],
        env={**os.environ, "PYTHONPATH": source},
    )

    async def run() -> None:
        with anyio.fail_after(300):
            async with (
                client.stdio_client(server) as streams,
                client.ClientSession(*streams) as session,
            ):
                await session.initialize()
                listed = await session.list_tools()
                assert [each.name for each in listed.tools] == TOOLS
                assert all(each.annotations.read_only_hint for each in listed.tools)
                assert all(each.description for each in listed.tools)

                async def call(name: str, **arguments: str) -> tuple[bool, Any]:
                    result = await session.call_tool(name, arguments)
                    text = result.content[0].text
                    return result.is_error, text if result.is_error else json.loads(text)

                await ask(call)

    anyio.run(run)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.slow
def test_a_client_asks_about_the_traces_of_a_folder(folder: Path) -> None:
    before = files(folder)

    async def ask(call: Call) -> None:
        _, listed = await call("traces")
        named = {each["file"]: each for each in listed["traces"]}
        assert sorted(named) == ["inner/train.json", "mean.json", "nan.json"]
        assert named["nan.json"]["level"] == "values"

        _, report = await call("findings", trace="nan.json")
        (found,) = report["findings"]
        assert found["rule"] == "GS201 non-finite-birth"
        assert found["line"] == "nan.py:5"
        assert found["certainty"] == "certain"
        assert found["id"].startswith("#")
        assert found["why"]
        assert found["fix"]
        _, none = await call("findings", trace="nan.json", ignore="GS2")
        assert none["findings"] == []
        assert "checked, no problems found" in none["verdict"]

        _, told = await call("explain", rule="GS201")
        assert (told["slug"], told["severity"]) == ("non-finite-birth", "error")
        assert told["bad"] != told["good"]
        _, near = await call("explain", rule="memory")
        assert near["rules"][0]["slug"] == "graph-kept"

        _, why = await call("why_none", trace="mean.json", parameter="x")
        assert "x" in why["answer"]
        assert why["facts"]["requires_grad"] == "yes"

        _, node = await call("node", trace="mean.json", node="AddBackward0")
        assert "AddBackward0" in node["answer"]

        _, history = await call("value_history", trace="nan.json", tensor="x")
        assert "first NaN or Inf: .grad: 1 of 3 NaN" in history["answer"]
        assert [each.partition(":")[0] for each in history["sections"]["values"]] == [
            "value", ".grad"
        ]  # fmt: skip
        _, none = await call("value_history", trace="mean.json", tensor="x")
        assert none["notes"][0].startswith("not recorded: statistics")

        failed, said = await call("findings", trace="inner/none.json")
        assert failed
        assert "there is no trace 'inner/none.json'" in said
        failed, said = await call("node", trace="mean.json", node="MulBackwards0")
        assert failed
        assert "did you mean MulBackward0#1" in said
        for outside in ("../private.json", "link.json", "up/private.json", "/etc/passwd"):
            failed, said = await call("findings", trace=outside)
            assert failed
            assert "is outside of the folder that is served" in said

    asked(folder, ask)
    assert files(folder) == before


@pytest.mark.slow
def test_a_client_asks_a_fleet_in_sql(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    from gradscope import cli

    fleet = folder / "fleet"
    with pytest.raises(SystemExit):
        cli.main(["export", "--to", str(fleet), "--run", "a", str(folder / "nan.json")])
    secret = tmp_path / "secret.csv"
    secret.write_text("word\nhunter2\n", encoding="utf-8")
    before = files(folder)

    async def ask(call: Call) -> None:
        _, answer = await call("sql", fleet="fleet", select="SELECT rule FROM finding")
        assert answer["rows"] == [{"rule": "GS201"}]
        for select in (
            f"SELECT * FROM read_csv('{secret}')",
            f"SELECT * FROM read_csv('{fleet}/../../secret.csv')",
            f"COPY (SELECT 1) TO '{fleet}/new.csv'",
            "CREATE TABLE t AS SELECT 1",
            "SET enable_external_access = true",
        ):
            failed, said = await call("sql", fleet="fleet", select=select)
            assert failed, select
            assert "hunter2" not in said
        failed, said = await call("sql", fleet="..", select="SELECT 1")
        assert failed
        assert "is outside of the folder that is served" in said

    asked(folder, ask)
    assert files(folder) == before
    (fleet / "out.csv").symlink_to(secret)
    with pytest.raises(UsageError, match=r"'out\.csv' in 'fleet' is a link to outside of it"):
        ServedFolder(folder).fleet("fleet")


def test_only_traces_in_the_folder_are_listed_and_read(folder: Path) -> None:
    served = ServedFolder(folder)

    named = [served.named(each) for each in served.traces()]
    assert named == ["mean.json", "nan.json", "inner/train.json"]
    (folder / "circle.json").symlink_to("circle.json")
    assert [served.named(each) for each in served.traces()] == named
    assert isinstance(served.trace("inner/../mean.json"), Trace)
    assert served.trace("mean.json") is served.trace(str(folder / "mean.json"))
    for outside in ("..", "../private.json", "link.json", "up/private.json", "\0"):
        with pytest.raises(UsageError, match=r"is outside of the folder|is no path"):
            served.trace(outside)
    with pytest.raises(UsageError, match="there is no folder"):
        ServedFolder(folder / "missing")


def test_a_trace_that_is_written_again_is_read_again(folder: Path) -> None:
    served = ServedFolder(folder)
    before = served.trace("mean.json")
    save(nan_in_backward(), folder / "mean.json")

    assert served.trace("mean.json") is not before


def test_without_the_package_one_line_says_how_to_install_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gradscope.debug.mcp.serve", None)

    with pytest.raises(MissingProgramError, match="needs a newer version of the package mcp: "):
        command.mcp(folder)
    monkeypatch.setattr(command, "find_spec", lambda _: None)
    with pytest.raises(
        MissingProgramError, match=r"needs the package mcp: pip install 'gradscope-trace\[mcp\]'"
    ):
        command.mcp(folder)
