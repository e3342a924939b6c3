"""What a program did that is no operation, and what each kind of it says."""

from __future__ import annotations

from enum import StrEnum

from gradscope.trace.schema.declare import (
    NONE,
    ActId,
    JsonObject,
    ModuleId,
    Ns,
    Row,
    StackId,
    StepId,
    TaskId,
    TensorIds,
    Text,
    ThreadId,
    table,
)


class Deed(StrEnum):
    """What an act is.

    Beside each: what its `facts` say, and what `tensors` are, if not those it was done to. Of some
    that programs may do for each number, as `cut`, the first 1,000 of each line are told.
    """

    __hash__ = str.__hash__  # an enumeration's own is Python's, and each note of an act asks

    REQUIRES_GRAD = "requires_grad"  # to
    GRAD_SET = "grad_set"  # to: "None", "tensor"
    GRAD_ZEROED = "grad_zeroed"  # by: the operation that wrote into a gradient; no tensors:
    # there is no optimizer, and it may have been one
    DATA_SET = "data_set"
    ONE_MEMORY = "one_memory"  # as `.data`, a leaf was given the memory of another; tensors: both
    DATA_WRITTEN = "data_written"  # through `.data` or into it, as the line says
    CUT = "cut"  # by: what lost history; tensors: leaves it came from; more: there are others;
    # written: through .data, as the line says, and when its node was made, or its sequence_nr
    TRUNCATED = "truncated"  # by: long, int; numbers that were no whole ones (of the first calls of
    # a line): many, from low to high; to: these two afterwards
    CAME_IN = "came_in"  # by: what the line called, or the operation; tensors: this one, which has
    # no history: of numbers, a factory; of PyTorch also what was computed without gradients
    GRAD_OFF = "grad_off"  # by: no_grad, inference_mode, set_grad_enabled; sample (learned: of
    # learned parameters, by a distribution that has rsample)
    HOOK = "hook"  # by: the method; node: of a node; hook: the function's name; many: so many were
    # there before; holds: it keeps its own tensor
    TRAIN = "train"  # to: the mode
    RAN = "ran"  # a module, for the first time so: grad, training: whether these modes were on; of
    # a model, also for the first time so from this line (of the first calls after each backward)
    MADE = "made"  # a module, inside the forward of another: type
    BUILT = "built"  # an activation that can saturate, outside of forwards: type
    SHARED = "shared"  # within: a container's type, that has one module many times; type
    ASSIGNED = "assigned"  # name, what (parameter, module, buffer, tensor; flag: to, of a module;
    # left: types in it that are in another mode, of `training`; setting: to, of an optimizer,
    # whose groups have `there`); replaced: whether another parameter or module was there
    FILLED = "filled"  # a parameter, by a function of nn.init that the program calls; by. After
    # steps, of what optimizers hold, whoever calls it
    LOADED = "loaded"  # strict, missing, unexpected, many: how many names were loaded
    STATE_TAKEN = "state_taken"  # state_dict()
    LOADED_ITSELF = "loaded_itself"  # a state whose tensors, these, are the module's own memory;
    # of: the act that took it; many: parameters it has
    ADDED_TO_ITSELF = "added_to_itself"  # a leaf of an optimizer, by a tensor that is its memory;
    # by, alpha; of: the statement that may have stored that tensor
    OPTIMIZER = "optimizer"  # type, groups: lr, weight_decay, momentum, many; before: it was there
    PARAM_GROUP = "param_group"  # group: as for OPTIMIZER; instead: a step finds others in a list
    STEP = "step"  # lr: of each group; weight_decay, where it changed; none: so many parameters
    # without .grad; many; of steps that were looked at, moved, size: norms of what was added to
    # each parameter, and of it before, or null; at level engine also grad: the norms of gradients;
    # alike: which matrices held one number, and that; from level values on, random: a digest of the
    # state that the engine's random numbers follow from, after it
    ZERO_GRAD = "zero_grad"  # of an optimizer or module: set_to_none
    SCHEDULE = "schedule"  # type; of: its optimizer; mode: which way what it watches gets better
    SCHEDULE_STEP = "schedule_step"  # lr: afterwards; metric: what it was given to watch
    CLIP = "clip"  # by, max; norm: what was found, where it could be read
    SCALE = "scale"
    UNSCALE = "unscale"
    SCALED_STEP = "scaled_step"  # skipped
    CHECKPOINT = "checkpoint"  # reentrant, keeps_random; random: as of STEP, before it; drew: whose
    # random numbers its forward took (torch, random, numpy)
    SEED = "seed"  # seed; of_: whose generator, if not the engine's: random, numpy, or generator
    # (one that the program made; again: it had a seed before); by: what brings back, or keeps, the
    # state of before
    COPIED = "copied"  # what: the type of what was copied
    KEPT = "kept"  # name, attribute, container: what holds graphs; when it was looked: step, end,
    # evaluation, error (of a second backward: graphs of former steps); many tensors, of so many
    # steps; longest: steps behind one; stack: lines that store; callers: lines of that file which
    # call the function of the first
    STATEMENT = "statement"  # a line found by the source while the program ran; what: stored (of a
    # sum into itself: what gave it the name), equated (of a load: two names of one module), factor
    # (of a schedule: where what it multiplies rates with is returned); name: the variable's
    WARNING = "warning"  # category, text
    NOT_FINITE = "not_finite"  # value: NaN, Inf; what: read (by; history: it had one; made: when,
    # or with which sequence_nr, its node was made), the first of each line; parameters, gradients
    # (of an optimizer, or at the end of those that none holds: tensors, of so many; when: before
    # its first step, behind the step of this act, at the end)
    READ = "read"  # told at the end, of each line that read numbers with a history: by; the first
    # (up to four), the last (null where it was not finite), and how many times
    FUNCTION = "function"  # type, calls, input; found: agrees, deviates (times, off, returned),
    # straight-through, not checked (why), writes (into a gradient that it was given), output-on-ctx
    # (name: of an attribute); stack: lines of its backward, or forward, the last is the call's


FROM_NUMBERS = frozenset((
    "tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack", "Tensor",
    "FloatTensor", "DoubleTensor",
))  # fmt: skip
"""Functions of PyTorch that make a tensor of numbers from elsewhere."""


@table("act")
class Act(Row):
    """Something the program did that is no operation: it froze, cleared, clipped, cut, stepped."""

    id: int
    kind: Text = ""  # Deed
    of: ActId = NONE  # the act that made the optimizer it was done to, or by; or see Deed
    tensors: TensorIds = ()  # leaves it was done to
    module: ModuleId = NONE  # that it was done to
    inside: ModuleId = NONE  # whose forward was running
    facts: JsonObject = ""  # see Deed
    stack: StackId = NONE  # up to three of the program's own lines
    thread: ThreadId = NONE
    task: TaskId = NONE  # the backward it was done in
    step: StepId = NONE
    t: Ns = 0
