"""Faults of what users hook in: hooks, custom Functions, grad modes, anomaly mode."""

from __future__ import annotations

from tests.faults.planting import Plant, line

SEND, THROW = (
    "with mode.clone():\n                    try:\n                        value = generator." + way
    for way in ("send", "throw")
)

HOOKS: dict[str, Plant] = {
    "a hook that is called twice": line(
        "core.autograd.hooks.hooks.run_tensor_hooks",
        "made = hook(grad)",
        "made = hook(grad)\n        made = hook(grad)",
    ),
    "a replaced gradient that is ignored": line(
        "core.autograd.hooks.hooks.run_tensor_hooks",
        "grad = checked(made, grad, hook)",
        "checked(made, grad, hook)",
    ),
    "the newest hook first": line(
        "core.autograd.hooks.hooks.run_tensor_hooks",
        "list(hooks.values())",
        "list(hooks.values())[::-1]",
    ),
    "hooks that may not be removed while they run": line(
        "core.autograd.hooks.hooks.run_tensor_hooks", "list(hooks.values())", "hooks.values()"
    ),
    "a hook that cannot be removed": line(
        "core.state.hook_handles.RemovableHandle.remove", "found.pop(self.id, None)", "pass"
    ),
    "a pre-hook that sees what the one before it saw": line(
        "core.autograd.hooks.hooks.run_pre_hooks",
        "made = hook(grads)",
        "made = hook(_wrapped(values, raw))",
    ),
    "a post-hook given its gradients the wrong way round": line(
        "core.autograd.hooks.hooks.run_post_hooks",
        "hook(results, sources)",
        "hook(sources, results)",
    ),
    "a post-hook that replaces nothing": line(
        "core.autograd.hooks.hooks.run_post_hooks",
        "results = _replaced(made, results, hook)",
        "pass",
    ),
    "a hook that may change the size": line(
        "core.autograd.hooks.hooks.checked",
        "if made._array.shape != before._array.shape:",
        "if False:",
    ),
    "a hook that may change the type": line(
        "core.autograd.hooks.hooks.checked",
        "if made._array.dtype != before._array.dtype:",
        "if False:",
    ),
    "a hook that may return anything": line(
        "core.autograd.hooks.hooks.checked",
        "if not isinstance(made, wrapping.Tensor):",
        "if False:",
    ),
    "any number of values from a hook": line(
        "core.autograd.hooks.hooks._replaced", "if len(made) != len(before):", "if False:"
    ),
    "a hook where no gradient will come": line(
        "core.autograd.hooks.hooks.register_hook", "if not tensor.requires_grad:", "if False:"
    ),
    "one list of hooks for all outputs": line(
        "core.autograd.hooks.hooks.hooks_of", "append((nr, meta.hooks))", "append((0, meta.hooks))"
    ),
    "a kept gradient that keeps its tensor alive": line(
        "core.autograd.hooks.hooks.retain_grad", "weakref.ref(tensor)", "lambda: tensor"
    ),
    "a kept gradient that somebody else holds": line(
        "core.autograd.hooks.hooks.retain_grad", "grad.clone() if", "grad if"
    ),
    "a kept gradient that does not add up": line(
        "core.autograd.hooks.hooks.retain_grad", "fields.grad + grad", "grad"
    ),
    "a hook on many tensors that fires early": line(
        "core.autograd.hooks.multi_grad._on_all",
        "counts[task] == expected[task]",
        "counts[task] == 1",
    ),
    "a hook on many tensors that waits for those that never come": line(
        "core.autograd.hooks.multi_grad._on_all",
        "sum(_will_run(task, node) for node in nodes)",
        "len(nodes)",
    ),
    "a hook on any tensor that fires for each": line(
        "core.autograd.hooks.multi_grad._on_first", "if not known:", "if True:"
    ),
}

