"""Times on devices. Those of the CPU only show when it gave a device its work."""

from __future__ import annotations

from gradscope.trace.schema.declare import NONE, DeviceId, Ns, Row, TaskId, table


@table("device_time")
class DeviceTime(Row):
    """One backward on its device, measured by two events on the device's current stream.

    Other times are those of the CPU, which only starts most work of a device. Recorded at level
    `engine`, on devices with events: at level `values` the device also measures tensors.
    """

    task: TaskId = NONE
    device: DeviceId = NONE  # that of the first tensor of which gradients are computed
    took: Ns = 0  # from when the device reached the backward until it had finished it
    since: Ns = NONE  # from the end of the backward before it on this device; NONE: it is the first
