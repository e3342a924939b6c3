"""Nodes that no backward came to, of which little is known; and further paths of parameters."""

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
    """Nodes of PyTorch's, made one after another on one line, which no backward came to.

    All that is known of them is where and when they were made, and when they went: what they are
    called and what they kept is read as a backward comes, or of what is there at the end. Then
    they have rows of their own among the nodes; here are those that went before, or that nothing
    of Python's leads to (`died` is NONE).
    """

    stack: StackId = NONE
    module: ModuleId = NONE
    thread: ThreadId = NONE
    task: TaskId = NONE  # made during which graph task
    step: StepId = NONE
    many: int = 0
    t: Ns = 0  # when the first was made
    until: Ns = 0  # and the last
    died: Ns = NONE  # when the last went


@table("alias")
class Alias(Row):
    """Another path of a parameter, or of a module, that has its row by the first one.

    A module's stands for all in it: their further paths begin with it.
    """

    path: Text = ""
    tensor: TensorId = NONE  # or
    module: ModuleId = NONE
    root: ModuleId = NONE  # whose names these are: what its `named_parameters()` calls it
