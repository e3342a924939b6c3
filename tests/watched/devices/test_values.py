"""Values of tensors on devices: as on the CPU, without waiting, and unnoticed by the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscope.analysis.report import inspect
from gradscope.trace.load_save import load
from gradscope.trace.schema import Node, Op, Place, Value
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.record.running import House
from tests.watched.devices.test_devices import PROGRAMS, devices

pytestmark = pytest.mark.torch

WAYS = ("values", "values --no-native")


def recorded(
    folder: Path, name: str, *arguments: str, device: str = "npy", ways: tuple[str, ...] = WAYS
) -> Iterator[tuple[str, Trace]]:
    """What the program prints, and its trace; it prints the same alone."""
    if device not in {"cpu", *devices()}:
        pytest.skip(f"there is no device {device}")
    script = str(PROGRAMS / f"{name}.py")
    house, env = House(folder), {"DEVICE": device}
    alone = house.python(script, *arguments, env=env)
    for way in ways:
        ran = house.gradscope(
            "trace", "--on", "torch", "-q", "-o", "trace.json", "--level", *way.split(), script,
            *arguments, env=env,
        )  # fmt: skip
        assert (ran.code, ran.out) == (0, alone.out), way
        assert [_without_time(line) for line in ran.err.splitlines()] == [
            _without_time(line) for line in alone.err.splitlines()
        ]
        trace = load(folder / "trace.json")
        assert check(trace) == []
        yield ran.out, trace


def _without_time(line: str) -> str:
    """A line of PyTorch's profiler begins with the time."""
    return line.rpartition("] ")[2] if line.startswith("USDT:") else line


def measured(trace: Trace) -> dict[Any, list[float]]:
    """The statistics of each value of a trace, by what it is a value of, without order."""
    ops = {row.id: row.name for row in trace.rows(Op)}
    nodes = {row.id: row.name for row in trace.rows(Node)}
    found: dict[Any, list[float]] = {}
    many: Counter[Any] = Counter()
    for row in sorted(trace.rows(Value), key=lambda row: (row.t, row.id)):
        what = Place(row.place), ops.get(row.op, ""), nodes.get(row.node, ""), row.index, row.task
        many[what] += 1
        counts = row.count, row.nan, row.posinf, row.neginf, row.zero
        found[*what, many[what]] = [*counts, row.min, row.max, row.mean, row.rms]
    return found


def on_device(trace: Trace) -> dict[Any, list[float]]:
    """Values of nodes and results, which are all on the device.

    Parameters are detached when they are made, on the CPU, and contain what is in their memory.
    """
    found = measured(trace).items()
    return {what: about for what, about in found if what[0] != Place.LEAF and what[1] != "detach"}


def births(trace: Trace) -> list[str]:
    """Where values that are not finite were first produced."""
    found = [each for each in inspect(trace).findings if each.rule == "GS201"]
    return [
        f"{each.message.partition(':')[0]} {str(each.site).rpartition(':')[2]}" for each in found
    ]


def test_values_on_a_device_are_those_on_the_cpu(tmp_path: Path) -> None:
    for device in devices():
        both = zip(
            recorded(tmp_path, "whole", device="cpu"),
            recorded(tmp_path, "whole", device=device),
            strict=True,
        )
        for (_, cpu), (_, there) in both:
            wanted, found = on_device(cpu), on_device(there)
            assert found.keys() >= wanted.keys()  # views are known by their addresses
            assert any(what[0] == Place.NODE_INPUT for what in found)
            for what, about in wanted.items():
                assert np.allclose(found[what], about, rtol=1e-4, atol=1e-6, equal_nan=True), what


def test_where_a_nan_was_born_on_a_device_is_found(tmp_path: Path) -> None:
    for device in devices():
        (_, there), *_ = recorded(tmp_path, "nan", device=device)
        (_, cpu), *_ = recorded(tmp_path, "nan", device="cpu")
        assert births(there) == births(cpu)
        assert len(births(there)) == 2


def test_parts_of_dtensors_are_measured_on_their_device(tmp_path: Path) -> None:
    for device in devices():
        for _, trace in recorded(tmp_path, "parts", device=device):
            names = {row.id: row.name for row in trace.rows(Op)}
            of_calls = [row for row in trace.rows(Value) if row.place == Place.OP_OUTPUT]
            found = {names[row.op]: (row.count, row.min, round(row.max, 4)) for row in of_calls}
            assert found["tanh"] == (6, 0.0, 1.0)
            arrived = [row for row in trace.rows(Value) if row.place == Place.NODE_INPUT]
            assert (6, 0.0, 2.0) in [(row.count, row.min, row.max) for row in arrived]


def test_nothing_waits_for_a_stream_that_sleeps(tmp_path: Path) -> None:
    """The same values arrive when it wakes up, some pages later."""
    for out, trace in recorded(tmp_path, "simulated/streams", "3"):
        assert out.startswith("waited []")
        found = on_device(trace)
        assert {what[4] for what in found} >= {1, 2, 3}  # backwards
        assert all(about[0] > 0 for about in found.values())
        assert {what[0] for what in found} >= {Place.NODE_INPUT, Place.OP_OUTPUT, Place.SEED}


def test_values_that_never_arrive_are_said_to_be_missing(tmp_path: Path) -> None:
    for _, trace in recorded(tmp_path, "simulated/streams", "1", "dies"):
        assert on_device(trace) == {}
        assert any("did not arrive before the recording ended" in note for note in trace.notes)


def test_nothing_is_measured_while_a_graph_is_captured(tmp_path: Path) -> None:
    for out, trace in recorded(tmp_path, "simulated/streams", "1", "captures"):
        assert out.startswith("waited []")
        assert measured(trace) == {}
        assert any("values of tensors that are not plain" in note for note in trace.notes)


def test_a_device_without_the_operations_is_not_looked_at(tmp_path: Path) -> None:
    """It is said once, and the warning of the operation is not printed."""
    for _, trace in recorded(tmp_path, "simulated/missing"):
        (said,) = [note for note in trace.notes if "npy has no amin" in note]
        assert "values of tensors on npy, which does not have the operations" in said


def test_the_program_does_not_notice_measurements(tmp_path: Path) -> None:
    for _, trace in recorded(tmp_path, "unnoticed"):
        assert any(what[0] == Place.NODE_INPUT for what in measured(trace))
        assert not [note for note in trace.notes if "fault" in note]


def test_a_signal_during_a_measurement_is_handled_by_the_program(tmp_path: Path) -> None:
    if "npy" not in devices():
        pytest.skip("there is no device npy")
    house = House(tmp_path)
    ran = house.trace(
        "--on", "torch", "--level", "values", str(PROGRAMS / "simulated" / "interrupted.py")
    )
    assert (ran.out, ran.err) == ("interrupted\na worker was killed\ntensor([3., 3., 3.])\n", "")
    assert not [note for note in house.recorded().notes if "fault" in note]
