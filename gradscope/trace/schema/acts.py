"""Events of the program that are not operations: one dataclass per kind of act.

An act is one row of `act`, with the columns all kinds share, and one row of the table of its kind
(`act.<kind>`) with the same id, if that kind has columns of its own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, TypeVar, dataclass_transform

from gradscope.trace.schema.declare import (
    NONE,
    ActId,
    Ints,
    ModuleId,
    Ns,
    Row,
    StackId,
    StepId,
    TaskId,
    TensorIds,
    Text,
    Texts,
    ThreadId,
    added,
    declared,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FROM_NUMBERS = frozenset((
    "tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack", "Tensor",
    "FloatTensor", "DoubleTensor",
))  # fmt: skip
"""Functions of PyTorch that create a tensor from existing data."""

ACTS: dict[str, type[ActFacts]] = {}
"""Every kind of act, by name."""


@table("act")
class Act(Row):
    """An event of the program that is not an operation, such as `zero_grad`, clipping or a step.

    For kinds that can occur once per value (cut, warning, grad_off, data_written, added_to_itself,
    came_in) or batch (batch, given, drew), the first 1,000 of each line are recorded.
    """

    id: int
    kind: Text = ""  # the name of a kind
    of: ActId = NONE  # act that created the optimizer concerned, unless the kind says otherwise
    tensors: TensorIds = ()  # leaves concerned, unless the kind says otherwise
    module: ModuleId = NONE  # module concerned
    inside: ModuleId = NONE  # module whose forward was running
    stack: StackId = NONE  # up to three lines of the program
    thread: ThreadId = NONE
    task: TaskId = NONE  # the backward it happened in
    step: StepId = NONE
    t: Ns = 0


@declared
class ActFacts(Row):
    """Columns of one kind of act; the id is that of its row in `act`."""

    KIND: ClassVar[str]
    TABLE: ClassVar[str] = ""  # for kinds without columns of their own
    id: ActId = NONE


A = TypeVar("A", bound=ActFacts)


@dataclass_transform(frozen_default=True, eq_default=False)
def act(kind: str) -> Callable[[type[A]], type[A]]:
    """Declare a kind of act; if it has columns, they form the table `act.<kind>`."""

    def declare(facts: type[A]) -> type[A]:
        made = declared(facts)
        made.KIND = kind
        if made.__match_args__ != ActFacts.__match_args__:
            added(f"act.{kind}", made)
        ACTS[kind] = made
        return made

    return declare


# requires_grad and gradients --------------------------------------------------------------------


@act("requires_grad")
class RequiresGradAct(ActFacts):
    """`requires_grad` of tensors was set."""

    to: bool = False


@act("grad_set")
class GradSetAct(ActFacts):
    """`.grad` of a leaf was assigned."""

    to: Text = ""  # None, tensor


@act("grad_zeroed")
class GradZeroedAct(ActFacts):
    """An operation wrote into a gradient.

    If `tensors` is empty, there is no optimizer, and the tensor written to may be a gradient.
    """

    by: Text = ""


@act("data_set")
class DataSetAct(ActFacts):
    """`.data` of a leaf was assigned."""


@act("one_memory")
class OneMemoryAct(ActFacts):
    """`.data` of a leaf was set to the memory of another leaf. `tensors`: both."""


@act("data_written")
class DataWrittenAct(ActFacts):
    """A leaf was written to through `.data`, according to the source line."""


# History ----------------------------------------------------------------------------------------


@act("cut")
class CutAct(ActFacts):
    """A tensor was cut from its graph. `tensors`: the leaves it was computed from, or is.

    `.data` of a leaf is listed if a module's forward reads it and does not write to it.
    """

    by: Text = ""  # detach, item, data
    more: bool = False  # it was computed from further leaves
    written: int = NONE  # if written through `.data`: creation time of its node, or sequence_nr


@act("truncated")
class TruncatedAct(ActFacts):
    """Values that were not whole numbers were converted to integers; first calls of each line."""

    by: Text = ""
    low: float = math.nan
    high: float = math.nan
    to: Ints = ()  # lowest and highest value after the conversion
    many: int = 0
    whole: int = 0  # number of values that were whole numbers before the conversion


@act("came_in")
class CameInAct(ActFacts):
    """An input tensor without a graph was used. `tensors`: that tensor.

    On PyTorch this includes tensors computed without gradients.
    """

    by: Text = ""  # function that the line called, or the operation
    taken: StackId = NONE  # the line that took this view of its result; on PyTorch


@act("grad_off")
class GradOffAct(ActFacts):
    """Gradients were switched off."""

    by: Text = ""  # no_grad, inference_mode, set_grad_enabled; sample
    learned: bool = False  # for sample: the distribution has trainable parameters and rsample


@act("hook")
class HookAct(ActFacts):
    """A hook was registered."""

    by: Text = ""  # the method
    hook: Text = ""  # the function's name
    many: int = 0  # number of hooks registered before
    holds: bool = False  # the hook holds a reference to its own tensor


# Modules ----------------------------------------------------------------------------------------


@act("train")
class TrainAct(ActFacts):
    """A module was set to training mode or to evaluation mode."""

    to: bool = False  # whether it is training mode


PADDING_FILLED, INITIAL_STATISTICS = "padding-not-zero", "initial-statistics"
"""What a module held when it ran: an embedding's padding row, and, in eval mode, a batch norm."""


