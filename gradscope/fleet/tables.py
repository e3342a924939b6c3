"""The tables of a fleet: what each column of the Parquet files means.

Files lie in `<table>/run=<run>/rank=<rank>/`. So `run` and `rank` are columns of every table, read
from the path; they are not in the files. A cell is NULL if the trace does not have that fact.

`step` is the number of the step as the run counts them; NULL outside of steps. `k` is the position
within the step in the order of the program, from 0: on ranks that did the same, rows with the same
`step` and `k` of a table are the same operation, node, collective or parameter. `line_hash` is a
hash of file, function and text of a line: it is equal on all ranks, and in other runs as long as
the line stays the same. Times that end in `_at` are nanoseconds since 1970, on the clock of the
machine; those that end in `_ns` are durations in nanoseconds, without gradscope's own work.
"""

from __future__ import annotations

from dataclasses import dataclass

INTEGER, REAL, YES, TEXT = "BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"
"""Types of columns, as SQL names them."""


@dataclass(frozen=True, slots=True)
class FleetColumn:
    """One column of a table."""

    name: str
    type: str  # INTEGER, REAL, YES or TEXT
    meaning: str


@dataclass(frozen=True, slots=True)
class FleetTable:
    """One table: a row is what `meaning` says."""

    name: str
    meaning: str
    columns: tuple[FleetColumn, ...]
    by_step: bool = True  # its files hold some steps each; else one file holds all rows of a rank

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


PATH = (
    FleetColumn("run", TEXT, "name that `--run` gave"),
    FleetColumn("rank", INTEGER, "rank of the process; 0 if there is only one"),
)
"""Columns of every table that are in the path of its files, not in the files."""

_KEYS = (
    "step BIGINT  number of the step; NULL: outside of steps",
    "k BIGINT  position within the step, from 0",
)
_LINE = "line_hash BIGINT  the line of the program: see table line"
_MODULE = "module VARCHAR  path of the module"
_THREAD = "thread BIGINT  id of the thread in the trace"
_TASK = "task BIGINT  id of the backward in the trace; NULL: outside of backwards"
_STATISTICS = (
    "count BIGINT  number of elements",
    "bad BIGINT  number of NaN and Inf",
    "nan BIGINT  number of NaN",
    "posinf BIGINT  number of +Inf",
    "neginf BIGINT  number of -Inf",
    "zero BIGINT  number of zeros",
    "min DOUBLE  smallest finite element; this and those below: NULL if none is finite",
    "max DOUBLE  largest finite element",
    "mean DOUBLE  mean of the finite elements",
    "rms DOUBLE  root of the mean of their squares",
    "norm DOUBLE  root of the sum of their squares",
)


def _column(text: str) -> FleetColumn:
    names, _, meaning = text.partition("  ")
    name, _, kind = names.partition(" ")
    return FleetColumn(name, kind, meaning)


def _table(name: str, meaning: str, *columns: str, by_step: bool = True) -> FleetTable:
    every = (*(_KEYS if by_step else ()), *columns)
    return FleetTable(name, meaning, tuple(map(_column, every)), by_step)


