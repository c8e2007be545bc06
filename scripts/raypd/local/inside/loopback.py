"""`ray` on the loopback interface alone.

    python loopback.py start ...      (arguments of `ray`; runs in the CPU runtime's Python)

Given 127.0.0.1 as a node's address, `ray start` puts the machine's outward address in its place, and
Ray's servers, which ask for no password, then listen on every interface. That is right for a pod in
its own network, not for somebody's laptop. With the address kept, they listen on 127.0.0.1 only.
"""

import os
import sys

from ray._private import services

services.get_node_ip_address = lambda address=None: "127.0.0.1"
# For the processes that Ray starts from here: the switch that Ray has on macOS for the same purpose.
# It is set after the import, since `ray start` itself would refuse to join a cluster with it.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

if __name__ == "__main__":
    from ray.scripts.scripts import main

    sys.argv[0] = "ray"
    sys.exit(main())
