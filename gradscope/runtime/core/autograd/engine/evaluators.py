"""Chooses the function that evaluates nodes of a class, with and without a watcher.

# Note [A copy for each class]
Python specializes code that reads an attribute to the class of the object. Code that meets varying
classes looks the attribute up each time, which takes ten times as long. So each class of nodes has
a copy of the code, which meets only this class.

# Note [Gradients one by one]
The same holds for the nodes that receive gradients: a loop over them meets the node of an operation
and then that of a leaf. For a backward on arrays, without a watcher and without `inputs=`, an
operation's node is evaluated by generated code. It does the same as `evaluate_function`, with
separate lines for each gradient. The engine checks for a watcher before each node.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeAlias

from gradscope.runtime.core.autograd.engine import evaluate
from gradscope.runtime.core.autograd.engine.accumulate_grad import AccumulateGrad
from gradscope.runtime.core.autograd.engine.evaluate import evaluate_function
from gradscope.runtime.core.autograd.engine.graph_task import GraphTask
from gradscope.runtime.core.generated.texts import build
from gradscope.runtime.core.graph.node import OpNode
from gradscope.runtime.core.rows.parameters import FunctionParameter
from gradscope.runtime.core.state.frames import WRITTEN
from gradscope.runtime.core.state.thread import ThreadState

LABEL = "evaluate a node, its gradients one by one"
Evaluate: TypeAlias = Callable[[GraphTask, Any, list[Any], list[Any]], None]
FILES = (evaluate.__file__, __file__, f"{WRITTEN}{LABEL}")
"""Prefixes of the file names in which node functions are called."""


class Watched(dict[type, Evaluate]):
    """`evaluate_function` for each class of nodes. See Note [A copy for each class]."""

    def __missing__(self, kind: type) -> Evaluate:
        code, scope = evaluate_function.__code__.replace(), evaluate_function.__globals__
        self[kind] = made = FunctionType(code, scope, evaluate_function.__name__)
        return made


def accumulate(task: GraphTask, node: Any, inputs: list[Any], heap: list[Any]) -> None:
    """Evaluate a leaf's node, in the common case without hooks."""
    extra, meta = node._extra, node.variable._meta
    if (
        extra.pre_hooks
        or extra.post_hooks
        or extra.tensor_pre_hooks
        or meta is None
        or meta.hooks
        or meta.post_accumulate_hooks
        or ThreadState.devices
    ):
        evaluate_function(task, node, inputs, heap)
    else:
        node.run_arrays(inputs)


class Unwatched(Watched):
    """Generated code for nodes of operations; see Note [Gradients one by one]."""

    def __missing__(self, kind: type) -> Evaluate:
        if kind is AccumulateGrad:
            self[kind] = accumulate
            return accumulate
        count = gradients(kind)
        if not count:
            return super().__missing__(kind)
        self[kind] = made = build("evaluate", text(count), vars(evaluate), ARGUMENTS, label=LABEL)
        return made


ARGUMENTS = [FunctionParameter(name) for name in ("task", "node", "inputs", "heap")]


def gradients(kind: type) -> int:
    """The number of gradients that all nodes of a class return; 0 if unknown."""
    if not issubclass(kind, OpNode) or kind.op.joint or any(p.many for p in kind.op.plan.tensors):
        return 0
    return len(kind.op.plan.differentiable)


def text(count: int) -> str:
    """The code that evaluates a node with this number of gradients."""
    each = range(count)
    grads = "".join(f"g_{i}, " for i in each)
    edges = "".join(f"(n_{i}, nr_{i}), " for i in each)
    begin = BEGIN.format(grads=grads, edges=edges)
    return begin + "".join(HANDED_ON.replace("@", str(i)) for i in each)


BEGIN = """\
def evaluate(task, node, inputs, heap):
    if node._extra is not None:
        return evaluate_function(task, node, inputs, heap)
    outputs = node.run_arrays(inputs)
    if node._saved and not task.keep_graph and node.releases:
        node._saved = None
    {grads}= outputs
    {edges}= node.next_functions
    counts, waiting = task.dependencies, task.not_ready
"""

HANDED_ON = """\
    if n_@ is not None:
        wanted = n_@.input_metadata
        if g_@ is not None:
            shape, dtype = wanted[nr_@]
            if g_@.__class__ is not ndarray or g_@.shape != shape or g_@.dtype is not dtype:
                g_@ = fitted(node, @, g_@, shape, dtype, raw=True)
        left = counts[n_@] - 1
        if left:
            counts[n_@] = left
            buffer = waiting.get(n_@)
            if buffer is None:
                waiting[n_@] = [g_@] if len(wanted) == 1 else wide_buffer(n_@, nr_@, g_@)
            else:
                add(buffer, nr_@, g_@, True, inputs, outputs, @)
        else:
            buffer = waiting.pop(n_@, None)
            if buffer is None:
                buffer = [g_@] if len(wanted) == 1 else wide_buffer(n_@, nr_@, g_@)
            else:
                add(buffer, nr_@, g_@, True, inputs, outputs, @)
            task.outstanding_tasks += 1
            heappush(heap, (task.base_key - n_@.sequence_nr, n_@, buffer, task))
        g_@ = None  # others may be added to it in place
"""

watched, unwatched = Watched(), Unwatched()
