"""What a program did that is no operation: one dataclass for each kind of act.

An act is one row of `act`, with what all kinds have in common, and one row of the table of its kind
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
"""Functions of PyTorch that make a tensor of numbers from elsewhere."""

ACTS: dict[str, type[ActFacts]] = {}
"""Every kind of act, by name."""


@table("act")
class Act(Row):
    """Something the program did that is no operation: it froze, cleared, clipped, cut, stepped.

    Of kinds that a program may do for each number (cut, warning, grad_off, data_written,
    added_to_itself, came_in) the first 1,000 of each line are recorded.
    """

    id: int
    kind: Text = ""  # the name of a kind
    of: ActId = NONE  # the act that made the optimizer it was done to, or by; or as the kind says
    tensors: TensorIds = ()  # leaves it was done to, or as the kind says
    module: ModuleId = NONE  # that it was done to
    inside: ModuleId = NONE  # whose forward was running
    stack: StackId = NONE  # up to three of the program's own lines
    thread: ThreadId = NONE
    task: TaskId = NONE  # the backward it was done in
    step: StepId = NONE
    t: Ns = 0


@declared
class ActFacts(Row):
    """What an act of some kind says besides; the id is that of its row in `act`."""

    KIND: ClassVar[str]
    TABLE: ClassVar[str] = ""  # of kinds without columns of their own
    id: ActId = NONE


A = TypeVar("A", bound=ActFacts)


@dataclass_transform(frozen_default=True, eq_default=False)
def act(kind: str) -> Callable[[type[A]], type[A]]:
    """Declare a kind of act; if it has columns, they are a table of its own, `act.<kind>`."""

    def declare(facts: type[A]) -> type[A]:
        made = declared(facts)
        made.KIND = kind
        if made.__match_args__ != ActFacts.__match_args__:
            added(f"act.{kind}", made)
        ACTS[kind] = made
        return made

    return declare


# What asks for gradients, and gradients ---------------------------------------------------------


@act("requires_grad")
class RequiresGradAct(ActFacts):
    """Tensors were asked to require gradients, or not to."""

    to: bool = False


@act("grad_set")
class GradSetAct(ActFacts):
    """A leaf's `.grad` was given a value."""

    to: Text = ""  # None, tensor


@act("grad_zeroed")
class GradZeroedAct(ActFacts):
    """An operation wrote into a gradient.

    Without tensors: there is no optimizer, and what was written to may have been a gradient.
    """

    by: Text = ""


@act("data_set")
class DataSetAct(ActFacts):
    """A leaf's `.data` was given another tensor."""


@act("one_memory")
class OneMemoryAct(ActFacts):
    """A leaf was given the memory of another as `.data`; tensors: both."""


@act("data_written")
class DataWrittenAct(ActFacts):
    """A leaf was written to through `.data`, as the line says."""


# History ----------------------------------------------------------------------------------------


@act("cut")
class CutAct(ActFacts):
    """A tensor lost its history; tensors: the leaves it came from."""

    by: Text = ""  # detach, item, data
    more: bool = False  # it came from other leaves, too
    written: int = NONE  # written to through `.data`: when its node was made, or its sequence_nr


@act("truncated")
class TruncatedAct(ActFacts):
    """Numbers that were not whole became integers; of the first calls of a line."""

    by: Text = ""
    low: float = math.nan
    high: float = math.nan
    to: Ints = ()  # the lowest and the highest, afterwards
    many: int = 0


@act("came_in")
class CameInAct(ActFacts):
    """A tensor without history came from outside; tensors: this one.

    On PyTorch also what was computed without gradients.
    """

    by: Text = ""  # what the line called, or the operation


@act("grad_off")
class GradOffAct(ActFacts):
    """Gradients were switched off."""

    by: Text = ""  # no_grad, inference_mode, set_grad_enabled; sample
    learned: bool = False  # of sample: a distribution of learned parameters that has rsample


@act("hook")
class HookAct(ActFacts):
    """A hook was registered."""

    by: Text = ""  # the method
    hook: Text = ""  # the function's name
    many: int = 0  # how many were there before
    holds: bool = False  # it keeps its own tensor


# Modules ----------------------------------------------------------------------------------------


@act("train")
class TrainAct(ActFacts):
    """A module was set to training mode or to evaluation mode."""

    to: bool = False  # training


@act("ran")
class RanAct(ActFacts):
    """A module ran for the first time with these modes; an outermost one, also from this line."""

    grad: bool = False
    training: bool = False


@act("made")
class MadeAct(ActFacts):
    """A module was made inside the forward of another."""

    type: Text = ""


@act("built")
class BuiltAct(ActFacts):
    """An activation that can saturate was made, outside of forwards."""

    type: Text = ""


@act("shared")
class SharedAct(ActFacts):
    """A container was made that has one module many times."""

    within: Text = ""  # the container's type
    type: Text = ""
    many: int = 0


@act("assigned")
class AssignedAct(ActFacts):
    """An attribute of a module or an optimizer was given something."""

    name: Text = ""
    what: Text = ""  # parameter, module, buffer, tensor, flag, setting; or a container of what
    within: Text = ""  # the type of whose attribute it is
    leaf: bool = False
    replaced: bool = False  # another parameter or module was there
    to: float = math.nan  # of a flag (0 or 1) and a setting
    there: float = math.nan  # of a setting: what the groups have
    left: Texts = ()  # of the flag `training`: types in the module that are in another mode


@act("filled")
class FilledAct(ActFacts):
    """A parameter was filled by a function of nn.init.

    After steps, of what optimizers hold, whoever called it; else by the program.
    """

    by: Text = ""


@act("loaded")
class LoadedAct(ActFacts):
    """A module was given a state."""

    strict: bool = False
    missing: Texts = ()
    unexpected: Texts = ()
    many: int = 0  # how many names were loaded


@act("state_taken")
class StateTakenAct(ActFacts):
    """The state of a module was taken, by state_dict()."""


@act("loaded_itself")
class LoadedItselfAct(ActFacts):
    """A module was given a state whose tensors, these, are its own memory.

    `of` is the act that took the state.
    """

    many: int = 0  # parameters it has


@act("added_to_itself")
class AddedToItselfAct(ActFacts):
    """A tensor was added to a leaf of an optimizer that has the same memory.

    `of` is the statement that may have stored that tensor.
    """

    by: Text = ""
    alpha: float = math.nan


@act("copied")
class CopiedAct(ActFacts):
    """A module or an optimizer was copied by copy.deepcopy."""

    what: Text = ""  # its type


@act("kept")
class KeptAct(ActFacts):
    """A name that holds graphs; stack: the lines that store something there."""

    name: Text = ""
    attribute: bool = False
    container: Text = ""  # the type of what the name stands for, if that holds several
    when: Text = ""  # it was seen: step, end, evaluation, error (of a second backward)
    many: int = 0  # tensors with graphs
    steps: int = 0  # of how many steps they are
    longest: int = 0  # steps behind one of them
    callers: Ints = ()  # lines of that file which call the function of the first line


@act("statement")
class StatementAct(ActFacts):
    """A line that was found in the source while the program ran."""

    what: Text = ""  # stored (of added_to_itself), equated (of loaded_itself: two names of one
    # module), factor (of a schedule: where what it multiplies rates with is returned)
    name: Text = ""
