"""A stand-in for kv_worker.py that moves nothing: it answers as the real one does, or misbehaves as
the number of pieces says."""

import json
import os
import sys
import time

role = None
for line in sys.stdin:
    request = json.loads(line)
    if role is None:
        role = request["role"]
        answer = {
            "metadata": "",
            "address": 0,
            "socket": ["127.0.0.1", 1],
            "versions": {"NIXL": "1"},
        }
        if request["backend"] == "LIBFABRIC":
            answer = {"error": "nixlNotFoundError: NIXL_ERR_NOT_FOUND"}
        print(
            "[1] | ucp_context_0 intra-node cfg#0 | remote memory read by ucp_get*(multi) into host\n"
            "[1] |            0..65536 | zero-copy              | cma/memory |\n"
            "[1] |          65537..inf | software emulation     | tcp/lo     |\n",
            file=sys.stderr,
            flush=True,
        )
    elif request["do"] == "read" and request["count"] == 13:
        time.sleep(60)
    elif request["do"] == "read" and request["count"] == 14:
        print("the driver is gone", file=sys.stderr, flush=True)
        os._exit(3)
    elif request["do"] == "read" and request["count"] == 15:
        answer = {"error": "RuntimeError: NIXL says DONE, but the bytes are not the target's"}
    elif request["do"] == "read":
        answer = {"prepare": 0.001, "first": 1.0, "seconds": [0.5, 0.4, 0.6]}
    else:
        answer = {"seconds": [0.2, 0.2, 0.2]}
    print(json.dumps(answer), flush=True)
