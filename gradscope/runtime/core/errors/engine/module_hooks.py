"""Errors about hooks of modules: which can be combined, and what they may return."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


@engine_error("forward-pre-hook-result", "Return `(args, kwargs)`, or None.")
def forward_pre_hook_result(hook: Any, found: Any) -> Case:
    """A forward pre-hook registered with `with_kwargs=True` did not return `(args, kwargs)`.

    Example:
        def double(module, args, kwargs):  # named below
            return "twice"

        layer = torch.nn.Linear(3, 3)
        layer.register_forward_pre_hook(double, with_kwargs=True)
        layer(torch.ones(3))
    """
    return Case(
        RuntimeError,
        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {found}.",
        hook=hook,
    )


@engine_error("mixed-backward-hooks", "Use `register_full_backward_hook` for all of them.")
def mixed_backward_hooks(module: Any) -> Case:
    """Backward hooks of the old kind and of the new kind were registered on one module.

    Example:
        layer = torch.nn.Linear(3, 3)
        layer.register_backward_hook(print)
        layer.register_full_backward_hook(print)
    """
    return Case(
        RuntimeError,
        "Cannot use both regular backward hooks and full backward hooks on a single Module. "
        "Please use only one of them.",
        (f"The module is a {type(module).__name__}.",),
    )


@engine_error("mixed-global-hooks", "Use `register_module_full_backward_hook` for all of them.")
def mixed_global_hooks() -> Case:
    """Backward hooks of the old kind and of the new kind were registered for all modules.

    Example:
        from torch.nn.modules.module import (
            register_module_backward_hook,
            register_module_full_backward_hook,
        )

        with register_module_backward_hook(print):
            register_module_full_backward_hook(print)
    """
    return Case(
        RuntimeError,
        "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
        "Please use only one of them.",
    )


@engine_error(
    "module-pre-hook-count", "Return one gradient for each output of the module, or None."
)
def module_pre_hook_count(hook: Any, found: int, wanted: int) -> Case:
    """The number of gradients a backward pre-hook returned differs from the number of outputs.

    Example:
        def twice(module, grad_output):  # named below
            return grad_output * 2

        layer = torch.nn.Linear(3, 3)
        layer.register_full_backward_pre_hook(twice)
        layer(torch.ones(3, requires_grad=True)).sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        "Backward pre hook returned an invalid number of grad_output, "
        f"got {found}, but expected {wanted}",
        hook=hook,
    )


@engine_error("module-hook-without-inputs", "Return None: there is no gradient to replace.")
def module_hook_without_inputs(hook: Any) -> Case:
    """A backward hook returned gradients, but no input of the module requires grad.

    Example:
        import warnings

        def ones(module, grad_input, grad_output):  # named below
            return (torch.ones(3),)

        warnings.simplefilter("ignore")
        layer = torch.nn.Linear(3, 3)
        layer.register_full_backward_hook(ones)
        layer(torch.ones(3)).sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        "Backward hook for Modules where no input requires gradient should always return "
        "None or None for all gradients.",
        hook=hook,
    )


@engine_error("module-hook-count", "Return one gradient for each input of the module, or None.")
def module_hook_count(hook: Any, found: int, wanted: int) -> Case:
    """The number of gradients a backward hook returned differs from the number of inputs.

    Example:
        def twice(module, grad_input, grad_output):  # named below
            return grad_input * 2

        layer = torch.nn.Linear(3, 3)
        layer.register_full_backward_hook(twice)
        layer(torch.ones(3, requires_grad=True)).sum().backward()  # named below
    """
    return Case(
        RuntimeError,
        "Backward hook returned an invalid number of grad_input, "
        f"got {found}, but expected {wanted}",
        hook=hook,
    )
