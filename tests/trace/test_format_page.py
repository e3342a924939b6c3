"""docs/reference/trace-format.md says what is in a file: enough to write a reader from."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.load_save import load

DOCS = Path(__file__).parents[2] / "docs"
TRACES = sorted(path for path in DOCS.rglob("*.json*") if path.suffixes[0] == ".json")


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS / "reference")
    return import_module("read_trace")


def document(path: Path) -> dict[str, Any]:
    text = path.read_bytes()
    made: dict[str, Any] = json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)
    return made


def test_every_table_in_a_trace_of_the_docs_is_a_heading_of_the_page() -> None:
    page = (DOCS / "reference" / "trace-format.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^### `([\w.]+)`$", page, re.MULTILINE))
    tables = {b["table"] for path in TRACES for b in document(path)["blocks"] if "table" in b}

    assert "short.run" in tables
    assert tables <= headings


def test_the_reader_of_the_page_lists_the_nodes_and_events_of_each_gallery_trace(
    reader: ModuleType,
) -> None:
    for path in TRACES:
        read, trace = document(path), load(path)
        nodes = sorted((each.id, each.name, each.sequence_nr) for each in trace.rows(schema.Node))
        events = [(each.KIND, getattr(each, "node", schema.NONE)) for each in trace.events()]

        assert reader.nodes(read) == nodes, path
        assert reader.events(read) == events, path


def test_the_reader_prints_what_it_lists(
    reader: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["read_trace.py", str(DOCS / "gallery" / "first_graph.json")])
    runpy.run_path(str(reader.__file__), run_name="__main__")

    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "1 AccumulateGrad -1"
    assert printed[-1] == "task_end -1"
