"""Faults of the engine's own threads: who runs a node, with which modes, who wakes whom."""

from __future__ import annotations

from tests.faults.planting import Plant, line

TAKE = "core.autograd.engine.workers._take_and_run"
HAND_ON = "core.autograd.engine.evaluate_shared._hand_on"

THREADS: dict[str, Plant] = {
    "a device's nodes that the caller runs": line(
        "core.autograd.engine.workers.queue_for", "return queue", "return task.cpu_ready_queue"
    ),
    "one worker for all devices": line(
        "core.autograd.engine.workers.queue_for",
        "worker = _workers[where.index or 0] = Worker(engine, where.index or 0)",
        "worker = _workers[where.index or 0] = next(iter(_workers.values()), None) or "
        "Worker(engine, 0)",
    ),
    "a worker without the modes of the caller": line(TAKE, "state.carry(task.modes)", "pass"),
    "a worker that keeps the modes of the caller": line(
        "core.autograd.engine.workers.serve", "state.put_back(modes)", "pass"
    ),
    "a worker in which gradients are always on": line(
        TAKE, "state.grad_enabled, state.node = task.create_graph, node", "state.node = node"
    ),
    "a worker whose error is lost": line(TAKE, "engine.fail(task, node, error)", "pass"),
    "a worker that goes on after an error": line(TAKE, "if task.error is None:", "if True:"),
    "a count of nodes that is lost": line(TAKE, "task.outstanding_tasks -= 1", "pass"),
    "an owner that nobody wakes": line(TAKE, "task.cpu_ready_queue.put_empty(task)", "pass"),
    "a nested backward that is no deeper on a queue": line(
        "core.autograd.engine.ready_queue.ReadyQueue.put", "task.base_key - node", "-node"
    ),
    "a node that waits for one gradient less": line(
        HAND_ON, "task.dependencies[following] - 1", "task.dependencies[following] - 2"
    ),
    "gradients for nodes that nobody needs": line(
        HAND_ON, "if info is not None and not is_needed(info, following):", "if False:"
    ),
    "a gradient that is not summed on a device": line(
        HAND_ON, "how = add(buffer, nr, grad, task.raw)", "buffer[nr] = grad"
    ),
    "an anomaly that no worker looks for": line(
        "core.autograd.engine.evaluate_shared.evaluate_shared",
        "if task.state.anomaly:",
        "if False:",
    ),
    "what a worker returned, unseen": line(
        "core.autograd.engine.evaluate_shared.evaluate_shared",
        "validate_outputs(node, outputs, raw=task.raw)",
        "list(outputs)",
    ),
}

HANGS = {"a count of nodes that is lost", "an owner that nobody wakes"}
"""Those after which a backward never ends."""
