"""`torch._C._autograd` and what else programs ask of autograd from below."""

from __future__ import annotations

import gc
import re
import warnings
from typing import Any

import pytest

from tests.runtime.both import leaf, raises


def test_saved_values_are_instances_of_saved_tensor(torch: Any) -> None:
    kind = torch._C._autograd.SavedTensor
    node = (leaf(torch, 1.0) * leaf(torch, 2.0)).grad_fn

    assert isinstance(node._raw_saved_self, kind)
    assert torch.autograd.SavedTensor is kind
    assert raises(RuntimeError, kind) == (
        "Trying to create a SavedTensor object from Python is forbidden."
    )


def test_hooks_on_a_saved_value_are_two_that_can_be_called(torch: Any) -> None:
    saved = (leaf(torch, 1.0) * leaf(torch, 2.0)).grad_fn._raw_saved_self

    for given in ((abs,), (1, 1), (abs, abs, abs)):
        told = raises(TypeError, lambda given=given: saved.register_hooks(*given))
        assert told.startswith("register_hooks(): incompatible function arguments.")


def test_hooks_on_what_is_saved_can_be_switched_off_from_below(torch: Any) -> None:
    below = torch._C._autograd
    below._saved_tensors_hooks_disable("not here")
    try:
        assert not below._saved_tensors_hooks_is_enabled()
        assert below._saved_tensors_hooks_get_disabled_error_message() == "not here"
        assert raises(RuntimeError, lambda: below._push_saved_tensors_default_hooks(abs, abs)) == (
            "not here"
        )
    finally:
        below._saved_tensors_hooks_enable()
    assert below._saved_tensors_hooks_is_enabled()


def test_hooks_on_what_is_saved_can_be_pushed_from_below(torch: Any) -> None:
    below = torch._C._autograd
    below._push_saved_tensors_default_hooks(lambda t: t * 2, lambda t: t)
    try:
        assert below._top_saved_tensors_default_hooks(False) is not None
        x = leaf(torch, 3.0)
        y = x * x
    finally:
        below._pop_saved_tensors_default_hooks()
    y.backward()

    assert below._top_saved_tensors_default_hooks(False) is None
    assert x.grad.tolist() == [12.0]


def test_a_counter_of_writes_can_be_set(torch: Any) -> None:
    sets = torch._C._autograd._unsafe_set_version_counter
    x = torch.ones(2)
    view = x[:1]
    x.add_(1)

    sets((x,), (7,))

    assert (x._version, view._version) == (7, 7)
    assert raises(RuntimeError, lambda: sets((x,), (-1,))) == (
        "Cannot set a version_counter to a value below 0: -1"
    )
    assert raises(RuntimeError, lambda: sets((x,), (1, 2))) == "tensors_len=1, versions_len=2"


def test_how_a_view_was_made_can_be_read_and_said(torch: Any) -> None:
    below = torch._C._autograd
    x = leaf(torch, 1.0, 2.0).clone()
    view = x[:1]

    assert int(below._get_creation_meta(view)) == 0
    assert below._get_creation_meta(x.unbind()[0]).name == "MULTI_OUTPUT_NODE"
    below._set_creation_meta(view, below.CreationMeta.MULTI_OUTPUT_NODE)
    assert "returns multiple views" in raises(RuntimeError, lambda: view.add_(1))


def test_a_weak_reference_knows_whether_its_tensor_is_gone(torch: Any) -> None:
    x = torch.ones(2)
    reference = torch._C._WeakTensorRef(x)
    assert not reference.expired()

    del x
    gc.collect()

    assert reference.expired()


def test_switches_take_nothing_but_bools(torch: Any) -> None:
    below = torch._C

    below._set_grad_enabled(False)
    try:
        assert not below.is_grad_enabled()
    finally:
        below._set_grad_enabled(True)
    below._set_fwd_grad_enabled(False)
    try:
        assert not below._is_fwd_grad_enabled()
    finally:
        below._set_fwd_grad_enabled(True)
    assert raises(TypeError, lambda: below._set_grad_enabled(1)) == (
        "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not int"
    )
    assert raises(TypeError, lambda: below._set_fwd_grad_enabled(1)) == (
        "enabled must be a bool (got int)"
    )


def test_decorating_a_class_warns_and_decorating_a_function_does_not(torch: Any) -> None:
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @torch.no_grad()
        class Kind:
            def __init__(self) -> None:
                self.recorded = torch.is_grad_enabled()

    assert not Kind().recorded
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.no_grad()(torch.is_grad_enabled)() is False


def test_whether_views_are_taken_again_can_be_asked(torch: Any) -> None:
    asked = torch.autograd.is_view_replay_enabled

    with torch.autograd._force_original_view_tracking(True):
        assert asked()
    assert not asked()


def test_old_fields_of_tensors_say_that_they_are_not_to_be_deleted(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2
    told = {
        "_grad_fn": "Deletion of _grad_fn not allowed. Detach tensor instead!",
        "_backward_hooks": "Deletion of _backwards_hooks not allowed!",
        "_post_accumulate_grad_hooks": "Deletion of _post_accumulate_grad_hooks not allowed!",
    }

    assert {name: raises(RuntimeError, lambda name=name: delattr(y, name)) for name in told} == told
    assert y._grad_fn is y.grad_fn
    y._grad_fn = None
    assert y.is_leaf
    with pytest.raises(RuntimeError, match=re.escape("_grad_fn can be only set to None")):
        y._grad_fn = 3


def test_volatile_is_always_false(torch: Any) -> None:
    x = torch.ones(1)
    with pytest.warns(UserWarning, match=re.escape("(Variable.volatile is always False)")):
        assert x.volatile is False
    with pytest.warns(UserWarning, match="now has no effect"):
        x.volatile = True


def test_the_shapes_of_an_output_and_its_gradient(torch: Any) -> None:
    shapes = torch.autograd._calculate_shape
    y, rows = torch.ones(3, requires_grad=True) * 2, torch.ones(5, 3)
    edge = torch.autograd.graph.get_gradient_edge(y)

    assert [tuple(each) for each in shapes(y, rows, True)] == [(3,), (3,)]
    assert [tuple(each) for each in shapes(edge, rows, False)] == [(3,), (5, 3)]
    assert raises(RuntimeError, lambda: shapes(edge, rows, True)) == (
        "Batched grads are not supported with GradientEdge"
    )
