"""One bridge in the control plane's machine, a wire from it to each node and to this host.

There is no route to the outside: packets to unknown addresses end at the control plane. The host
reaches nodes, pods and (through kube-proxy of the first node) services.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from ipaddress import ip_network

from cluster.devcluster.layout import Addresses, Node
from cluster.devcluster.machine import Machine, execute

BRIDGE = "nodes"


def host_link(addresses: Addresses) -> str:
    return f"raypd{addresses.second}"


def taken(addresses: Addresses) -> bool:
    """Whether this host already has a route into the range, which the cluster's would shadow."""
    ours = ip_network(addresses.network)
    words = execute(["ip", "-4", "route", "show", "table", "all"]).split()
    routes = [ip_network(word, strict=False) for word in words if _is_network(word)]
    return any(route.prefixlen > 0 and route.overlaps(ours) for route in routes)


def connect_host(addresses: Addresses, hub: Machine) -> None:
    """The bridge, with the control plane's address, and the wire to this host."""
    link = host_link(addresses)
    hub.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    hub.run(
        *("ip", "-batch", "-"),
        stdin=f"""\
link add {BRIDGE} type bridge
addr add {addresses.control_plane}/24 dev {BRIDGE}
link set {BRIDGE} up
""",
    )
    execute(
        ["ip", "link", "add", link, "type", "veth", "peer", "name", "host", "netns", str(hub.pid)]
    )
    hub.run("ip", "-batch", "-", stdin=f"link set host master {BRIDGE} up\n")
    execute(
        ["ip", "-batch", "-"],
        stdin=f"""\
addr add {addresses.host}/24 dev {link}
link set {link} up
route add {addresses.network} via {addresses.control_plane} dev {link}
""",
    )


def connect_nodes(
    addresses: Addresses, hub: Machine, machines: dict[str, Machine], nodes: list[Node]
) -> None:
    """A wire for each node, and the routes to the pods of each."""
    for node in nodes:
        machine = machines[node.name]
        machine.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        # The name of a namespace by pid is looked up on the host, where both are visible.
        target = f"/proc/{hub.pid}/ns/net"
        link = ["ip", "link", "add", node.name, "type", "veth", "peer", "name", "eth0"]
        execute(["nsenter", f"--net={target}", *link, "netns", str(machine.pid)])
        hub.run("ip", "-batch", "-", stdin=f"link set {node.name} master {BRIDGE} up\n")
        others = [f"route add {other.pods} via {other.address}" for other in nodes if other != node]
        lines = [
            f"addr add {node.address}/24 dev eth0",
            "link set eth0 up",
            # Services have addresses that no interface has: kube-proxy rewrites what is routable.
            f"route add default via {addresses.control_plane}",
            *others,
        ]
        machine.run("ip", "-batch", "-", stdin="\n".join(lines) + "\n")
    routes = [f"route add {node.pods} via {node.address}" for node in nodes]
    routes.append(f"route add {addresses.services} via {nodes[0].address}")
    hub.run("ip", "-batch", "-", stdin="\n".join(routes) + "\n")


def disconnect_host(addresses: Addresses) -> None:
    """The wire goes with its other end, but a moment later; a new cluster may want the name now."""
    with suppress(subprocess.SubprocessError, RuntimeError):
        execute(["ip", "link", "delete", host_link(addresses)])


def _is_network(word: str) -> bool:
    try:
        ip_network(word, strict=False)
    except ValueError:
        return False
    return True
