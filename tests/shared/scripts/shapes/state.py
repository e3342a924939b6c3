"""Processes that train together, and what is kept on disk between runs."""

import os
import random
from contextlib import contextmanager

import torch
import torch.distributed as dist


@contextmanager
def together():
    """The rank and how many there are; under torchrun they form a group."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield 0, 1
        return
    dist.init_process_group("gloo")
    try:
        yield dist.get_rank(), world
    finally:
        dist.destroy_process_group()


def mean_of_all(value, world):
    if world > 1:
        dist.all_reduce(value)
        value = value / world
    return value


def save(path, **parts):
    state = {name: part.state_dict() for name, part in parts.items() if hasattr(part, "state_dict")}
    state |= {name: part for name, part in parts.items() if not hasattr(part, "state_dict")}
    state["random"] = torch.get_rng_state(), random.getstate()
    waiting = path.with_suffix(".part")
    torch.save(state, waiting)
    waiting.replace(path)


def load(path, **parts):
    state = torch.load(path, weights_only=False)
    for name, part in parts.items():
        part.load_state_dict(state[name])
    torch.set_rng_state(state["random"][0])
    random.setstate(state["random"][1])
    return state
