"""Seeds and the default generator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.state import generator
from gradscope.runtime.core.tensors.wrapping import wrap


class Generator(generator.Generator):
    """A random number generator: `torch.Generator`."""

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()
        self.device = devices.check(device)

    def get_state(self) -> Any:
        """The state as a tensor of bytes."""
        return wrap(super().get_state())

    def set_state(self, state: Any) -> Any:
        return super().set_state(getattr(state, "_array", state))

    def clone_state(self) -> Any:
        """A new generator in the same state."""
        return _restored(self.device, self.get_state())

    def __reduce__(self) -> Any:
        return _restored, (self.device, self.get_state())

    def __repr__(self) -> str:
        return "<torch._C.Generator object>"


def _restored(device: Any, state: Any) -> Generator:
    made = Generator(device)
    made.set_state(state)
    return made


default_generator = Generator()


def chosen(given: Any) -> Any:
    """The generator that a call draws from."""
    return default_generator if given is None else given


def manual_seed(seed: int) -> Any:
    """Start the default generator's sequence of this seed."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start an unpredictable sequence."""
    return default_generator.seed()


def initial_seed() -> int:
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:
    """Restore the random state at the end of the block. All devices share one generator."""
    if not enabled:
        yield
        return
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)
