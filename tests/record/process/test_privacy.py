"""What of a program's secrets, arguments and text goes into its trace."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from gradscope.trace.schema import Frame, Source
from tests.record.running import House

SCRIPT = """
import torch
API_KEY = "planted-1"
def login(password="planted-2"):
    return torch.ones(3, requires_grad=True)
x = login(password="planted-3")
y = (x * x).sum()
y.backward()
assert API_KEY == "planted-1"
torch.ones(2, requires_grad=True).sum().backward(); url = "postgres://ann:planted-4@host/x"
raise ValueError("cannot open https://ann:planted-5@host/y?token=planted-6")
"""
ARGUMENTS = ("--token", "planted-7", "--lr", "0.1", "db.password=planted-8")
ENGINES = ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]


def text_of(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("level", ["engine", "full"])
def test_secrets_are_masked_and_the_program_has_them(house: House, engine: str, level: str) -> None:
    house.write(SCRIPT)

    ran = house.gradscope("trace", "--on", engine, "--level", level, "script.py", *ARGUMENTS)

    assert ran.code == 1
    assert "ann:planted-5@host" in ran.err  # Python's own traceback
    text = text_of(house.folder / "trace.json")
    assert "planted-" not in text
    trace = house.recorded()
    assert trace.meta["arguments"] == ["--token", "***", "--lr", "0.1", "db.password=***"]
    (source,) = trace.rows(Source)
    without = SCRIPT.replace("planted-5@host/y?token=planted-6", "***@host/y?token=***")
    for number in (2, 3, 4):
        without = without.replace(f"planted-{number}", "***")
    assert source.text == without.replace('API_KEY = "planted-1"', 'API_KEY = "***"').replace(
        'API_KEY == "planted-1"', 'API_KEY == "***"'
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_arguments_and_text_can_be_left_out(house: House, engine: str) -> None:
    house.write(SCRIPT)

    options = ("--on", engine, "--no-arguments", "--no-source")
    house.gradscope("trace", *options, "script.py", *ARGUMENTS)

    trace = house.recorded()
    assert trace.meta["arguments"] == []
    assert trace.meta["left_out"] == ["arguments", "source"]
    assert [*trace.rows(Source)] == []
    assert {frame.text for frame in trace.rows(Frame)} == {""}
    assert {frame.line for frame in trace.rows(Frame)} >= {7, 8}
    assert "def login" not in text_of(house.folder / "trace.json")
    assert [each.rule for each in inspect(trace).findings] == ["GS301"]
