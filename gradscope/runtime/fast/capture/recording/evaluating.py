"""Evaluation of nodes while a step is recorded: the same, with each call on arrays recorded.

The plan decides separately whether gradients are summed in place, since it knows all later uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from sys import getrefcount
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine import evaluate as engine_room
from gradscope.runtime.core.autograd.engine.accumulate_grad import (
    CLONED,
    IN_PLACE,
    STOLEN,
    AccumulateGrad,
    owns,
)
from gradscope.runtime.core.autograd.engine.backward import Identity
from gradscope.runtime.core.autograd.engine.engine import GraphRoot
from gradscope.runtime.core.autograd.engine.evaluate import is_needed, keep, wide_buffer
from gradscope.runtime.core.autograd.engine.graph_task import GraphTask
from gradscope.runtime.core.calls.road_text.backward_text import hands_on
from gradscope.runtime.core.graph.input_buffer import (
    ADDED,
    ADDED_IN_PLACE,
    ALONE,
    MADE,
    UNDEFINED,
    times,
)
from gradscope.runtime.core.graph.node import Node, OpNode
from gradscope.runtime.core.graph.run_node import fitted, validate_count
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.memory.storage import VersionCounter, dense
from gradscope.runtime.core.tensors.saved.saved_variable import (
    unpack_array,
    unpack_tensor,
    version_of,
)
from gradscope.runtime.core.tensors.views.in_place import count_write
from gradscope.runtime.core.tensors.wrapping import wrap
from gradscope.runtime.fast.capture.recording.recording import StepRecording
from gradscope.runtime.fast.capture.recording.trees import SameValue

ndarray = np.ndarray
KNOWN_NODES = (OpNode, AccumulateGrad, GraphRoot, Identity)


class Evaluating:
    """Evaluates nodes, and records their calls on arrays."""

    def __init__(self, recording: StepRecording) -> None:
        self.recording = recording
        self.as_ever = engine_room.evaluate_function

    def evaluate(self, task: GraphTask, node: Node, inputs: list[Any], heap: list[Any]) -> None:
        """The same as the engine's own; see evaluate_function there."""
        recording = self.recording
        reason = self._unknown(task, node) if recording.listens else ""
        if reason:
            recording.stop(reason)
        if not recording.listens:
            self.as_ever(task, node, inputs, heap)
            return
        part, recording.part = recording.part, "backward"
        try:
            if task.raw:
                self._evaluate(task, node, inputs, heap)
            else:  # on tensors a node consists of calls, which are recorded
                self.as_ever(task, node, inputs, heap)
        finally:
            recording.part = part

    def _unknown(self, task: GraphTask, node: Node) -> str:
        """Why a node cannot be recorded; empty if it can."""
        unknown = not isinstance(node, KNOWN_NODES) or node.written_by_user
        if unknown and _is_to_run(task, node):
            return f"{node.name()} is not the node of an operation"
        if not task.raw and isinstance(node, AccumulateGrad) and _is_to_run(task, node):
            return "a gradient is accumulated with its graph (create_graph=True)"
        older = isinstance(node, OpNode) and node.sequence_nr < self.recording.first_node
        if older and _is_to_run(task, node):
            return "a backward reaches a graph that was built before the step"
        extra = node._extra
        if extra is None:
            return ""
        if isinstance(node, AccumulateGrad):
            meta = node.variable._meta
            if meta is not None and (meta.hooks or meta.post_accumulate_hooks):
                return "a hook of a leaf"
        hooks = extra.pre_hooks or extra.post_hooks or extra.retains_grad
        if hooks or any(found for _, found in extra.tensor_pre_hooks):
            return f"a hook of {node.name()}, or retain_grad there,"
        if extra.device is not None or extra.conjugates or extra.tangents is not None:
            return f"{node.name()} computes with complex numbers, tangents or on another device"
        return ""

    def _evaluate(self, task: GraphTask, node: Node, inputs: list[Any], heap: list[Any]) -> None:
        here, info = probe.here, task.exec_info
        told, alone = here is not None, False
        begin = popped = ended = 0
        if told:
            begin, popped, _ = task.taken = clock(), len(heap), node
        if not self._is_to_run(task, node, inputs, here):
            return
        outputs = self._run(node, inputs)
        released = bool(node._saved and not task.keep_graph and node.releases)
        if released:
            node._saved = None
        if told:
            alone = _is_attended(task, node)
            if alone:
                here.node_ends(task, node, outputs, released)
            ended = clock()
        functions = node.next_functions
        if len(outputs) != len(functions):
            outputs = validate_count(node, outputs)
        counts, waiting = task.dependencies, task.not_ready
        for index, grad in enumerate(outputs):
            following, nr = functions[index]
            if following is None:
                continue
            if grad is not None:
                grad = self._fitted(node, index, grad, *following.input_metadata[nr])
            counts[following] = left = counts[following] - 1
            buffer, how = waiting.get(following), MADE
            if buffer is None:
                if info is not None and not is_needed(info, following):
                    continue
                wanted = following.input_metadata
                buffer = [grad] if len(wanted) == 1 else wide_buffer(following, nr, grad)
                if left:
                    waiting[following] = buffer
            else:
                how = self._add(buffer, nr, grad, inputs, outputs[:index])
                if not left:
                    del waiting[following]
            if not left:
                task.outstanding_tasks += 1
                heappush(heap, (task.base_key - following.sequence_nr, following, buffer, task))
            if told:
                how += UNDEFINED if grad is None else 0
                probe.sent(begin, following, index, nr, how, left, heap)
        if told:
            probe.ran(begin, ended, task, node, popped, -1 if alone else int(released))

    def _is_to_run(self, task: GraphTask, node: Node, inputs: list[Any], here: Any) -> bool:
        """Whether a node has more to do than to capture a gradient. Reports it to a watcher."""
        attended = here is not None and _is_attended(task, node)
        if attended:
            begin, popped, _ = task.taken
            here.popped(task, node, begin, popped)
        if task.exec_info is not None:
            entry = task.exec_info.get(node)
            keep(task, node, inputs, entry)
            if entry is None or not entry.needed:
                if here is not None:
                    here.skipped(task, node)
                return False
        if attended:
            here.node_begins(task, node, inputs)
        return True

    def _fitted(self, node: Node, index: int, grad: Any, shape: Any, dtype: Any) -> Any:
        if grad.__class__ is ndarray and grad.shape == shape and grad.dtype is dtype:
            return grad
        if not self.recording.listens:
            return fitted(node, index, grad, shape, dtype, raw=True)
        label = f"{node.name()}: fit"
        return self.recording.run(fit, (grad, tuple(shape), dtype), label=label)

    def _add(
        self, buffer: list[Any], nr: int, grad: Any, inputs: list[Any], sent: Sequence[Any]
    ) -> int:
        """Add a gradient to the buffer; returns how the engine would."""
        if grad is None:
            return ADDED
        before = buffer[nr]
        if before is None:
            buffer[nr] = grad
            return MADE
        held = getrefcount(before) - ALONE
        alone = not held or held == times(before, inputs) + times(before, sent) * 2
        buffer[nr] = self.recording.run(added, (before, grad), label="sum", kind="sum")
        return ADDED_IN_PLACE if alone and before.base is None else ADDED

    # -- what nodes do --------------------------------------------------------------------------

    def _run(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        if isinstance(node, AccumulateGrad):
            if inputs[0] is not None and node._wanted():
                self._accumulate(node, inputs)
            return ()
        if not isinstance(node, OpNode) or node._saved is None:
            return node.run_arrays(inputs)  # sends; or raises the error
        plan = node.op.plan
        grad = self._incoming(node, inputs)
        if grad is None:
            return (None,) * len(node.next_functions)
        single = len(plan.differentiable) == 1
        wanted = [following is not None for following, _ in node.next_functions]
        joint = node.op.joint or any(p.many for p in plan.tensors)
        values: dict[str, Any] = {"grad": grad, "grads": grad, "needs": tuple(wanted)}
        for place, slot in enumerate(plan.slots):
            one = slot.kind == "input" and len(slot.wanted_by) == 1 and not (single or joint)
            if not one or wanted[slot.wanted_by[0]]:
                values[slot.name] = self._unpacked(node, place, slot.kind)
        if joint:
            return self._formula(node, 0, values)
        made: list[Any] = [None] * len(plan.differentiable)
        for name in sorted(plan.differentiable):
            index = plan.differentiable.index(name)
            if single or wanted[index]:
                made[index] = self._formula(node, index, values)
        return made

    def _unpacked(self, node: Any, place: int, kind: str) -> Any:
        kept = node._saved[place]
        if kind == "held":
            return unpack_tensor(node, kept, place)
        return unpack_array(node, kept, place) if kind in {"input", "output"} else kept

    def _incoming(self, node: Node, grads: Sequence[Any]) -> Any:
        plan = node.op.plan
        if plan.outputs == 1:
            return grads[0]
        if all(grad is None for grad in grads):
            return None
        if plan.gaps:
            return list(grads)
        return [
            self.recording.run(np.zeros, (tuple(shape), dtype), label="zeros")
            if grad is None and dtype.kind in "fcV"
            else grad
            for grad, (shape, dtype) in zip(grads, node.input_metadata, strict=True)
        ]

    def _formula(self, node: Any, index: int, values: dict[str, Any]) -> Any:
        formula = node.op.formulas[index]
        if hands_on(formula):
            return values["grad"]
        words = tuple([values[word] for word in formula.words])
        return self.recording.run(formula.function, words, label=node.name(), kind="formula")

    def _accumulate(self, node: AccumulateGrad, inputs: list[Any]) -> None:
        """Add to the leaf's gradient, as the plan will."""
        recording, leaf, grad = self.recording, node.variable, inputs.pop()
        meta = leaf.meta()
        label = "AccumulateGrad"
        if id(leaf) not in recording.leaves:
            recording.stop("a leaf that the step created accumulates a gradient")
        if meta.grad is None:
            given = (SameValue(leaf), recording.tree(grad))
            begin = clock()
            made = first_grad(leaf, grad)
            end, how = clock(), STOLEN if made is grad else CLONED
            nr = recording.new(made)
            recording.begun[id(leaf)] = (nr, version_of(meta.grad))
            call = recording.call(first_grad, given, {}, nr, label, kind="grad")
        else:
            target = meta.grad
            before = recording.tree(target._array)
            recording.told[id(target)] = recording.told.get(id(target), 0) + 1
            given = (SameValue(leaf), recording.tree(grad))
            begin = clock()
            more_grad(leaf, grad, target._array)
            end, how = clock(), IN_PLACE
            call = recording.call(more_grad, (*given, before), {}, None, label, kind="grad")
        call.begin, call.end = begin, end
        recording.calls.append(call)
        here = probe.here
        if here is not None:
            if how == IN_PLACE:
                here.touched(meta.grad)
            here.accumulate(local.state.task, node, leaf, how)


def _is_attended(task: GraphTask, node: Node) -> bool:
    """Whether the engine would report a node's run by separate events."""
    return node._extra is not None or task.exec_info is not None


def _is_to_run(task: GraphTask, node: Node) -> bool:
    """Whether a node has more to do than to capture a requested gradient."""
    entry = None if task.exec_info is None else task.exec_info.get(node)
    return task.exec_info is None or (entry is not None and entry.needed)


# -- what plans call -----------------------------------------------------------------------------


def fit(grad: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A gradient summed to the shape and cast to the dtype of its tensor."""
    return fitted(NOBODY, 0, grad, shape, dtype, raw=True)


NOBODY: Any = Identity()


def added(before: Any, grad: Any) -> Any:
    return np.add(before, grad)


def first_grad(leaf: Any, grad: Any) -> Any:
    """Set a leaf's gradient to this array, or to a copy if there are other references."""
    alone = getrefcount(grad) <= HELD_BY_CALLER
    array = leaf._array
    fits = grad.strides == array.strides or (grad.flags.c_contiguous and not dense(array))
    if alone and fits and owns(grad):
        leaf._meta.grad = wrap(grad)
        return grad
    if dense(array) and array.shape == grad.shape:
        made = np.empty_like(array, grad.dtype, subok=False)
        made[...] = grad
    else:
        made = np.array(grad, order="C")
    leaf._meta.grad = held = wrap(made)
    if dense(array):
        held._versions = VersionCounter(1)
    return made


def more_grad(leaf: Any, grad: Any, target: Any) -> None:
    """Add to the leaf's gradient in place."""
    np.add(target, grad, out=target)
    count_write(leaf._meta.grad, "AccumulateGrad")


def _held_by_caller() -> int:
    """The reference count of an array that only a caller's variable holds."""

    def count(leaf: Any, grad: Any) -> int:
        return getrefcount(grad)

    array = np.zeros(1)
    return count(None, array)


HELD_BY_CALLER = _held_by_caller()
