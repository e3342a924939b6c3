"""`map_location`: the device of loaded storages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.devices.devices import check, device
from gradscope.runtime.core.state.thread import ThreadState
from gradscope.runtime.core.tensors.memory.storage import Storage

Restore = Callable[[Storage, str], Storage]


def restoring(map_location: Any) -> Restore:
    """A function that moves a storage, loaded to the CPU, to its device."""
    if map_location is None:
        return _put
    if isinstance(map_location, dict):
        return lambda storage, location: _put(storage, map_location.get(location, location))
    if isinstance(map_location, str | bytes | device):
        wanted = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, _: _put(storage, wanted)

    def ask(storage: Storage, location: str) -> Storage:
        found = map_location(storage, location)
        return _put(storage, location) if found is None else found

    return ask


def _put(storage: Storage, location: str) -> Storage:
    if location == "cpu":
        return storage
    if re.fullmatch(r"sim(:\d+)?", location):
        where = check(location)
        if not ThreadState.devices:
            ThreadState.use_devices()
        return Storage(storage.array, where)
    accelerator = re.fullmatch(r"(cuda|hpu|xpu|mtia)(:?\d+)?", location)
    if accelerator:
        name = accelerator[1]
        raise RuntimeError(
            f"Attempting to deserialize object on a {name.upper()} device but "
            f"torch.{name}.is_available() is False. If you are running on a CPU-only machine, "
            "please use torch.load with map_location=torch.device('cpu') to map your storages to "
            "the CPU."
        )
    raise RuntimeError(
        "don't know how to restore data location of torch.storage.UntypedStorage "
        f"(tagged with {location})"
    )
