"""What ranks of distributed training share: tensors, and collective operations."""

from __future__ import annotations

from gradscope.trace.schema.declare import (
    NONE,
    Floats,
    Ints,
    Ns,
    ProcessGroupId,
    Row,
    SpanId,
    StackId,
    TaskId,
    TensorId,
    TensorIds,
    Text,
    Texts,
    ThreadId,
    table,
)

GOES_ON = ", asynchronous"
"""End of the names of collectives that may not have finished when they returned."""


@table("shard")
class Shard(Row):
    """How a tensor is divided among ranks.

    The shape and strides in its own row are those of the whole tensor. The bytes, the storage and
    recorded values are those of the part that this rank holds.
    """

    tensor: TensorId = NONE
    local: Ints = ()  # shape of the part that this rank holds
    placements: Text = ""  # by PyTorch's names, one for each dim of the mesh: "Shard(0), Replicate"


@table("gathered")
class Gathered(Row):
    """A leaf into which FSDP gathers parameters for a forward: their gradients arrive at it.

    FSDP then passes to each rank the part of the gradient that belongs to its part of a parameter.
    """

    leaf: TensorId = NONE
    parameters: TensorIds = ()  # empty for a flat parameter that is itself the parameter
    names: Texts = ()  # of the parameters, by FSDP's names


@table("replicated")
class Replicated(Row):
    """Parameters that DistributedDataParallel keeps equal on all ranks of a group."""

    group: ProcessGroupId = NONE
    parameters: TensorIds = ()
    stack: StackId = NONE  # the line that made the model
    searches: int = NONE  # 1 if each step looks for unused parameters, else 0; NONE: not known
    broadcasts: int = NONE  # 1 if forwards pass the buffers of one rank to all others, else 0


@table("bucket")
class Bucket(Row):
    """Gradients that DistributedDataParallel reduces together, in one backward.

    Its span is the all-reduce, on a thread of its own, which has its begin and end.
    """

    span: SpanId = NONE  # NONE: a communication hook of the program reduces it
    number: int = 0  # buckets of a backward are reduced in this order, from 0
    task: TaskId = NONE  # the backward
    parameters: TensorIds = ()  # in the order of their gradients in the bucket
    bytes: int = 0
    ready: Ns = NONE  # when the last of its gradients had arrived


@table("process_group")
class ProcessGroup(Row):
    """A group of ranks that call collectives together. Ranks may have different ids for it."""

    id: int
    name: Text = ""  # by which PyTorch knows it on all of its ranks: "0", "mesh_data"
    described: Text = ""  # the name for people: "default_pg", "mesh_data"
    members: Ints = ()  # its ranks, by their numbers in the whole program


@table("collective")
class Collective(Row):
    """What a collective operation, or a send, exchanges. Its span has its name and times.

    The collectives of a group are in the order in which this rank called them.
    """

    span: SpanId = NONE
    group: ProcessGroupId = NONE  # NONE: this rank is not in the group
    stack: StackId = NONE  # the line of the program that called it, directly or not
    shape: Ints = ()  # of the tensor that this rank passes; of several, the first
    dtype: Text = ""  # "": it passes no tensor
    caller: Text = ""  # the part of PyTorch that called it, as "FSDP"; "": the program
    bucket: int = NONE  # the number of DistributedDataParallel's bucket; NONE: no bucket
    holds: Text = ""  # what the tensor holds: "gradients" or "parameters"; "": something else
    parameters: TensorIds = ()  # whose gradients or values these are, as far as it is known
    reduces: Text = ""  # how an `all_reduce`, `reduce` or `reduce_scatter` combines: "sum", "max"
    held_as: Text = ""  # where a dict holds the tensor, or the round of a loop
    makes: Ints = ()  # the ranks of the group that this call makes; empty: it makes none


@table("passed")
class Passed(Row):
    """The program passed a tensor that a node created, or its memory, with gradients enabled.

    A collective that the program calls itself has no backward: no gradient passes through it.
    """

    span: SpanId = NONE  # the collective
    sequence_nr: int = 0  # of the node, on the thread of the collective
    through: Text = ""  # what gave the memory without its graph: "data", "detach"; "": nothing


@table("used")
class Used(Row):
    """A call of the program that read what a collective had written, or what was made of it.

    Recorded at level `values`, for collectives that the program called with gradients enabled: the
    first calls that read it, and the first that created nodes.
    """

    span: SpanId = NONE  # the collective
    name: Text = ""  # of the call: "div"
    t: Ns = 0  # when it returned
    thread: ThreadId = NONE
    stack: StackId = NONE
    direct: bool = False  # it read memory that the collective wrote, not something made of it
    graph: bool = False  # the tensor that it read has a graph of its own
    first: int = NONE  # sequence_nr of the first node that it created; NONE: it created none
    many: int = 0  # number of nodes that it created


@table("handle")
class Handle(Row):
    """What the program did with the handle that an asynchronous collective returned."""

    span: SpanId = NONE  # the collective
    did: Text = ""  # "returned" for the begin; then the first method called, as "wait"
    t: Ns = 0
    stack: StackId = NONE


@table("work")
class BackendWork(Row):
    """What the backend of a process group did for a collective.

    Statistics are those of the tensor that this rank passes, before and after: only of dense
    tensors on the CPU at level `values`, and after it only for `all_reduce` and `broadcast`. A hash
    is of all bits: equal tensors have equal hashes on all ranks.
    """

    span: SpanId = NONE
    begin: Ns = NONE
    end: Ns = NONE  # NONE: it was not complete when the recording ended
    norms: Floats = ()  # before and after; empty if it was not measured
    sums: Floats = ()
    bad: Ints = ()  # numbers of NaN and Inf
    hashes: Ints = ()
