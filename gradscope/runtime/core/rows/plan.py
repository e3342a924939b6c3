"""Plans of operations: what generated code depends on, parameters and saved values."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradscope.runtime.core.rows.parameters import BY_NAME, EITHER, REQUIRED, FunctionParameter


class Parameter(NamedTuple):
    """One parameter of an operation."""

    name: str
    public: str
    tensor: bool
    many: bool = False
    not_promoted: bool = False  # an index or a mask, excluded from type promotion
    optional: bool = False
    keyword_only: bool = False
    has_default: bool = False
    default: Any = None


class Slot(NamedTuple):
    """One saved value of a node: an input, an output, a shape or an option."""

    name: str
    kind: str  # input, output, held, shape, strides, numel, size, dtype, option or constant
    source: str
    wanted_by: tuple[int, ...]  # the inputs whose gradient reads it
    nr: int = 0  # index of the output, or dim of the input


class Memory(NamedTuple):
    """The memory that an in-place write may share, where it is not the default.

    `repeated`: elements of the target may overlap; a name is used in a warning. `free` inputs may
    overlap the target anyhow, `apart` ones not at all.
    """

    repeated: str | None = None
    itself: bool = False  # writing a tensor to itself does nothing, and is allowed
    free: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


class RoadPlan(NamedTuple):
    """Everything that the generated code of a path depends on."""

    parameters: tuple[Parameter, ...]
    differentiable: tuple[str, ...]
    slots: tuple[Slot, ...]
    outputs: int  # 0: a sequence whose length depends on the call
    kind: str  # "plain", "view", "inplace"
    same_dtype: bool
    float_only: bool
    numbers: bool = True  # whether the second input may be a Python number
    refused: str = ""  # kinds of dtype that only the general path handles
    clones_self: bool = False
    memory: Memory | None = None
    direct: bool = False  # the in-place kernel can write to a given output
    nondifferentiable_outputs: tuple[int, ...] = ()
    layout_rule_asked: str = ""  # of its row: "always", or for an "odd" first operand
    matrices: bool = False  # only these take the fast path
    gaps: bool = False  # its formula accepts None for an undefined gradient

    @property
    def arguments(self) -> list[FunctionParameter]:
        """The parameters of the public function."""
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
