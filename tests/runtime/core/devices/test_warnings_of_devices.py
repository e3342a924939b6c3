"""Warnings of a backward whose nodes run in other threads."""

from __future__ import annotations

import threading
import warnings

import pytest

from tests.runtime.both import runtime


def test_the_program_is_named_and_in_its_thread_whatever_thread_runs_the_nodes() -> None:
    torch = runtime()
    x = torch.ones(2, device="sim:0", requires_grad=True)
    seen: list[tuple[int, str]] = []
    torch.set_warn_always(True)
    try:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("always")
            patch.setattr(
                warnings,
                "showwarning",
                lambda _text, _kind, file, *_: seen.append((threading.get_ident(), file)),
            )
            ran: list[int] = []
            x.register_hook(lambda grad: ran.append(threading.get_ident()))
            (x * x).sum().backward(create_graph=True)
    finally:
        torch.set_warn_always(False)

    assert seen == [(threading.get_ident(), __file__)]
    assert ran != [threading.get_ident()]