_DECLARED = (
    _table(
        "step",
        "a step of the training",
        "begin_at BIGINT  when it began",
        "end_at BIGINT  when it ended; NULL: it did not end",
        "duration_ns BIGINT  its duration; NULL: it did not end",
        "forward_ns BIGINT  time in operations of the forward pass",
        "backward_ns BIGINT  time in backwards",
        "optimizer_ns BIGINT  time in steps of optimizers",
        "collective_ns BIGINT  time in collectives with collective.waits",
        "loss DOUBLE  value from which the last backward began (NaN and Inf included), if recorded",
        "lr DOUBLE  learning rate of the first parameter group",
        "backwards BIGINT  number of backwards",
        "ops BIGINT  number of recorded operations",
        "nodes BIGINT  number of recorded nodes",
        "recorded BOOLEAN  false: the step was left out of the recording; its times are NULL",
        "finished BOOLEAN  whether the step had ended",
    ),
    _table(
        "value",
        "statistics of a tensor at one point (recorded from level `values` on)",
        "seq BIGINT  event it belongs to: see event.seq; NULL in the forward pass",
        "place VARCHAR  op_output, node_input, node_output, buffer, hook, grad, seed or leaf",
        "name VARCHAR  name of the operation or node",
        "index BIGINT  which output of the operation, or input or output of the node",
        "op BIGINT  id of the operation: see op.id",
        "node BIGINT  id of the node: see node.id",
        _MODULE,
        "parameter VARCHAR  name of the parameter, if the tensor is one or the gradient of one",
        _LINE,
        "happened_at BIGINT  when it was measured",
        *_STATISTICS,
        "first_bad BIGINT  index of the first NaN or Inf in the flat tensor",
    ),
    _table(
        "grad",
        "a parameter at a step of its optimizer, and its gradient; `k` is the parameter's place in "
        "the optimizer",
        "parameter VARCHAR  name of the parameter; `leaf 12`: it has none",
        "optimizer BIGINT  number of the optimizer, from 0; NULL: no optimizer has it",
        "missing BOOLEAN  whether its `.grad` was None; NULL: not known",
        "norm DOUBLE  norm of the gradient's finite elements, if measured at this step",
        "sum DOUBLE  sum of the gradient's elements, if measured",
        "count BIGINT  number of elements of the gradient, if its statistics were recorded",
        "bad BIGINT  number of NaN and Inf in the gradient; NULL: not recorded",
        "nan BIGINT  number of NaN in the gradient",
        "posinf BIGINT  number of +Inf",
        "neginf BIGINT  number of -Inf",
        "zero BIGINT  number of zeros",
        "weight_norm DOUBLE  norm of the parameter before the step, if measured",
        "weight_hash BIGINT  hash of the bits of the parameter before the step, if measured",
        "update_norm DOUBLE  norm of what the step added to the parameter, if measured",
        "happened_at BIGINT  when the optimizer stepped",
        _LINE,
    ),
    _table(
        "event",
        "one event of the engine; a column is NULL if events of that kind do not have it",
        "seq BIGINT  orders all events of the trace",
        "kind VARCHAR  push, pop, node_begin, accumulate, … as on the page of the trace format",
        "happened_at BIGINT  when it happened",
        _THREAD,
        _TASK,
        "node BIGINT  id of the node: see node.id",
        "source BIGINT  id of the node that sent the gradient",
        "index BIGINT  which output of the source, or which hook",
        "input_nr BIGINT  which input of the node",
        "count BIGINT  number of gradients that the node will receive",
        "remaining BIGINT  number of gradients that the node still waits for",
        "queue BIGINT  number of the ready queue",
        "length BIGINT  length of the queue",
        "depth BIGINT  reentrant depth",
        "failed BOOLEAN  whether it raised",
        "undefined BOOLEAN  whether the gradient is None",
        "in_place BOOLEAN  whether it was added in place",
        "replaced BOOLEAN  whether the hook replaced the gradient",
        "pool BOOLEAN  whether it moved to a thread of the pool",
        "hook VARCHAR  list of the hook: tensor, pre, post, retains_grad, …",
        "how VARCHAR  what was done with an arriving gradient: stolen, cloned, in_place, "
        "out_of_place",
        "name VARCHAR  name of the hook or callback",
        _MODULE,
        "parameter VARCHAR  name of the parameter that accumulated a gradient",
        "tensor BIGINT  id of that leaf in the trace",
        "saved BIGINT  id of the saved value: see saved.id",
        "type VARCHAR  type of the exception",
        "message VARCHAR  message of the exception",
        _LINE,
    ),
    _table(
        "node",
        "a backward function, in the order of creation",
        "id BIGINT  id in the trace",
        "name VARCHAR  as in MulBackward0",
        "sequence_nr BIGINT  number that the engine gave it; NULL for AccumulateGrad",
        "op BIGINT  the forward call that created it: see op.id",
        _TASK,
        _MODULE,
        "parameter VARCHAR  for AccumulateGrad: name of the parameter",
        _LINE,
        _THREAD,
        "happened_at BIGINT  when it was created",
        "runs BIGINT  how often backwards ran it, in any step; NULL: events were not recorded",
        "backward_ns BIGINT  time of these runs, without the nodes inside",
    ),
    _table(
        "op",
        "a forward call",
        "id BIGINT  id in the trace",
        "name VARCHAR  as in mul.Tensor",
        "part VARCHAR  forward, backward (in hooks, custom functions, under create_graph) or "
        "optimizer",
        "begin_at BIGINT  when it began",
        "end_at BIGINT  when it ended",
        "ns BIGINT  its duration, without gradscope's own work",
        "self_ns BIGINT  the same without the operations inside",
        "node BIGINT  the node it made: see node.id",
        "why VARCHAR  why it made no node: no_grad, no_input_requires_grad, …; NULL: it made one",
        "dtype VARCHAR  of its first output",
        "shape VARCHAR  of its first output, as in [32, 128]",
        "bytes BIGINT  of all its outputs",
        _MODULE,
        _LINE,
        _THREAD,
        _TASK,
    ),
    _table(
        "saved",
        "a value that a node saved for its backward; `step` is that in which the node was created",
        "id BIGINT  id in the trace",
        "node BIGINT  id of the node: see node.id",
        "name VARCHAR  name of the node",
        "slot VARCHAR  PyTorch's name of the value: self, other, result",
        "tensor BIGINT  id of the tensor in the trace",
        "storage BIGINT  id of its memory: several values may share it",
        "leaf BOOLEAN  whether the tensor is a leaf, such as a parameter",
        "parameter VARCHAR  name of the parameter, if it is one",
        "bytes BIGINT  size",
        "hooked BOOLEAN  whether a hook packed it",
        "saved_at BIGINT  when it was saved",
        "released_at BIGINT  when it was released; NULL: not before the end of the trace",
        _MODULE,
        _LINE,
    ),
    _table(
        "collective",
        "a collective operation, a send or a receive, in the order in which the rank began them",
        "span BIGINT  id in the trace",
        "name VARCHAR  as in all_reduce",
        "asynchronous BOOLEAN  whether it may have gone on when the call returned",
        "waits BOOLEAN  whether step.collective_ns contains it: false for asynchronous ones, and "
        "those inside another",
        "kind VARCHAR  ddp: DistributedDataParallel runs it beside the program; groups: makes a group of "
        "ranks; one_to_one: send or receive; other. In each kind, ranks of a group call in the "
        "same order, except one_to_one",
        "nth BIGINT  place among the recorded calls of this kind in its group, from 0",
        "group_name VARCHAR  name of the process group on all of its ranks",
        "group_ranks VARCHAR  its ranks, as in [0, 1, 2, 3]",
        "caller VARCHAR  part of PyTorch that called it, as FSDP; NULL: the program",
        "bucket BIGINT  number of the bucket of DistributedDataParallel",
        "holds VARCHAR  gradients or parameters, if known",
        "parameters VARCHAR  their names, as a JSON list",
        "reduces VARCHAR  sum, max, …",
        "shape VARCHAR  of the tensor that this rank passes, as in [32, 128]",
        "dtype VARCHAR  of that tensor",
        "begin_at BIGINT  when this rank began it",
        "end_at BIGINT  when the call returned; NULL: it did not",
        "ns BIGINT  duration of the call",
        "backend_begin_at BIGINT  when the backend began it, if known",
        "backend_end_at BIGINT  when the backend had done it, if known",
        "norm_before DOUBLE  norm of the tensor that this rank passes, if measured",
        "norm_after DOUBLE  norm of the result, if measured",
        "sum_before DOUBLE  sum of the tensor that this rank passes",
        "sum_after DOUBLE  sum of the result",
        "bad_before BIGINT  number of NaN and Inf in what this rank passes",
        "bad_after BIGINT  number of NaN and Inf in the result",
        "hash_before BIGINT  hash of the bits of what this rank passes",
        "hash_after BIGINT  hash of the bits of the result: equal tensors have equal hashes",
        _LINE,
        _THREAD,
    ),
    _table(
        "act",
        "an event of the program that is no operation: zero_grad, clipping, a batch, a warning, …",
        "id BIGINT  id in the trace",
        "kind VARCHAR  as on the page of the trace format",
        "happened_at BIGINT  when it happened",
        "of BIGINT  act of the optimizer, loader, … that it belongs to: see act.id",
        "facts VARCHAR  its columns as a JSON object; those of a step that have one value per "
        "parameter are in table grad instead",
        "parameters VARCHAR  names of the leaves concerned, as a JSON list",
        _MODULE,
        "inside VARCHAR  path of the module whose forward was running",
        _LINE,
        _THREAD,
        _TASK,
    ),
    _table(
        "finding",
        "what `gradscope inspect` reports for the trace of this rank alone, worst first",
        "step BIGINT  number of the first step it was seen in; NULL: no certain step",
        "k BIGINT  place in the report, from 0",
        "rule VARCHAR  as in GS201",
        "slug VARCHAR  as in non-finite-birth",
        "severity VARCHAR  error, warning or note",
        "certainty VARCHAR  certain, inferred or suspected",
        "message VARCHAR  one sentence: what, and where",
        "why VARCHAR  the reason",
        "fix VARCHAR  what to write instead",
        "place VARCHAR  the line, as in train.py:41",
        _LINE,
        "finding_id VARCHAR  stays the same if other code changes",
        by_step=False,
    ),
    _table(
        "line",
        "a line of the program that other tables refer to",
        "line_hash BIGINT  hash of the three below",
        "file VARCHAR  relative to the working directory if it is below it",
        "function VARCHAR  as in Head.forward",
        "text VARCHAR  text of the line",
        "line BIGINT  its number; of several equal lines of a function, the first",
        by_step=False,
    ),
    _table(
        "module",
        "a module of the model",
        "k BIGINT  place in the order in which modules were recorded, from 0",
        "module VARCHAR  its path, which begins with the name of the model if there are several; "
        "NULL: the model itself",
        "type VARCHAR  its class",
        "parent VARCHAR  path of the module around it; NULL: none",
        "parameters BIGINT  number of its own parameters",
        by_step=False,
    ),
    _table(
        "parameter",
        "a leaf that modules or optimizers hold, or whose gradient a backward computed",
        "k BIGINT  place in the order in which leaves were recorded, from 0",
        "parameter VARCHAR  its name, as in all other tables",
        "guessed BOOLEAN  whether the name was taken from the line that made or used it",
        "module VARCHAR  path of the module that holds it, the first of several",
        "type VARCHAR  dtype",
        "shape VARCHAR  as in [32, 128]",
        "elements BIGINT  number of elements; of the whole tensor if ranks hold parts of it",
        "bytes BIGINT  size of what this rank holds",
        "sharding VARCHAR  how it is divided among ranks, as in Shard(0); NULL: it is not",
        by_step=False,
    ),
    _table(
        "meta",
        "facts about the recording of a rank: one row",
        "producer VARCHAR  gradscope.runtime or pytorch",
        "producer_version VARCHAR  version of the engine",
        "python VARCHAR  version of Python",
        "level VARCHAR  graph, engine, values or full",
        "script VARCHAR  the program",
        "command VARCHAR  program and arguments",
        "host VARCHAR  name of the machine",
        "pid BIGINT  id of the process",
        "world_size BIGINT  number of ranks of the run",
        "begin_at BIGINT  when the recording began",
        "ending VARCHAR  how the program ended: ok, or the exception; NULL: not known (it runs, "
        "or was killed)",
        "closed BOOLEAN  false: the recording was not closed, or the file was cut since",
        "steps BIGINT  number of steps in table step that were recorded",
        "commit VARCHAR  commit of the program, if `--commit` gave it",
        "trace VARCHAR  name of the trace file",
        "facts VARCHAR  everything that the trace says of the run, as a JSON object",
        by_step=False,
    ),
)

TABLES = {table.name: table for table in _DECLARED}
"""Every table of a fleet, by name."""
