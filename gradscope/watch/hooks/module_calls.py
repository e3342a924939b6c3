"""Observes calls of modules, steps of optimizers, and waits for data loaders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.nn.modules.module import Module
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter

from gradscope.errors import is_the_programs, leave_no_frame
from gradscope.program_listener import is_nested
from gradscope.watch.in_place.by_identity import is_a
from gradscope.watch.in_place.compilers import compiler_aside
from gradscope.watch.in_place.module_call import module_call
from gradscope.watch.in_place.standing_in import HERE, Replaced, passed_over
from gradscope.watch.unseen import stands_for

if TYPE_CHECKING:
    from gradscope.program_listener import SummaryListener
    from gradscope.watch.called.writes import WatchedWrites
    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import Listener


SPANS = (
    (Optimizer, "zero_grad"), (Module, "zero_grad"),
    (GradScaler, "unscale_"), (GradScaler, "step"), (GradScaler, "update"),
)  # fmt: skip
"""Methods that are reported as spans of time, with names of class and method."""


class ModuleCalls:
    """Reports forwards of modules, steps of optimizers, and waits for data."""

    def __init__(self, listener: Listener, faults: Faults) -> None:
        self._listener = listener
        self._faults = faults
        self._replaced = Replaced(stands_for)
        self._call = module_call(self)
        self.ends = listener.module_ends
        self.aside = compiler_aside()
        self._handles: list[Any] = []
        self._paused = False
        self.writes: WatchedWrites | None = None  # those inside a step are part of the step
        self.unseen_calls = False  # whether modules cannot be observed
        self.compiled_steps = False  # whether some ran in regions of torch.compile, unobserved
        self.summary: SummaryListener | None = None
        self._stepping = 0  # nesting depth of optimizer steps, in which they are left out

    def start(self) -> None:
        self.resume()
        self._handles = [
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ends),
        ]

    def resume(self) -> None:
        """Report forwards and waits."""
        self._paused = False
        self.unseen_calls = not self._call.start()
        put = self._replaced.put
        loading = self._watched_next(_BaseDataLoaderIter.__next__)
        put(_BaseDataLoaderIter, "__next__", loading)
        for home, name in SPANS:
            put(home, name, self._watched_span(home.__dict__[name]))

    def pause(self) -> None:
        """Report only ends of steps, and ends of what is running now."""
        self._paused = True
        self._call.stop()
        self._replaced.take_back()

    def stop(self) -> None:
        self.pause()
        for handle in self._handles:
            handle.remove()

    def begins(self, module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Called before a module is called. Returns whether `ends` is called after it."""
        if HERE.ours or not is_a(module, Module):
            return False
        HERE.ours = True
        try:
            if self._listener.takes_given:
                self._listener.module_given(module, given, named)
            self._listener.module_begins(module)
        except Exception as error:
            if is_the_programs(error):
                raise
            self._faults.noted("a module was called", error)
            return False
        finally:
            HERE.ours = False
        return True

    def _watched_next(self, own: Any) -> Any:
        listener, guarded = self._listener, self._faults.guarded

        @passed_over
        def __next__(self: Any) -> Any:  # noqa: N807
            token = guarded("a loader was asked", listener.span_begins, "DataLoader")
            try:
                return own(self)
            except BaseException as error:
                leave_no_frame(error)
                raise
            finally:
                guarded("a loader answered", listener.span_ends, token)

        return __next__

    def _watched_span(self, own: Any) -> Any:
        begins, ends = self._listener.span_begins, self._listener.span_ends
        guarded = self._faults.guarded
        is_compiling, method = torch.compiler.is_compiling, own.__name__

        @passed_over
        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or HERE.ours:
                return own(self, *args, **kwargs)
            name = f"{type(self).__name__}.{method}"
            token = guarded(f"{method} was called", begins, name)
            try:
                return own(self, *args, **kwargs)
            except BaseException as error:
                leave_no_frame(error)
                raise
            finally:
                if token is not None:
                    ends(token)

        return called

    def _step_begins(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            self.compiled_steps = True  # the compiler does this whenever such a step runs
            return
        summary = self.summary
        if summary is not None and summary.measures:
            self._faults.guarded("a step was measured", summary.stepping, optimizer)
        if self._paused:
            return
        if self.writes is not None:
            self._stepping += 1
            self.writes.leave_out()
        self._faults.guarded("a step began", self._listener.step_begins, optimizer, ".step")

    def _step_ends(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        guarded = self._faults.guarded
        if not self._paused:
            guarded("a step ended", self._listener.step_written, optimizer, sys._getframe(1))
        if self._stepping and self.writes is not None:
            self._stepping -= 1
            self.writes.leave_out(over=True)
        summary = self.summary
        if summary is not None and summary.measures:
            guarded("a step was measured", summary.stepped, optimizer)
        guarded("a step ended", self._listener.step_ends, nested=is_nested(sys._getframe(1)))
