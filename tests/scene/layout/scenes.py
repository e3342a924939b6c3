"""Scenes that pictures are held to the rules on, and that the page lays out in the same way."""

from __future__ import annotations

from random import Random

from gradscope.scene.layout.nested import Link, Sized

Scene = tuple[list[Sized], list[Sized], list[Link]]
SCENES = range(12, 30)


def scene(seed: int) -> Scene:
    """Boxes in the order of the graph, in frames that each hold a stretch of them; links go on."""
    chance = Random(seed)
    number = chance.randrange(4, 40)
    frames: list[Sized] = []
    parent_of = [""] * number

    def frame(first: int, end: int, around: str, depth: int) -> None:
        at = first
        while at < end:
            to = min(end, at + chance.randrange(1, 9))
            if to - at > 1 and depth < 3 and chance.random() < 0.5:
                id = f"f{len(frames)}"
                frames.append(Sized(id, chance.randrange(30, 200), 26.0, around))
                parent_of[at:to] = [id] * (to - at)
                frame(at, to, id, depth + 1)
            at = to

    frame(0, number, "", 0)
    boxes = [
        Sized(
            f"b{place}", chance.randrange(40, 200), chance.randrange(20, 110), parent,
            f"box {place}",
        )
        for place, parent in enumerate(parent_of)
    ]  # fmt: skip
    near = [(place, place + 1) for place in range(number - 1) if chance.random() < 0.8]
    far = [sorted(chance.sample(range(number), 2)) for _ in range(number // 3)]
    pairs = dict.fromkeys([*near, *((tail, head) for tail, head in far)])
    return boxes, frames, [Link(f"b{tail}", f"b{head}") for tail, head in pairs]
