"""What went over a pod's network adapters: EFA's hardware counters, and those of its TCP interfaces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raypd.live.served import container
from raypd.report import UsageError

if TYPE_CHECKING:
    from raypd.live.cluster import Cluster

Json = dict[str, Any]

# Names of counters: efa_verbs.c of the Linux driver. Without RDMA read, libfabric reads by messages.
_RECEIVED, _SENT = ("rdma_read_bytes", "rx_bytes"), ("rdma_read_resp_bytes", "tx_bytes")
_READ = """
for file in /sys/class/infiniband/*/ports/*/hw_counters/*; do
  [ -r "$file" ] && echo "$file $(cat "$file" 2>/dev/null)"
done
cat /proc/net/dev
"""


@dataclass(frozen=True)
class Traffic:
    """Sums since boot: `efa` by counter over all adapters, TCP's bytes over all interfaces but lo.

    `adapters` are the RDMA devices in the pod; `why` says why nothing is known, "" when it is.
    """

    adapters: frozenset[str] = frozenset()
    efa: dict[str, int] = field(default_factory=dict)
    tcp_received: int = 0
    why: str = ""

    def efa_received(self, before: Traffic) -> int:
        """Bytes that came over EFA since `before`, by RDMA reads or by messages."""
        return max(self.efa.get(name, 0) - before.efa.get(name, 0) for name in _RECEIVED)

    def efa_sent(self, before: Traffic) -> int:
        """Bytes that went over EFA since `before`, as answers to RDMA reads or as messages."""
        return max(self.efa.get(name, 0) - before.efa.get(name, 0) for name in _SENT)


def read(cluster: Cluster, namespace: str, pod: Json) -> Traffic:
    """The pod's counters now; `why` is set when they cannot be read."""
    name, inside = pod["metadata"]["name"], container(pod)["name"]
    try:
        return parse(cluster.exec(namespace, name, inside, ["sh", "-c", _READ]))
    except UsageError as error:
        return Traffic(why=str(error))


def parse(text: str) -> Traffic:
    """The same from what was read: lines "PATH VALUE", then /proc/net/dev."""
    adapters: set[str] = set()
    efa: Counter[str] = Counter()
    tcp = 0
    for line in text.splitlines():
        head, _, rest = line.strip().partition(" ")
        if head.startswith("/sys/class/infiniband/"):
            parts = head.split("/")
            adapters.add(parts[4])
            if rest.strip().isdigit():
                efa[parts[-1]] += int(rest)
        elif ":" in line:
            # "  eth0: BYTES PACKETS ...", where the blank after the colon may be missing.
            interface, _, columns = line.partition(":")
            if interface.strip() != "lo":
                tcp += int(columns.split()[0])
    return Traffic(frozenset(adapters), dict(efa), tcp)
