"""Functions that low-level packages call from higher ones, filled in by those.

# Note [Calls upwards]
Packages import in one direction. A few functions are needed below the package that can define them:
a leaf's node is created by the engine, which is built on tensors. Callers use these names; the
module that defines the function assigns it when it is imported, which the top module ensures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

accumulator: Callable[[Any], Any]
"""Returns the node of a leaf (autograd/engine/accumulate_grad.py)."""

call_with_tangents: Callable[..., Any]
"""Runs a call while a dual level is open (autograd/forward/jvp.py)."""

cross_entropy_in_pieces: Callable[..., Any]
"""Cross entropy of a linear layer, a few rows at a time (nn/modules/linear_cross_entropy.py)."""

full_road: Callable[[Any], Any]
"""The path of an operation below the dispatcher (calls/late.py)."""

given_to_modes: Callable[..., Any]
"""Passes calls that are no operations of the table to modes (dispatch/modes/protocol.py)."""

observed: Callable[[Any], Any]
"""An operation that calls the innermost dispatch mode (dispatch/modes/protocol.py)."""

offered_to_stranger: Callable[..., Any]
"""Passes a call to the class of a value that is not a tensor (dispatch/overrides/public.py)."""

put_up_gates: Callable[[], None]
"""From then on, passes calls to overriding classes (dispatch/overrides/public.py)."""

raw_saved_value: Callable[[Any, int], Any]
"""The content of a node's slot, not unpacked (tensors/saved/saved_attributes.py)."""

replayed: Callable[[Any], Any]
"""A function or model that is recorded, then replayed (fast/__init__.py)."""

saved_value: Callable[[Any, int], Any]
"""The content of a node's slot, as users see it (tensors/saved/saved_attributes.py)."""

set_kernel_threads: Callable[[int | None], None]
"""Sets the number of threads of compiled kernels (fast/threads/spread.py)."""

view_as: Callable[[Any], Any]
"""A view of the class that overrides functions (dispatch/overrides/public.py)."""

written: Callable[..., Any]
"""Writes a result to the `out=` tensor (calls/extra_arguments/out.py)."""
