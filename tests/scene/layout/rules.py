"""What must hold of a picture that is laid out, by whomever."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

from gradscope.scene.layout.nested import Course, Link, Placed, Rect, Sized

SLACK = 0.3  # places are rounded to a tenth


def overlap(one: Rect, other: Rect) -> bool:
    return (
        one.x + one.width > other.x + SLACK
        and other.x + other.width > one.x + SLACK
        and one.y + one.height > other.y + SLACK
        and other.y + other.height > one.y + SLACK
    )


def inside(one: Rect, other: Rect) -> bool:
    return (
        one.x >= other.x - SLACK
        and one.y >= other.y - SLACK
        and one.x + one.width <= other.x + other.width + SLACK
        and one.y + one.height <= other.y + other.height + SLACK
    )


def around(id: str, parents: dict[str, str]) -> set[str]:
    found = set()
    while id := parents[id]:
        found.add(id)
    return found


def reach_of(course: Course) -> list[Rect]:
    """Rectangles that no part of a course leaves: a bend stays in that of its ends."""
    return [
        Rect(min(a, c), min(b, d), abs(c - a), abs(d - b))
        for (a, b), (c, d) in pairwise(course.points)
    ]


def crossed(rect: Rect, course: Course) -> bool:
    """Whether a course goes through, not only along the edge or up to it."""
    return any(
        part.x + part.width > rect.x + SLACK
        and rect.x + rect.width > part.x + SLACK
        and part.y + part.height > rect.y + SLACK
        and rect.y + rect.height > part.y + SLACK
        for part in reach_of(course)
    )


def apart(found: Placed, sized: Sequence[Sized]) -> list[str]:
    """What lies outside of its frame, or on something else."""
    parents = {each.id: each.parent for each in sized}
    whole = Rect(0, 0, found.width, found.height)
    everything = found.boxes | found.frames
    wrong = [f"{id} is not placed" for id in set(parents) ^ set(everything)]
    wrong += [
        f"{id} leaves its frame"
        for id, rect in everything.items()
        if not inside(rect, everything.get(parents[id], whole))
    ]
    for one, other in combinations(everything, 2):
        nested = one in around(other, parents) or other in around(one, parents)
        if not nested and overlap(everything[one], everything[other]):
            wrong.append(f"{one} on {other}")
    places = [stub.place for stub in found.stubs]
    for place in places:
        wrong += [f"a stub on {id}" for id, rect in found.boxes.items() if overlap(place, rect)]
    wrong += ["two stubs" for one, other in combinations(places, 2) if overlap(one, other)]
    return wrong


def arrows_lead_down(found: Placed, sized: Sequence[Sized], links: Sequence[Link]) -> list[str]:
    """Which arrows lead up, or through a box, or through a frame that holds neither end."""
    parents = {each.id: each.parent for each in sized}
    wrong = []
    for course in found.courses:
        link = links[course.link]
        said = f"{link.tail} to {link.head}"
        steps = pairwise(course.points)
        if any(upper > lower and x != to_x for (x, upper), (to_x, lower) in steps):
            wrong.append(f"{said} leads up, and not straight between columns")
        entered = around(link.tail, parents) | around(link.head, parents)
        for id, rect in (found.boxes | found.frames).items():
            if id not in entered and crossed(rect, course):
                wrong.append(f"{said} through {id}")
    return wrong
