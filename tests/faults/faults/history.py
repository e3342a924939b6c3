"""Faults of the way forward: nodes and their numbers, what they keep, views and writes in place."""

from __future__ import annotations

from tests.faults.planting import Plant, derivative, in_roads, line

DERIVATIVES: dict[str, Plant] = {
    "a wrong sign in a derivative": derivative("sub", lambda a, b: (a, None if b is None else -b)),
    "a derivative of the wrong input": derivative(
        "mul", lambda a, b: (a, b) if a is None or b is None else (b, a)
    ),
    "one undefined gradient of several that hides the others": line(
        "core.calls.road_text.scope.defined_arrays", "if all(", "if any("
    ),
}

NODES: dict[str, Plant] = {
    "numbers of nodes that do not rise": line(
        "core.graph.new_node.prepare", "next(state.sequence)", "len(edges)"
    ),
    "a node that takes the number of the one before": in_roads(
        "node.sequence_nr = next(state.sequence)",
        "node.sequence_nr = functions[0][0].sequence_nr if functions[0][0] else 0",
        *("mul", "add", "exp"),
    ),
    "a topological number that is one too low": line(
        "core.graph.new_node.above", "return 1 + max(", "return max("
    ),
    "a topological number of the first input only": in_roads(
        "node.topological_nr = top + 1",
        "node.topological_nr = (functions[0][0].topological_nr if functions[0][0] else 0) + 1",
        "mul",
    ),
    "edges to the inputs the wrong way round": in_roads(
        "(e_self or NOWHERE, e_other or NOWHERE,)",
        "(e_other or NOWHERE, e_self or NOWHERE,)",
        "mul",
    ),
    "a call that records although gradients are off": in_roads(
        "if state.grad_enabled:", "if True:", "mul"
    ),
    "ties in the queue that are broken otherwise": line(
        "core.graph.node.Node.__lt__", "return False", "return True"
    ),
    "a node that saved nothing and runs once only": line(
        "core.graph.node.Node.release_variables", "if self._saved and self.releases:", "if True:"
    ),
    "a node that keeps what it saved": line(
        "core.graph.node.Node.release_variables", "self._saved = None", "pass"
    ),
}

SAVED: dict[str, Plant] = {
    "a stale value that nobody notices": line(
        "core.tensors.saved.saved_variable.modified", "raise errors.modified_in_place(", "_ = ("
    ),
    "a stale result that nobody notices": line(
        "core.tensors.saved.saved_variable.unpack_array",
        "if value.current_version != value.version:",
        "if False:",
    ),
    "a saved value that is said to be new": line(
        "core.tensors.saved.saved_variable.save_input",
        "0 if versions is None else versions.value",
        "0",
    ),
    "a saved result that keeps its own node alive": line(
        "core.tensors.saved.saved_variable.save_output",
        "saved.tensor = None",
        "saved.tensor = tensor",
    ),
    "a saved result that keeps its own node alive, on the short road": in_roads(
        "kept.tensor = kept.hooks = kept.edge = None",
        "kept.tensor = made; kept.hooks = kept.edge = None",
        *("tanh", "exp"),
        roads=("short",),
    ),
    "a saved result whose writes nobody counts": in_roads(
        "kept.versions = versions",
        "kept.versions = VersionCounter()",
        *("tanh", "exp"),
        roads=("short",),
    ),
    "a saved input that comes back as another tensor": line(
        "core.tensors.saved.saved_variable.unpack_tensor",
        "unpack_array(node, value, slot)\n        return value",
        "unpack_array(node, value, slot)\n        return value.view_as(value)",
    ),
    "a saved result without its history": line(
        "core.tensors.saved.saved_variable.unpack_tensor",
        "made._edge = _history_of_output(value, node)",
        "made._edge = None",
    ),
    "a pack hook that is called twice": line(
        "core.tensors.saved.saved_variable.pack",
        "hooks[0](tensor)\n",
        "hooks[0](tensor) and hooks[0](tensor)\n",
    ),
    "the outermost hooks, not the innermost": line(
        "core.tensors.saved.saved_variable.save_output",
        "state.saved_hooks[-1]",
        "state.saved_hooks[0]",
    ),
    "what an unpack hook returned, unseen": line(
        "core.tensors.saved.saved_variable._unhooked",
        "if not isinstance(value, Tensor):",
        "if value is None:",
    ),
    "a pack hook that may write": line(
        "core.tensors.saved.saved_variable.pack", "if version_of(tensor) != before:", "if False:"
    ),
    "hooks in the place of other hooks": line(
        "core.tensors.saved.saved_attributes.SavedTensor.register_hooks",
        "if value.hooks is not None:",
        "if False:",
    ),
    "an unpacked value without its history": line(
        "core.tensors.saved.saved_variable._with_history", "made._edge = saved.edge", "pass"
    ),
    "saved-tensor hooks that outlive an error": line(
        "autograd.graph.saved_tensors_hooks.__exit__",
        "pop()",
        "pop() if error[0] is None else None",
    ),
    "hooks that stay disabled after an error": line(
        "autograd.graph.disable_saved_tensors_hooks",
        "try:\n        yield\n    finally:",
        "yield\n    if True:",
    ),
    "a copy that is made after the write": line(
        "core.tensors.views.in_place.check_inplace", "state.keeper.before_write(target)", "pass"
    ),
}

