"""Files for Perfetto and TensorBoard, opened by what Perfetto and TensorBoard themselves read with.

Perfetto's trace processor is a program that its Python package downloads, so that offline there is
its schema: each field must be one of it, of its type, and slices must open and close like brackets.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gradscope.render.formats import format_called
from gradscope.scene.network import network
from gradscope.scene.timeline.tracks.tracks import tracks
from tests.render.hostile import NAMES, named
from tests.shared.example_traces import two_layers

READERS = Path(__file__).parent / "readers.py"
TRACES = [two_layers(), *(named(name) for name in NAMES)]


def read(reader: str, package: str, files: list[Path]) -> list[Any]:
    """What a reader found in each file, in a process of its own: these packages warn, and stay."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install '.[readers]'")
    ran = subprocess.run(
        [sys.executable, READERS, reader, *files], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    found: list[Any] = json.loads(ran.stdout)
    return found


def written(name: str, scenes: list[Any], folder: Path) -> list[Path]:
    format = format_called(name)
    files = [folder / f"{number}{format.extension}" for number in range(len(scenes))]
    for file, scene in zip(files, scenes, strict=True):
        file.write_bytes(format.write(scene, None).content)
    return files


@pytest.mark.readers
def test_perfettos_schema_knows_every_field(tmp_path: Path) -> None:
    scenes = [tracks(trace) for trace in TRACES]

    found = read("perfetto", "perfetto", written("perfetto", scenes, tmp_path))

    for each, scene in zip(found, scenes, strict=True):
        slices = scene.slices
        assert each["unknown"] == 0
        assert each["unbalanced"] == 0
        assert each["names"] == Counter(
            scene.words[name] or "(unnamed)" for name in slices.name.tolist()
        )
        assert sorted(each["threads"]) == sorted(strand.name for strand in scene.strands)
        assert each["flows"] == len(scene.arrows.tail)
        assert each["levels"] == {
            level.title: [*zip(level.t.tolist(), level.values.tolist(), strict=True)][-1][1]
            for level in scene.levels
        }
    args = found[0]["args"]
    assert "layers0.linear" in args["module"]
    assert {"step", "backward", "waited_ns", "file", "line", "code"} <= set(args)


@pytest.mark.readers
def test_tensorboards_loader_finds_the_graph(tmp_path: Path) -> None:
    scenes = [network(trace) for trace in TRACES]

    found = read("tensorboard", "tensorboard", written("tensorboard", scenes, tmp_path))

    for each, scene in zip(found, scenes, strict=True):
        assert each["version"] == "brain.Event:2"
        names = [node["name"] for node in each["nodes"]]
        assert len(set(names)) == len(names) == len(scene.nodes)
        assert sum(len(node["inputs"]) for node in each["nodes"]) == len(scene.edges)
        assert {
            source.partition(":")[0] for node in each["nodes"] for source in node["inputs"]
        } <= {*names}
    names = [node["name"] for node in found[0]["nodes"]]
    assert "layers0/linear/weight" in names
    leaf = found[0]["nodes"][names.index("layers0/linear/weight")]
    assert leaf["op"] == "AccumulateGrad"
    assert found[0]["shapes"] > 0
