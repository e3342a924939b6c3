"""How long backwards took on devices, where it was measured."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gradscope.trace.schema import NONE, Device, DeviceTime, GraphTask
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class DeviceBackwards:
    """The backwards of one device."""

    device: str
    backwards: int
    ns: int
    between_ns: int  # from the end of one to the begin of the next


def on_devices(trace: Trace) -> tuple[DeviceBackwards, ...]:
    """The devices on which backwards were measured, in the order of their first one."""
    names = {row.id: row.name for row in trace.rows(Device)}
    many, took, between = Counter[str](), Counter[str](), Counter[str]()
    for row in trace.rows(DeviceTime):
        name = names.get(row.device, "device")
        many[name] += 1
        took[name] += row.took
        between[name] += max(row.since, 0)
    return tuple(DeviceBackwards(name, many[name], took[name], between[name]) for name in many)


def device_ns_by_step(trace: Trace) -> Counter[int]:
    """The time of the measured backwards of each step."""
    tasks, times = trace.table(GraphTask), trace.table(DeviceTime)
    rows = tasks.positions(times["task"])
    found: Counter[int] = Counter()
    for step, ns in zip(tasks["step"][rows].tolist(), times["took"].tolist(), strict=True):
        found[step] += ns if step != NONE else 0
    return found
