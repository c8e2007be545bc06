"""Free ports on the loopback interface, each handed out once."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from itertools import islice

from raypd.local.plan import HOST
from raypd.report import UsageError

# Below the range from which Linux takes the near end of outgoing connections (32768 and up): a port
# from there could be in use by the time that it is listened on.
_RANGE = range(23000, 32000)
_RANGES = range(10000, 19000)  # and below the ports that the chart gives to NIXL


def free_ports(count: int) -> list[int]:
    """`count` different free ports of 127.0.0.1, chosen at random so that runs side by side differ."""
    found: list[int] = []
    with ExitStack() as held:  # all are held until all are found
        for port in random.sample(_RANGE, k=len(_RANGE)):
            listener = held.enter_context(socket.socket())
            try:
                listener.bind((HOST, port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise UsageError(f"{HOST} has no {count} free ports in {_RANGE.start}..{_RANGE.stop - 1}.")


def free_ranges(count: int, length: int) -> list[int]:
    """First ports of `count` different ranges of `length` ports in which nobody listens, chosen at random
    below those that `free_ports` hands out: who takes a port there looks itself whether it is free."""
    starts = list(range(_RANGES.start, _RANGES.stop - length, length))
    random.shuffle(starts)
    free = (start for start in starts if all(map(_is_free, range(start, start + length))))
    found = list(islice(free, count))
    if len(found) < count:
        raise UsageError(
            f"{HOST} has no {count} ranges of {length} free ports in {_RANGES.start}..{_RANGES.stop - 1}."
        )
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True