@act("ran")
class RanAct(ActFacts):
    """First run of a module in these modes; for an outermost module, first run from this line."""

    grad: bool = False
    training: bool = False
    found: Text = ""  # PADDING_FILLED or INITIAL_STATISTICS


@act("made")
class MadeAct(ActFacts):
    """A module was created inside the forward of another."""

    type: Text = ""


@act("built")
class BuiltAct(ActFacts):
    """An activation module that can saturate was created, outside of any forward."""

    type: Text = ""


@act("shared")
class SharedAct(ActFacts):
    """A container was created that contains the same module several times."""

    within: Text = ""  # the container's type
    type: Text = ""
    many: int = 0


@act("assigned")
class AssignedAct(ActFacts):
    """An attribute of a module or an optimizer was assigned."""

    name: Text = ""
    what: Text = ""  # parameter, module, buffer, tensor, flag, setting; or a container of one
    within: Text = ""  # type of the object that has the attribute
    leaf: bool = False
    replaced: bool = False  # it replaced another parameter or module
    to: float = math.nan  # new value of a flag (0 or 1) or a setting
    there: float = math.nan  # for a setting: its value in the parameter groups
    left: Texts = ()  # for the flag `training`: types of submodules that are in another mode


@act("filled")
class FilledAct(ActFacts):
    """A parameter was filled by a function of nn.init.

    Before the first step: only if the program called the function. Afterwards: any caller, but only
    for parameters of an optimizer.
    """

    by: Text = ""


@act("loaded")
class LoadedAct(ActFacts):
    """A module loaded a state dict."""

    strict: bool = False
    missing: Texts = ()
    unexpected: Texts = ()
    many: int = 0  # number of names that were loaded


@act("state_taken")
class StateTakenAct(ActFacts):
    """`state_dict()` of a module was called."""


@act("loaded_itself")
class LoadedItselfAct(ActFacts):
    """A module loaded a state dict whose tensors are its own memory. `tensors`: these.

    `of` is the act of the `state_dict()` call.
    """

    many: int = 0  # number of parameters of the module


@act("added_to_itself")
class AddedToItselfAct(ActFacts):
    """A tensor was added to a leaf of an optimizer with which it shares memory.

    `of` is the act of the statement that may have stored that tensor.
    """

    by: Text = ""
    alpha: float = math.nan


@act("copied")
class CopiedAct(ActFacts):
    """A module or an optimizer was copied by copy.deepcopy."""

    what: Text = ""  # type of the module or optimizer


@act("kept")
class KeptAct(ActFacts):
    """A variable or attribute keeps graphs alive. `stack`: the lines that store into it."""

    name: Text = ""
    attribute: bool = False
    container: Text = ""  # type of the object with that name, if it is a container
    when: Text = ""  # when it was seen: step, end, evaluation, error (of a second backward)
    many: int = 0  # number of tensors with graphs
    steps: int = 0  # number of steps these tensors belong to
    longest: int = 0  # largest number of steps in the graph of one of them
    callers: Ints = ()  # lines of the same file that call the function of the first line


@act("statement")
class StatementAct(ActFacts):
    """A line that was found in the source while the program ran.

    `what` is stored (for added_to_itself), equated (for loaded_itself: two names of one module) or
    factor (for a schedule: the line that returns what learning rates are multiplied by).
    """

    what: Text = ""
    name: Text = ""
