"""Evaluates one node of a graph task that several threads run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine.evaluate import (
    evaluate_for_inputs,
    evaluate_with_hooks,
    is_needed,
    wide_buffer,
)
from gradscope.runtime.core.autograd.engine.graph_task import GraphTask
from gradscope.runtime.core.autograd.engine.workers import queue_for
from gradscope.runtime.core.devices.devices import stream_of
from gradscope.runtime.core.graph.input_buffer import MADE, UNDEFINED, add
from gradscope.runtime.core.graph.node import Node, device_of
from gradscope.runtime.core.graph.run_node import validate_outputs
from gradscope.runtime.core.tensors.placement import place

TOLD_ALREADY = -1
"""In place of a queue's length: the taking of the node was already reported."""


def evaluate_shared(task: GraphTask, node: Node, inputs: list[Any]) -> None:
    """Run one ready node on its device, then send its gradients to the next nodes."""
    if task.state.anomaly:
        node.extra()
    here = probe.here
    evaluate = evaluate_with_hooks if task.exec_info is None else evaluate_for_inputs
    outputs = evaluate(task, node, inputs, 0 if here is None else here.clock(), TOLD_ALREADY)
    inputs.clear()  # other references decide how it is added and kept
    if outputs is None:
        return
    found = validate_outputs(node, outputs, raw=task.raw)
    outputs = None
    _settle(node, found, raw=task.raw)
    for index in range(len(found)):
        following, nr = node.next_functions[index]
        if following is not None:
            grad, found[index] = found[index], None
            _hand_on(task, node, index, [grad], following, nr)
    if here is not None and here.look is not None:
        here.look.over(node)


def _settle(node: Node, grads: Sequence[Any], *, raw: bool) -> None:
    """Move gradients to their devices: constants of a formula are on the CPU."""
    if raw:
        return
    for grad, (following, _) in zip(grads, node.next_functions, strict=True):
        if grad is not None and following is not None:
            where = device_of(following)
            if where is not None and grad.device != where:
                place(grad, where)


def _hand_on(
    task: GraphTask, node: Node, index: int, held: list[Any], following: Node, nr: int
) -> None:
    """Send one gradient to its node. The last one makes the node ready."""
    _wait_for_stream(node, following)
    here, info = probe.here, task.exec_info
    with task.lock:
        left = task.dependencies[following] - 1
        task.dependencies[following] = left
        buffer, how = task.not_ready.get(following), MADE
        if buffer is None:
            if info is not None and not is_needed(info, following):
                return
            grad = held.pop()
            buffer = wide_buffer(following, nr, grad)
            if left:
                task.not_ready[following] = buffer
        else:
            grad = held.pop()
            how = add(buffer, nr, grad, task.raw)
            if not left:
                del task.not_ready[following]
        if here is not None:
            told = how if grad is not None else how + UNDEFINED
            here.handed_on(task, node, following, index, nr, told, left)
            if here.look is not None:
                here.look.sent(task, node, index, grad, following, nr, told, buffer[nr])
        grad = None
    if not left:
        queue_for(task, following).put(task, following, buffer)


def _wait_for_stream(node: Node, following: Node) -> None:
    """Make a kernel wait for the device that computed its input."""
    source, target = device_of(node), device_of(following)
    if source is None or source == target:
        return
    if target is None:
        stream_of(source).synchronize()
    else:
        stream_of(target).wait_for(stream_of(source))
