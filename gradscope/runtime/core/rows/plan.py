"""What the text of an operation's roads depends on: its parameters, and what its node keeps."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradscope.runtime.core.rows.parameters import BY_NAME, EITHER, REQUIRED, FunctionParameter


class Parameter(NamedTuple):
    """One parameter of an operation, as the road sees it."""

    name: str
    public: str
    tensor: bool
    many: bool = False
    not_promoted: bool = False  # an index or a mask: promotion leaves it alone
    optional: bool = False
    keyword_only: bool = False
    has_default: bool = False
    default: Any = None


class Slot(NamedTuple):
    """One thing a node keeps: an input, an output, a shape or an option."""

    name: str
    kind: str  # input, output, held, shape, strides, numel, size, dtype, option or constant
    source: str
    wanted_by: tuple[int, ...]  # the inputs whose gradient reads it
    nr: int = 0  # which output, or which dim of an input


class Memory(NamedTuple):
    """What memory a write in place may share, where it is not what most may.

    `repeated`: an element may stand at several places of what is written to; a name is told in a
    warning. `free` inputs may lie anywhere, `apart` ones nowhere in the memory that is written to.
    """

    repeated: str | None = None
    itself: bool = False  # writing a tensor to itself is no write, and always allowed
    free: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


class RoadPlan(NamedTuple):
    """All that the text of a road depends on."""

    parameters: tuple[Parameter, ...]
    differentiable: tuple[str, ...]
    slots: tuple[Slot, ...]
    outputs: int  # 0: a sequence whose length the call decides
    kind: str  # "plain", "view", "inplace"
    same_dtype: bool
    float_only: bool
    numbers: bool = True  # whether the second input may be a Python number
    refused: str = ""  # kinds of dtype that only the long way round knows what to say of
    clones_self: bool = False
    memory: Memory | None = None
    direct: bool = False  # the kernel of an in-place operation can write where it is told to
    nondifferentiable_outputs: tuple[int, ...] = ()
    layout_rule_asked: str = ""  # that of its row: "always", or for an "odd" first operand
    matrices: bool = False  # only these take the short road
    gaps: bool = False  # its formula takes None for a gradient that never came, not zeros

    @property
    def arguments(self) -> list[FunctionParameter]:
        """The parameters of the function that users call."""
        return [
            FunctionParameter(
                p.public,
                BY_NAME if p.keyword_only else EITHER,
                p.default if p.has_default else REQUIRED,
            )
            for p in self.parameters
        ]

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.tensor)
