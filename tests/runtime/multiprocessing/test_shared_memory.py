"""Memory that processes share: what one writes, the others read, however they were started."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

import gradscope.runtime as torch
from gradscope.runtime.core.tensors.memory.shared import _here
from tests.record.running import House

WORK = """
import sys
import {torch} as torch
import {torch}.multiprocessing as mp

def child(queue, back, parameter, view, base, model, whole):
    print("child:", parameter.is_shared(), type(parameter).__name__, parameter.requires_grad,
          parameter.grad, view.is_shared(), view.storage_offset(),
          view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr())
    with torch.no_grad():
        parameter += 1
        view += 10
        model.weight += 5
        whole[:, 0] = 3
    (model(torch.ones(1, 2)).sum() * parameter.sum()).backward()
    print("gradients:", parameter.grad is not None, model.weight.grad is not None)
    first, second = queue.get(), queue.get()
    first.mul_(2)
    print("same:", first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr(),
          second.storage_offset(), second.tolist(), second.dtype)
    back.put(first)
    queue.get()

def spawned(index, total, counts):
    total += index + 1
    counts[index] = index

if __name__ == "__main__":
    for method in sys.argv[1:]:
        context = mp.get_context(method)
        queue, back = context.Queue(), context.Queue()
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.share_memory_()
        base = torch.zeros(6, dtype=torch.float64).share_memory_()
        view = base[2:5]
        whole = torch.zeros(2, 3).t().share_memory_()
        model = torch.nn.Linear(2, 2)
        torch.nn.init.zeros_(model.weight)
        model.share_memory()
        process = context.Process(
            target=child, args=(queue, back, parameter, view, base, model, whole)
        )
        process.start()
        x = torch.ones(4).share_memory_()
        queue.put(x)
        queue.put(x[1:3])
        again = back.get()
        print("back:", again.tolist(), x.tolist(), again.is_shared(),
              again.untyped_storage().data_ptr() == x.untyped_storage().data_ptr())
        queue.put(None)
        process.join()
        print("here:", process.exitcode, parameter.tolist(), base.tolist(), whole.tolist(),
              model.weight.tolist())
        if method != "fork":
            total, counts = torch.zeros(1).share_memory_(), torch.zeros(3).share_memory_()
            mp.start_processes(spawned, (total, counts), nprocs=3, start_method=method)
            print("started:", total.tolist(), counts.tolist())
"""

SAID = """\
child: True Parameter True None True 2 True
gradients: True True
same: True 1 [2.0, 2.0] torch.float32
back: [2.0, 2.0, 2.0, 2.0] [2.0, 2.0, 2.0, 2.0] True True
here: 0 [2.0, 2.0, 2.0] [0.0, 0.0, 10.0, 10.0, 10.0, 0.0] [[3.0, 0.0], [3.0, 0.0], [3.0, 0.0]] \
[[5.0, 5.0], [5.0, 5.0]]
"""
STARTED = "started: [6.0] [0.0, 1.0, 2.0]\n"


def test_what_a_process_writes_to_shared_memory_the_others_read(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.write(WORK.format(torch="gradscope.runtime"))

    ran = house.python("script.py", "spawn", "forkserver", "fork")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (SAID + STARTED) * 2 + SAID


@pytest.mark.torch
@pytest.mark.slow
def test_pytorch_says_the_same(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.write(WORK.format(torch="torch"))

    assert house.python("script.py", "spawn").out == SAID + STARTED


def test_views_go_along_with_the_memory_they_look_at() -> None:
    base = torch.ones(2, 3)
    view, crossed, storage = base[1], base.t()[1:], base.untyped_storage()
    other = torch.ones(2, 3)

    crossed.share_memory_()
    view[0] = 5
    crossed[1, 0] = 7

    assert all(each.is_shared() for each in (base, view, crossed))
    assert not other.is_shared()
    assert base.tolist() == [[1, 1, 7], [5, 1, 1]]
    assert base.untyped_storage().data_ptr() == storage.data_ptr()
    assert storage.nbytes() == 24
    assert torch.empty(0).share_memory_().is_shared()


def test_shared_memory_goes_with_the_last_that_holds_it() -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    gc.collect()
    files, known = open_files(), len(_here)
    tensors = [torch.ones(3).share_memory_() for _ in range(20)]
    assert (open_files() - files, len(_here) - known) == (20, 20)

    views = [each[1:] for each in tensors]
    del tensors
    assert (open_files() - files, len(_here) - known) == (20, 20)

    del views
    gc.collect()
    assert (open_files() - files, len(_here) - known) == (0, 0)
