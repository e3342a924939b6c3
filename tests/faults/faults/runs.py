"""Faults of the way back: what is counted, queued, summed, captured, kept, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.runtime.core.autograd.engine import accumulate_grad, evaluate, graph_task
from gradscope.runtime.core.autograd.engine.engine import Engine
from gradscope.runtime.core.graph import input_buffer
from tests.faults.planting import Plant, in_evaluations, line


def keeps(value: bool) -> Plant:
    """Whatever was asked for, saved values are kept, or are not."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        always = property(lambda self: value, lambda self, asked: None)
        monkeypatch.setattr(graph_task.GraphTask, "keep_graph", always)

    return plant


def counting_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Engine.compute_dependencies

    def wrong(self: Any, root: Any, task: Any, lowest: int) -> None:
        right(self, root, task, lowest)
        for node in task.dependencies:
            if task.dependencies[node] > 1:
                task.dependencies[node] -= 1
                break

    monkeypatch.setattr(Engine, "compute_dependencies", wrong)


def not_cloning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulate_grad, "owns", lambda array: True)
    monkeypatch.setattr(accumulate_grad, "getrefcount", lambda thing: 0)


def summing_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_buffer, "getrefcount", lambda thing: input_buffer.ALONE)


def forgetting_pre_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "run_pre_hooks", lambda task, node, found, values, raw: values)


def forgetting_post_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        evaluate, "run_post_hooks", lambda task, node, found, outputs, inputs, raw: outputs
    )


ORDER: dict[str, Plant] = {
    "a count off by one": counting_off_by_one,
    "the oldest node first": line(
        "core.autograd.engine.evaluate.evaluate_function",
        "task.base_key - following.sequence_nr",
        "task.base_key + following.sequence_nr",
    ),
    "the oldest node first, unwatched": in_evaluations("task.base_key - n_", "task.base_key + n_"),
    "leaves that run last": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad.__init__",
        "self.sequence_nr = LAST",
        "self.sequence_nr = 0",
    ),
    "an inner backward that is not deeper": line(
        "core.autograd.engine.engine.Engine.execute",
        "state.task.reentrant_depth + 1",
        "core.state.thread.task.reentrant_depth",
    ),
    "roots and their gradients mixed up": line(
        "core.autograd.engine.engine._root",
        "root.outputs = tuple(grads)",
        "root.outputs = tuple(grads)[::-1]",
    ),
    "a seed that is two": line(
        "core.autograd.engine.backward._implicit",
        "one.fill(1)",
        "one.fill(2)",
    ),
}

ASKED: dict[str, Plant] = {
    "nodes that nobody needs run": line(
        "core.autograd.engine.engine.Engine.execute",
        "if outputs:",
        "if outputs and accumulate_grad:",
    ),
    "a need that is not passed on": line(
        "core.autograd.engine.engine.Engine.init_to_execute",
        "info[child].should_execute()",
        "info[child].needed",
    ),
    "a graph that is cut off one level too early": line(
        "core.autograd.engine.engine.Engine.compute_dependencies",
        "node.topological_nr < lowest",
        "node.topological_nr <= lowest + 1",
    ),
    "captures that all have the same place": line(
        "core.autograd.engine.engine.Engine.init_to_execute", "Capture(nr, index)", "Capture(nr, 0)"
    ),
    "a capture of the first output only": line(
        "core.autograd.engine.engine.Engine.init_to_execute",
        "Capture(nr, index)",
        "Capture(0, index)",
    ),
    "a captured gradient that has been through the hooks": line(
        "core.autograd.engine.evaluate.evaluate_with_hooks",
        "None if entry is None or not entry.needed else list(inputs)",
        "None",
    ),
    "an unused input that nobody mentions": line(
        "core.autograd.engine.backward._refuse_unused", "if gradient is None:", "if False:"
    ),
    "no place for an input that was never reached": line(
        "core.autograd.engine.backward._wanted_edge",
        "made = Identity()",
        "raise RuntimeError('not have been used')",
    ),
    "inputs of `backward` that get no gradient": line(
        "core.autograd.engine.backward.run", "tensor.retain_grad()", "pass"
    ),
    "nothing asked for, which is taken for everything": line(
        "core.autograd.engine.backward._inputs", "if not wanted:", "if False:"
    ),
}

KEPT: dict[str, Plant] = {
    "nothing is released": keeps(True),
    "everything is released at once": keeps(False),
    "a graph that is kept unless it is wanted": line(
        "core.autograd.engine.backward.run_backward",
        "create_graph if retain_graph is None else retain_graph",
        "create_graph if retain_graph is None else not retain_graph",
    ),
    "a gradient's graph that is not kept": line(
        "core.autograd.engine.backward.grad",
        "create_graph if retain_graph is None",
        "False if retain_graph is None",
    ),
    "a node that releases before it runs": line(
        "core.autograd.engine.evaluate.evaluate_function",
        "outputs = node.run_arrays(inputs) if raw",
        "node._saved = node._saved if task.keep_graph else None\n"
        "        outputs = node.run_arrays(inputs) if raw",
    ),
    "a node that keeps what it saved, unwatched": in_evaluations(
        "node._saved and not task.keep_graph", "False"
    ),
    "a node that releases what is kept, unwatched": in_evaluations(
        "node._saved and not task.keep_graph", "node._saved"
    ),
}