VIEWS: dict[str, Plant] = {
    "a view that keeps its old history": line(
        "core.tensors.views.views.view_edge", "if meta.version != current:", "if False:"
    ),
    "a view whose history is new at every look": line(
        "core.tensors.views.views.view_edge", "if meta.version != current:", "if True:"
    ),
    "a view of a view that forgets how that was made": line(
        "core.tensors.views.views.attach_view", "creation = inherited", "pass"
    ),
    "a view made without gradients that may be written to": line(
        "core.tensors.views.views.attach_view", "else CreationMeta.NO_GRAD_MODE", "else creation"
    ),
    "one of several views that may be written to": line(
        "core.tensors.views.views.attach_views",
        "CreationMeta.MULTI_OUTPUT_NODE",
        "CreationMeta.DEFAULT",
    ),
    "a view of which only the target's gradient counts": line(
        "core.tensors.views.in_place._check_view", "(target, *inputs)", "(target,)"
    ),
    "an alias with a counter of its own": line(
        "core.tensors.views.views.share",
        "made._versions = source._versions",
        "made._versions = VersionCounter()",
    ),
    "`data` that shares the counter": line(
        "core.tensors.tensor.tensor.Tensor.data",
        "made._versions = uncounted(made._versions)",
        "made._versions = self._versions",
    ),
    "a write that leaves the base alone": line(
        "core.tensors.views.views.rebase_history",
        "if meta is None or not meta.is_view:",
        "if meta is None or meta.is_view:",
    ),
    "a write that forgets what was in the base": line(
        "core.tensors.views.views.CopySlices.run_arrays", "0 if first is None else first", "window"
    ),
    "a write that adds to the old gradient": line(
        "core.tensors.views.views.CopySlices.run_arrays",
        "self.window.put(result, window, 0 if first is None else first)",
        "self.window.put(result, window, window + (0 if first is None else first))",
    ),
    "an element seen twice that counts once": line(
        "core.tensors.views.windows.Window.spread", "if _shows_twice(window):", "if False:"
    ),
    "a kept gradient that stays with the old value": line(
        "core.tensors.views.views._follow",
        "if meta.retains_grad and before is not None:",
        "if False:",
    ),
    "hooks that follow a write": line(
        "core.tensors.views.views._follow", "meta.hooks = None", "pass"
    ),
    "a forgotten version bump": line(
        "core.tensors.views.in_place.count_write", "versions.value += 1", "pass"
    ),
    "a write that counts twice": line(
        "core.tensors.views.in_place.count_write", "versions.value += 1", "versions.value += 2"
    ),
    "a version that `increment_version` forgets": line(
        "autograd.graph.increment_version", "if not is_inference(each):", "if False:"
    ),
    "a leaf that can be written to": line(
        "core.tensors.views.in_place.check_inplace",
        "elif meta.requires_grad and target._edge is None:",
        "elif False:",
    ),
    "a view of a leaf that can be written to": line(
        "core.tensors.views.in_place.check_rebase",
        "if target.requires_grad and meta.base.is_leaf_so_far():",
        "if False:",
    ),
    "memory that is written to in three places at once": line(
        "core.tensors.memory.overlap.repeats", "size > 1 for", "size > 9 for"
    ),
}

HISTORY = {**DERIVATIVES, **NODES, **SAVED, **VIEWS}
