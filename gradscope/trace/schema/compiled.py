"""What compilers such as `torch.compile` did: compilations, graph breaks, regions, their insides.

All of this is what PyTorch's compiler reported when it compiled, not what was observed when the
region ran: operations of a region may have been fused, or left out.
"""

from __future__ import annotations

from gradscope.trace.schema.declare import (
    NONE,
    CompilationId,
    Ns,
    RegionId,
    RegionOpIds,
    Row,
    StackId,
    StepId,
    Text,
    Texts,
    ThreadId,
    table,
)


@table("compilation")
class Compilation(Row):
    """One compilation of a function, or of the rest of a function after a graph break."""

    id: int
    name: Text = ""  # PyTorch's: "0/1" is the second compilation of function 0
    function: Text = ""
    stack: StackId = NONE  # first line of the function
    caller: StackId = NONE  # the line that called it
    again: Texts = ()  # for a further compilation: why earlier ones did not fit
    error: Text = ""  # why it was not compiled
    thread: ThreadId = NONE
    step: StepId = NONE
    begin: Ns = 0
    end: Ns = NONE  # without its backward, which may be compiled later


@table("graph_break")
class GraphBreak(Row):
    """A line that could not be compiled, so that what follows is compiled separately."""

    id: int
    compilation: CompilationId = NONE
    reason: Text = ""
    hint: Text = ""  # what PyTorch advises
    stack: StackId = NONE


@table("region")
class Region(Row):
    """A compiled graph; if it has a backward, its node is CompiledFunctionBackward."""

    id: int
    compilation: CompilationId = NONE
    cached: bool = False  # it came from PyTorch's cache
    t: Ns = 0


@table("region_kernel")
class RegionKernel(Row):
    """A kernel that the compiled graph calls."""

    id: int
    region: RegionId = NONE
    phase: int = 0  # Phase
    name: Text = ""
    ops: Texts = ()  # names of the operations it was made of, if the code says so


@table("region_op")
class RegionOp(Row):
    """One operation in a compiled graph, or one of its inputs.

    The inputs of a backward are gradients (`tangents_1`), and what is kept between forward and
    backward, with the names that it has in the forward.
    """

    id: int
    region: RegionId = NONE
    phase: int = 0  # Phase
    name: Text = ""  # of its result
    op: Text = ""  # "aten.mm.default"; "input"
    type: Text = ""  # dtype and shape of its result: "f32[8, 4]", "f32[s0, 4]"
    reads: RegionOpIds = ()
    stack: StackId = NONE
