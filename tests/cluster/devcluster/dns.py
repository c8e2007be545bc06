"""CoreDNS as a daemon beside the control plane; the kubelets give its address to every pod."""

from __future__ import annotations

from cluster.devcluster.binaries import coredns
from cluster.devcluster.certificates import Authority
from cluster.devcluster.control_plane import server
from cluster.devcluster.layout import DOMAIN, Addresses
from cluster.devcluster.machine import Machine


def start(machine: Machine, addresses: Addresses, authority: Authority) -> None:
    kubeconfig = authority.kubeconfig(
        authority.folder / "coredns.kubeconfig", server(addresses), "coredns", ["system:masters"]
    )
    corefile = machine.folder / "Corefile"
    # Names outside the cluster do not exist, at once: nothing waits for a name server that is not
    # there. In a block of its own, because `template` comes before `kubernetes` within one.
    corefile.write_text(f"""\
{DOMAIN}:53 in-addr.arpa:53 {{
    bind {addresses.control_plane}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig} devcluster
        pods verified
        ttl 5
    }}
}}
.:53 {{
    bind {addresses.control_plane}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
""")
    machine.start("coredns", coredns(), "-conf", corefile)
