"""Which ranges of addresses are free on this host."""

from __future__ import annotations

import pytest

from cluster.devcluster import network
from cluster.devcluster.layout import Addresses

ROUTES = """\
default via 192.0.2.1 dev eth0
192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2
10.78.0.0/16 via 10.78.0.1 dev raypd78
10.96.0.0/11 via 192.0.2.9 dev eth0
local 10.79.1.5 dev eth1 table local proto kernel scope host src 10.79.1.5
"""


@pytest.mark.parametrize(
    ("second", "taken"), [(77, False), (78, True), (79, True), (97, True), (80, False)]
)
def test_a_route_into_the_range_takes_it(monkeypatch, second, taken):
    monkeypatch.setattr(network, "execute", lambda command: ROUTES)
    assert network.taken(Addresses(second)) is taken


def test_a_link_name_is_short_enough_for_the_kernel():
    assert len(network.host_link(Addresses(255))) < 16