SUMS: dict[str, Plant] = {
    "a gradient that is not cloned": not_cloning,
    "a sum into memory others see": summing_in_place,
    "a sum that forgets what was there": line(
        "core.graph.input_buffer.add", "buffer[nr] = before + grad", "buffer[nr] = grad"
    ),
    "an undefined gradient that wipes out another": line(
        "core.graph.input_buffer.add",
        "if grad is None:\n",
        "if grad is None:\n        buffer[nr] = None\n",
    ),
    "a sum over the wrong dims": line(
        "core.graph.run_node.sum_to_shape",
        "tuple(range(lead))",
        "tuple(range(array.ndim - lead, array.ndim))",
    ),
    "a mean over the dims": line(
        "core.graph.run_node.sum_to_shape",
        "add_reduce(array, axes, keepdims=True)",
        "array.mean(axis=axes, keepdims=True)",
    ),
    "a gradient sent to the wrong input": line(
        "core.autograd.engine.evaluate.wide_buffer", "buffer[nr] = grad", "buffer[0] = grad"
    ),
    "a dtype that is not cast": line(
        "core.graph.run_node.fitted", "if dtype is not None and kind != dtype:", "if False:"
    ),
    "any shape will do": line(
        "core.graph.run_node.fitted", "if not expandable(shape, found):", "if False:"
    ),
    "a conjugate that is forgotten": line(
        "core.graph.run_node.apply",
        "[_conj(g) for g in run(node, [_conj(g) for g in grads], raw=raw)]",
        "run(node, grads, raw=raw)",
    ),
}

ONE_BY_ONE: dict[str, Plant] = {
    "a count that stays, unwatched": in_evaluations("counts[n_0] = left", "pass"),
    "a buffer that is forgotten, unwatched": in_evaluations(
        "buffer = waiting.pop(n_0, None)", "buffer = None"
    ),
    "gradients sent to each other's nodes, unwatched": in_evaluations(
        "g_0, g_1, = outputs", "g_1, g_0, = outputs"
    ),
    "a gradient sent to the first input, unwatched": in_evaluations(
        "wide_buffer(n_0, nr_0, g_0)", "wide_buffer(n_0, 0, g_0)"
    ),
    "a gradient that need not fit, unwatched": in_evaluations("g_0.shape != shape", "False"),
    "a dtype that need not fit, unwatched": in_evaluations("g_0.dtype is not dtype", "False"),
    "hooks that nobody hears, unwatched": in_evaluations("node._extra is not None", "False"),
}
"""Of the texts for nodes that nobody watches."""

LEAVES: dict[str, Plant] = {
    "an old gradient that is overwritten": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad._accumulate_array",
        "np.add(target, grad, out=target)",
        "target[...] = grad",
    ),
    "a gradient that is added out of place": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad._accumulate_array",
        "np.add(target, grad, out=target)",
        "before._array = np.add(target, grad)",
    ),
    "a sum in `.grad` that nobody counts": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad._accumulate_array",
        'count_told_write(before, "AccumulateGrad")',
        "pass",
    ),
    "a gradient with a graph that is added in place": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad._accumulate_tensor",
        "meta.grad = meta.grad + grad",
        "meta.grad.data += grad",
    ),
    "a gradient with a graph that is not copied": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad._accumulate_tensor",
        "meta.grad = self._copied(grad)",
        "meta.grad = grad",
    ),
    "a first gradient that two leaves share": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad._accumulate_array",
        "if alone and owns(grad)",
        "if owns(grad)",
    ),
    "a gradient laid out as it came": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad._accumulate_array",
        "and self._fits(grad)",
        "",
    ),
    "a copy that is not laid out as the leaf": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad._laid_out",
        "if not dense(leaf)",
        "if dense(leaf)",
    ),
    "an undefined gradient that becomes zeros": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad.run_arrays",
        "grad = grads[0]",
        "grad = np.zeros_like(self.variable._array) if grads[0] is None else grads[0]",
    ),
    "hooks before the gradient is there": line(
        "core.autograd.engine.accumulate_grad.AccumulateGrad.run_arrays",
        "grad = grads[0]\n",
        "grad = grads[0]\n    if self.variable._meta.post_accumulate_hooks:\n"
        "        self._run_hooks(self.variable._meta.post_accumulate_hooks)\n",
    ),
}

HEARD: dict[str, Plant] = {
    "a pre-hook that is forgotten": forgetting_pre_hooks,
    "a post-hook that is forgotten": forgetting_post_hooks,
}

ENDS: dict[str, Plant] = {
    "a mode that a failed backward leaves behind": line(
        "core.autograd.engine.engine.Engine.thread_main",
        "state.task, state.node, state.grad_enabled = before",
        "state.task, state.node, _ = before",
    ),
    "gradients are on in every backward": line(
        "core.autograd.engine.engine.Engine.thread_main", "owner.create_graph, 0", "True, 0"
    ),
    "an error that is lost": line(
        "core.autograd.engine.engine.Engine.execute", "_raise_from(task)", "pass"
    ),
    "a failed backward that goes on": line(
        "core.autograd.engine.engine.Engine.thread_main", "if owner.error is None:", "if True:"
    ),
    "a callback that is run twice": line(
        "core.autograd.engine.engine.Engine.complete",
        "function()\n",
        "function()\n                function()\n",
    ),
    "callbacks that may not queue more": line(
        "core.autograd.engine.engine.Engine.complete",
        "while done < len(task.final_callbacks):",
        "if task.final_callbacks:",
    ),
    "a callback of the outer backward": line(
        "core.autograd.engine.engine.Engine.queue_callback",
        "task = local.state.task",
        "task = local.state.task and (local.state.task.parent or local.state.task)",
    ),
}

RUNS = {**ORDER, **ASKED, **KEPT, **SUMS, **ONE_BY_ONE, **LEAVES, **HEARD, **ENDS}
