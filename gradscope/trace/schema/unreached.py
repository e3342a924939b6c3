"""Nodes that no backward reached, and further paths of parameters."""

from __future__ import annotations

from gradscope.trace.schema.declare import (
    NONE,
    ModuleId,
    Ns,
    Row,
    StackId,
    StepId,
    TaskId,
    TensorId,
    Text,
    ThreadId,
    table,
)


@table("unreached")
class Unreached(Row):
    """PyTorch nodes created one after another on one line, which no backward reached.

    Only the line, the time of creation and the time of release are known. The name of a node and
    what it saved are read when a backward reaches it, or at the end of the recording if it still
    exists; it is then a row of `node`. The nodes here were released before, or are not reachable
    from any Python object (`died` is NONE).
    """

    stack: StackId = NONE
    module: ModuleId = NONE
    thread: ThreadId = NONE
    task: TaskId = NONE  # the graph task that was running when they were created
    step: StepId = NONE
    many: int = 0
    t: Ns = 0  # when the first was created
    until: Ns = 0  # when the last was created
    died: Ns = NONE  # when the last was released


@table("alias")
class Alias(Row):
    """A further path of a parameter or module, whose own row has its first path.

    The path of a module applies to everything in it: further paths of its parts begin with it.
    """

    path: Text = ""
    tensor: TensorId = NONE  # the parameter, or
    module: ModuleId = NONE  # the module
    root: ModuleId = NONE  # module from which the path starts, as in its `named_parameters()`