FUNCTIONS: dict[str, Plant] = {
    "a forward that records": line(
        "core.autograd.custom.function.Function.apply",
        "with untracked() if dual else no_grad():",
        "if True:",
    ),
    "gradients that are made up although nobody wants them": line(
        "core.autograd.custom.function.BackwardCFunction.run_tensors",
        "if self._materialize_grads else grads",
        "if True else grads",
    ),
    "gradients that are not made up": line(
        "core.autograd.custom.function.BackwardCFunction._materialized",
        "if grad is None and info is not None",
        "if False",
    ),
    "needs of gradients that are all true": line(
        "core.autograd.custom.function._context",
        "and v.requires_grad for v in args",
        "for v in args",
    ),
    "a ctx that keeps its tensors": line(
        "core.autograd.custom.function.BackwardCFunction.release_variables",
        "self._saved = None",
        "pass",
    ),
    "a saved output that holds its own node": line(
        "core.autograd.custom.function._kept",
        "if edge is not None and edge[0] is ctx:",
        "if False:",
    ),
    "too many gradients from a backward": line(
        "core.autograd.custom.function.BackwardCFunction._checked",
        "if len(results) != wanted:",
        "if len(results) < wanted:",
    ),
    "surplus Nones that are counted": line(
        "core.autograd.custom.function.BackwardCFunction._checked",
        "results = results[:wanted]",
        "pass",
    ),
    "an input that is returned and is the same object": line(
        "core.autograd.custom.returned._Output.differentiable",
        "alias(tensor) if self.is_input else tensor",
        "tensor",
    ),
    "a written input that is returned as another object": line(
        "core.autograd.custom.returned._Output.differentiable",
        "return tensor\n",
        "return alias(tensor)\n",
    ),
    "a write that a custom function made and nobody counts": line(
        "core.autograd.custom.returned._written", "count_told_write(tensor, writer)", "pass"
    ),
    "a written input that need not be returned": line(
        "core.autograd.custom.returned.record_history",
        "if not dirty <= {id(value) for value in outputs}:",
        "if False:",
    ),
    "a leaf that a custom function may write to": line(
        "core.autograd.custom.returned._Output._rewritten",
        "if tensor.is_leaf_so_far() and tensor.requires_grad:",
        "if False:",
    ),
    "a view from a custom function that may be written to": line(
        "core.autograd.custom.returned._views", "value._meta.creation = creation", "pass"
    ),
    "a result with a gradient that was to have none": line(
        "core.autograd.custom.returned.record_history", "id(value) not in constant and", ""
    ),
    "a once differentiable backward that records": line(
        "core.autograd.custom.once_differentiable.once_differentiable",
        "with no_grad():",
        "if True:",
    ),
    "a once differentiable backward that is differentiated": line(
        "core.autograd.custom.once_differentiable.once_differentiable",
        "return undifferentiable(results, TWICE, ctx.name())",
        "return made",
    ),
}

MODES: dict[str, Plant] = {
    "a grad mode that is not restored": line(
        "core.autograd.modes.grad_mode._GradMode.__exit__",
        "state.grad_enabled, state.grad_wanted = self.before",
        "pass",
    ),
    "a generator that leaks its mode": line(
        "core.autograd.modes.grad_mode._decorated_generator",
        SEND,
        SEND.replace("with mode.clone():", "if mode.__enter__() is None:"),
    ),
    "a generator that is thrown at outside its mode": line(
        "core.autograd.modes.grad_mode._decorated_generator",
        THROW,
        THROW.replace("with mode.clone():", "if True:"),
    ),
    "a decorator that switches where it stands": line(
        "core.autograd.modes.grad_mode.set_grad_enabled.__call__",
        "self.__exit__()",
        "pass",
    ),
    "NaN that is looked for although nobody asked": line(
        "core.autograd.modes.anomaly_mode.check_outputs",
        "if not local.state.check_nan:",
        "if False:",
    ),
    "NaN that is not looked for": line(
        "core.autograd.modes.anomaly_mode.check_outputs",
        "and np.isnan(array).any()",
        "and np.isinf(array).any()",
    ),
    "a node that forgets whose backward made it": line(
        "core.graph.new_node.remember", "metadata[PARENT] = state.node", "pass"
    ),
    "a chain of parents that ends at once": line(
        "core.autograd.modes.anomaly_mode.tell", "while parent is not None:", "while False:"
    ),
    "anomaly mode that is not switched back": line(
        "core.autograd.modes.anomaly_mode.detect_anomaly.__exit__",
        "set_anomaly_enabled(*self.before)",
        "pass",
    ),
}

USERS = {**HOOKS, **FUNCTIONS, **MODES}
