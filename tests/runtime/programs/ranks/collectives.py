"""Calls every collective, and prints what each rank has then. Runs on either engine."""

import os

import torch
import torch.distributed as dist

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STORE = "file://" + os.path.abspath("store")  # noqa: PTH100
dist.init_process_group("gloo", init_method=STORE, rank=RANK, world_size=SIZE)
said = []


def say(name, *values):
    shown = "; ".join(str(each.tolist() if hasattr(each, "tolist") else each) for each in values)
    said.append(f"{RANK} {name}: {shown}")


def mine(*shape):
    return torch.full(shape, float(RANK))


def several(*shape):
    return [torch.zeros(shape) for _ in range(SIZE)]


def reductions():
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
        x = torch.arange(3.0) + RANK + 1
        dist.all_reduce(x, op=getattr(dist.ReduceOp, name))
        say(name, x)
    for name in ("BAND", "BOR", "BXOR"):
        x = torch.arange(3) + RANK + 1
        dist.all_reduce(x, op=getattr(dist.ReduceOp, name))
        say(name, x)
    for name in ("float16", "bfloat16", "float64", "int32", "uint8", "complex64"):
        x = torch.ones(3, dtype=getattr(torch, name)) * (RANK + 1)
        dist.all_reduce(x)
        say(name, x)
    x = torch.ones(2, 3).t() * RANK
    dist.all_reduce(x)
    say("not contiguous", x)
    x = mine(2)
    dist.reduce(x, 0)
    say("reduce", x if RANK == 0 else "not given")
    out = torch.zeros(2)
    dist.reduce_scatter_single(out, torch.arange(2.0 * SIZE) + RANK)
    say("reduce_scatter_single", out)
    dist.reduce_scatter(out, [torch.ones(2) * (each + RANK) for each in range(SIZE)])
    say("reduce_scatter", out)


def copies():
    x = mine(2)
    dist.broadcast(x, SIZE - 1)
    say("broadcast", x)
    out = several(2)
    dist.all_gather(out, mine(2))
    say("all_gather", *out)
    x = torch.zeros(2 * SIZE)
    dist.all_gather_single(x, mine(2))
    say("all_gather_single", x)
    out = several(1)
    dist.all_to_all(out, [torch.tensor([10.0 * RANK + each]) for each in range(SIZE)])
    say("all_to_all", *out)
    x = torch.zeros(SIZE)
    dist.all_to_all_single(x, torch.arange(float(SIZE)) + 10 * RANK)
    say("all_to_all_single", x)
    out = several(2) if RANK == 0 else None
    dist.gather(mine(2), out)
    say("gather", *(out or []))
    x = torch.zeros(2)
    parts = [torch.full((2,), float(each)) for each in range(SIZE)]
    dist.scatter(x, parts if RANK == 0 else None)
    say("scatter", x)


def objects():
    out = [None] * SIZE
    dist.all_gather_object(out, {"rank": RANK, "text": "y" * RANK})
    say("all_gather_object", out)
    out = [None] * SIZE if RANK == 0 else None
    dist.gather_object(("a", RANK), out)
    say("gather_object", out)
    out = [1, "two", {"three": 3}] if RANK == 0 else [None] * 3
    dist.broadcast_object_list(out, 0)
    say("broadcast_object_list", out)
    out = [None]
    dist.scatter_object_list(out, [f"for {each}" for each in range(SIZE)] if RANK == 0 else None, 0)
    say("scatter_object_list", out)


def later():
    x, y = torch.arange(3.0) + RANK, torch.ones(2)
    works = [dist.all_reduce(x, async_op=True), dist.all_reduce(y, async_op=True)]
    for work in works:
        work.wait()
    say("asynchronous", x, y, works[0].is_completed())
    future = dist.all_reduce(x, async_op=True).get_future()
    say("future", future.then(lambda done: done.value()[0] * 2).wait())


def messages():
    if RANK == 0:
        dist.send(torch.arange(4.0), 1)
    if RANK == 1:
        x = torch.zeros(4)
        say("recv", dist.recv(x), x)
    x = torch.zeros(2)
    ring = [
        dist.P2POp(dist.isend, mine(2), (RANK + 1) % SIZE),
        dist.P2POp(dist.irecv, x, (RANK - 1) % SIZE),
    ]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    say("ring", x)


def groups():
    first = dist.new_group([0])
    say("group of one", dist.get_rank(first), dist.get_world_size(first))
    last = dist.new_group([SIZE - 1, SIZE - 2])
    if RANK >= SIZE - 2:
        x = mine(1)
        dist.all_reduce(x, group=last)
        say("group", x, dist.get_rank(last), dist.get_process_group_ranks(last))


def errors():
    for name, call in {
        "type": lambda: dist.all_reduce(3),
        "sizes": lambda: dist.all_gather([torch.ones(3)] * SIZE, torch.ones(2)),
        "bits": lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BOR),
        "rank": lambda: dist.new_group([SIZE]),
        "twice": lambda: dist.new_group([0, 0]),
        "itself": lambda: dist.send(torch.ones(1), RANK),
        "started": lambda: dist.init_process_group("gloo"),
        "op": lambda: dist.P2POp(print, torch.ones(1), 0),
    }.items():
        try:
            call()
        except (RuntimeError, TypeError, ValueError) as error:
            say(name, type(error).__name__, str(error).splitlines()[0])


for part in (reductions, copies, objects, later, messages, groups, errors):
    part()
    dist.barrier()
print("\n".join(said), flush=True)
dist.destroy_process_group()
os._exit(0)
