"""Evaluates one node: hooks, captures, its function, and sending of its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine.accumulate_grad import AccumulateGrad
from gradscope.runtime.core.autograd.engine.graph_task import ExecInfo, GraphTask
from gradscope.runtime.core.autograd.hooks.hooks import (
    RETAINS_GRAD,
    run_post_hooks,
    run_pre_hooks,
    run_tensor_hooks,
)
from gradscope.runtime.core.autograd.modes.anomaly_mode import check_outputs
from gradscope.runtime.core.graph.input_buffer import MADE, UNDEFINED, add
from gradscope.runtime.core.graph.node import Node, device_of
from gradscope.runtime.core.graph.run_node import (
    apply,
    fitted,
    run,
    validate_count,
    validate_outputs,
)
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.placement import wrapped_on

ndarray = np.ndarray


# A node whose gradients are complete goes into the queue; others wait in `not_ready`.
@layout_only
def evaluate_function(task: GraphTask, node: Node, inputs: list[Any], heap: list[Any]) -> None:
    """Run one ready node, then send its gradients to the next nodes."""
    here, info, raw = probe.here, task.exec_info, task.raw
    begin = popped = ended = 0
    if here is not None:
        begin, popped, _ = task.taken = clock(), len(heap), node
        if here.look is not None and node._extra is None and info is None:
            here.look.inputs(task, node, inputs)
    if node._extra is None and info is None:
        outputs = node.run_arrays(inputs) if raw else node.run_tensors(inputs)
        released = 1 if node._saved and not task.keep_graph and node.releases else 0
        if released:
            node._saved = None
    else:
        evaluate = evaluate_with_hooks if info is None else evaluate_for_inputs
        attended = evaluate(task, node, inputs, begin, popped)
        if attended is None:
            return
        outputs, released = attended, -1
    if here is not None:
        ended = clock()
    functions = node.next_functions
    if len(outputs) != len(functions):
        outputs = validate_count(node, outputs)
    counts, waiting = task.dependencies, task.not_ready
    for index, grad in enumerate(outputs):
        following, nr = functions[index]
        if following is None:
            continue
        wanted = following.input_metadata
        if grad is not None:
            array = grad if raw else grad._array
            shape, dtype = wanted[nr]
            if array.__class__ is not ndarray or array.shape != shape or array.dtype is not dtype:
                grad = fitted(node, index, grad, shape, dtype, raw=raw)
            array = None  # other references decide how it is added and kept
        counts[following] = left = counts[following] - 1
        buffer, how = waiting.get(following), MADE
        if buffer is None:
            if info is not None and not is_needed(info, following):
                continue
            buffer = [grad] if len(wanted) == 1 else wide_buffer(following, nr, grad)
            if left:
                waiting[following] = buffer
        else:
            how = add(buffer, nr, grad, raw, inputs, outputs, index)
            if not left:
                del waiting[following]
        if not left:
            task.outstanding_tasks += 1
            heappush(heap, (task.base_key - following.sequence_nr, following, buffer, task))
        if here is not None:
            told = how if grad is not None else how + UNDEFINED
            probe.sent(begin, following, index, nr, told, left, heap)
            if here.look is not None:
                here.look.sent(task, node, index, grad, following, nr, told, buffer[nr])
    if here is not None:
        probe.ran(begin, ended, task, node, popped, released)
        if here.look is not None:
            here.look.over(node)


def wide_buffer(node: Node, nr: int, grad: Any) -> list[Any]:
    """The buffer of a node with several inputs, with its first gradient."""
    buffer = [None] * len(node.input_metadata)
    buffer[nr] = grad
    return buffer


def is_needed(info: dict[Node, Any], node: Node) -> bool:
    """Whether a node leads to a requested one, or is requested itself."""
    entry = info.get(node)
    return entry is not None and entry.should_execute()


def evaluate_for_inputs(
    task: GraphTask, node: Node, inputs: list[Any], begin: int, popped: int
) -> Sequence[Any] | None:
    """Run a node in a backward with `inputs=`, which runs only some nodes.

    A backward that such a node starts, as a checkpoint does, would not know which.
    """
    assert task.exec_info is not None
    entry = task.exec_info.get(node)
    state = local.state
    before = state.checkpoint_valid
    state.checkpoint_valid = before and (entry is None or not entry.needed)
    try:
        return evaluate_with_hooks(task, node, inputs, begin, popped)
    finally:
        state.checkpoint_valid = before


def evaluate_with_hooks(
    task: GraphTask, node: Node, inputs: list[Any], begin: int, popped: int
) -> Sequence[Any] | None:
    """Run a node with hooks or captures. Returns None if it is not needed."""
    here, info = probe.here, task.exec_info
    if here is not None:
        here.popped(task, node, begin, popped)  # negative length: already reported
    entry = None if info is None else info.get(node)
    if node._extra is not None:
        # As in PyTorch: if the node also runs, its captured gradient has not passed the hooks.
        before = None if entry is None or not entry.needed else list(inputs)
        inputs = tensor_pre_hooks(task, node, inputs)
        keep(task, node, inputs if before is None else before, entry)
        before = None  # references decide whether a leaf takes it over
    else:
        keep(task, node, inputs, entry)
    if info is not None and (entry is None or not entry.needed):
        if here is not None:
            here.skipped(task, node)
        return None
    if here is not None:
        here.node_begins(task, node, inputs)
    if node._extra is None:
        if here is not None and here.look is not None:
            here.look.inputs(task, node, inputs)
        outputs = only_needed(task, node, run(node, inputs, raw=task.raw))
    else:
        outputs = call_function(task, node, inputs)
    released = node._saved and not task.keep_graph and node.releases
    if not task.keep_graph:
        node.release_variables()
    if here is not None:
        here.node_ends(task, node, outputs, released)
    return outputs


def tensor_pre_hooks(task: GraphTask, node: Node, inputs: list[Any]) -> list[Any]:
    """Run the hooks of the tensors whose gradients this node receives."""
    if isinstance(node, AccumulateGrad):
        meta = node.variable._meta
        if meta is not None and meta.hooks:
            inputs[0] = run_tensor_hooks(task, node, meta.hooks, 0, inputs[0], task.raw)
        return inputs
    extra = node._extra
    assert extra is not None
    for nr, hooks in extra.tensor_pre_hooks:
        if hooks:
            inputs[nr] = run_tensor_hooks(task, node, hooks, nr, inputs[nr], task.raw)
    here = probe.here
    for nr, keep in list(extra.retains_grad.items()):
        if inputs[nr] is not None:
            if here is not None:
                here.hook_begins(task, node, RETAINS_GRAD, 0, keep)
            keep(wrapped_on(inputs[nr], device_of(node)) if task.raw else inputs[nr])
            if here is not None:
                here.hook_ends(task, node, RETAINS_GRAD, 0, False, ())
    return inputs


def keep(task: GraphTask, node: Node, inputs: list[Any], entry: ExecInfo | None) -> None:
    """Capture the requested gradients of this node."""
    if entry is None or entry.captures is None:
        return
    for capture in entry.captures:
        grad = inputs[capture.input_nr]
        for hook in capture.hooks:
            grad = hook(grad)
        task.captured_vars[capture.output_idx] = grad
        if probe.here is not None:
            probe.here.capture(task, node, capture.input_nr, grad)


def only_needed(task: GraphTask, node: Node, outputs: Sequence[Any]) -> Sequence[Any]:
    """The gradients returned by a node, without those that lead to no requested node.

    PyTorch's own nodes do not compute these, so nothing observes them. Custom backwards compute
    them.
    """
    info = task.exec_info
    if info is None or node.written_by_user:
        return outputs
    return [
        grad if following is not None and is_needed(info, following) else None
        for grad, (following, _) in zip(outputs, node.next_functions, strict=False)
    ]


def call_function(task: GraphTask, node: Node, inputs: list[Any]) -> Sequence[Any]:
    """Run a node with hooks or a watcher."""
    extra = node._extra
    assert extra is not None
    raw = task.raw
    if extra.pre_hooks:
        inputs[:] = run_pre_hooks(task, node, extra.pre_hooks, inputs, raw)  # drop the old ones
    kept = list(inputs) if extra.post_hooks else inputs
    if probe.here is not None and probe.here.look is not None:
        probe.here.look.inputs(task, node, inputs)
    outputs = only_needed(task, node, apply(node, inputs, raw=raw))
    if extra.post_hooks or node.written_by_user:  # their errors need the saved tensors
        outputs = validate_outputs(node, outputs, raw=raw)
    if extra.post_hooks:
        if probe.here is not None and probe.here.look is not None:
            probe.here.look.outputs(task, node, outputs)
        outputs = run_post_hooks(task, node, extra.post_hooks, outputs, kept, raw)
    if local.state.anomaly:
        check_outputs(node, outputs, raw=raw)
    return outputs


def evaluate_in_anomaly_mode(
    task: GraphTask, node: Node, inputs: list[Any], heap: list[Any]
) -> None:
    """Run a ready node in anomaly mode."""
    node.extra()
    evaluate_function(task, node, inputs, heap)
