"""Free ports on the loopback interface, each handed out once."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from raypd.local.plan import HOST
from raypd.report import UsageError

# Below the range from which Linux takes the near end of outgoing connections (32768 and up): a port
# from there could be in use by the time that it is listened on.
_RANGE = range(23000, 32000)


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
