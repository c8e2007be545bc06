"""A cluster without nodes: the control plane, and KubeRay's operator as a daemon beside it.

For what needs no pod to run: what the operator says of a manifest, and the cost of clusters larger
than this machine, whose nodes are simulated.
"""

from __future__ import annotations

from cluster.devcluster import binaries, control_plane, kuberay, lifecycle, packages
from cluster.devcluster.api import wait
from cluster.devcluster.layout import Addresses
from cluster.devcluster.state import State

OPERATOR = "kuberay-operator"


def up(name: str, gates: str = "") -> State:
    """Makes the cluster and returns when its API answers and the operator is started; `gates` are
    the operator's feature gates ("NAME=true,...") where they differ from its defaults.
    `lifecycle.down` ends it."""
    packages.require()
    binaries.obtain_all()
    with lifecycle.begun(name) as cluster:
        hub, authority = lifecycle.start_control_plane(cluster)
        api = lifecycle.await_api(cluster, hub)
        kuberay.install_crds(api)
        wait("KubeRay's part of the API", lambda: kuberay.served(api), 60)
        kubeconfig = authority.kubeconfig(
            authority.folder / "operator.kubeconfig",
            control_plane.server(Addresses(cluster.second)),
            OPERATOR,
            ["system:masters"],
        )
        hub.start(
            OPERATOR,
            binaries.operator(),
            f"--kubeconfig={kubeconfig}",
            "--enable-leader-election=false",
            f"--feature-gates={gates}",
        )
    return cluster
