"""Messages from one rank to another."""

from __future__ import annotations

from functools import partial
from typing import Any

from gradscope.runtime.distributed.calls.checks import flat, left_out, one_tensor, put
from gradscope.runtime.distributed.calls.telling import told, wrote
from gradscope.runtime.distributed.exchange.transport import ANY
from gradscope.runtime.distributed.exchange.work import Work
from gradscope.runtime.distributed.groups import (
    ProcessGroup,
    get_group_rank,
    resolved,
    root_of,
)


def send(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send a tensor to a rank, and wait until its memory may be used again."""
    one_tensor(tensor, "tensor")
    if left_out(group, "send"):
        return
    found = resolved(group)
    to = _destination(found, dst, group_dst)
    with told("send", found, tensor):
        _sending(tensor, found, to, tag).wait()


def recv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive a tensor from a rank, or from any. Returns which one sent it."""
    one_tensor(tensor, "tensor")
    if left_out(group, "recv"):
        return -1
    found = resolved(group)
    source = _source(found, src, group_src)
    with told("recv", found):
        work = _receiving(tensor, found, source, tag)
        work.wait()
    return work.source_rank()


def isend(
    tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Begin to send a tensor."""
    one_tensor(tensor, "tensor")
    if left_out(group, "isend"):
        return None
    found = resolved(group)
    return _sending(tensor, found, _destination(found, dst, group_dst), tag)


def irecv(
    tensor: Any, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Begin to receive a tensor."""
    one_tensor(tensor, "tensor")
    if left_out(group, "irecv"):
        return None
    found = resolved(group)
    return _receiving(tensor, found, _source(found, src, group_src), tag)


class P2POp:
    """A message for `batch_isend_irecv`: `isend` or `irecv`, the tensor and the other rank."""

    def __init__(
        self, op: Any, tensor: Any, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        one_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.group_peer = root_of(resolved(group), peer, group_peer, None)
        self.peer = resolved(group).members[self.group_peer]


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several messages."""
    if not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    group = resolved(p2p_op_list[0].group)
    if any(resolved(each.group) is not group for each in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    with told("batch_isend_irecv", group, p2p_op_list[0].tensor, goes_on=True):
        begun = [
            each.op(each.tensor, group=each.group, tag=each.tag, **_peer(each))
            for each in p2p_op_list
        ]
    return [work for work in begun if work is not None]


def _peer(message: P2POp) -> dict[str, int]:
    return {"group_dst" if message.op is isend else "group_src": message.group_peer}


def _destination(group: ProcessGroup, dst: int | None, inside: int | None) -> int:
    to = root_of(group, dst, inside, None)
    if to == group.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the "
            "current process."
        )
    return to


def _source(group: ProcessGroup, src: int | None, inside: int | None) -> int:
    if src is None and inside is None:
        return ANY
    source = root_of(group, src, inside, None)
    if source == group.rank():
        raise ValueError(
            "Invalid source rank: source rank should not be the same as the rank of the current "
            "process."
        )
    return source


def _sending(tensor: Any, group: ProcessGroup, to: int, tag: int) -> Work:
    elements = flat(tensor)
    work = Work(
        "send", group, lambda: group.transport.send(elements, to, tag), result=[tensor],
        peer=group.members[to],
    )  # fmt: skip
    return work.begin_message()


def _receiving(tensor: Any, group: ProcessGroup, source: int, tag: int) -> Work:
    elements = flat(tensor)

    def end() -> None:
        put(tensor, elements)
        wrote(tensor)
        if source == ANY:
            work.peer = group.members[work.came_from()]

    work = Work(
        "recv", group, lambda: group.transport.receive(elements, source, tag), end,
        result=[tensor], peer=None if source == ANY else group.members[source],
    )  # fmt: skip
    return work.begin_message()


def send_object_list(object_list: list[Any], dst: int | None = None, group: Any = None) -> None:
    """Send several objects, which are pickled."""
    from gradscope.runtime.distributed.calls.objects import counted, pickled

    data = [pickled(each) for each in object_list]
    found = resolved(group)
    to = _destination(found, dst, None)
    for elements in (counted(data), *data):
        start = partial(found.transport.send, elements, to, 0)
        Work("send", found, start, peer=found.members[to]).begin_message().wait()


def recv_object_list(object_list: list[Any], src: int | None = None, group: Any = None) -> int:
    """Receive several objects from a rank, into a list with as many elements."""
    from gradscope.runtime.distributed.calls.objects import empty, unpickled

    found = resolved(group)
    if src is None:
        raise ValueError("gradscope's runtime receives objects from a rank that is named: pass src")

    def received(elements: Any) -> Any:
        start = partial(found.transport.receive, elements, get_group_rank(found, src), 0)
        Work("recv", found, start, peer=src).begin_message().wait()
        return elements

    sizes = received(empty(len(object_list), "i8"))
    for at, size in enumerate(sizes.tolist()):
        object_list[at] = unpickled(received(empty(size)))
    return src
