"""What the guard costs: the same stub engine with and without it, measured in turns.

    PYTHONPATH=scripts python3 scripts/bootstrap.py python bench/guard.py [--rounds N]

Each side is a server process of its own, on uvicorn of the CPU runtime as Ray Serve runs it (uvloop, httptools).
The engine behind sends a token every 50 ms, as often as Ray Serve LLM sends the tokens that it has gathered
(RAYLLM_MODEL_RESPONSE_BATCH_TIMEOUT_MS). What the guard adds to a request is the difference of the medians.
Throughput is tokens a second of all streams together, and CPU the server's own, which other load does not change much.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from raypd.toolchain.runtime import runtime_python

ROOT = Path(__file__).resolve().parents[1]
STREAMS = (1, 32, 128)
TOKENS, STEP = 32, 0.05
SIDES = ("without", "with")
SECONDS = 60.0  # within which a round has to be over

# Run by the CPU runtime's Python, which has uvicorn.
SERVER = """
import sys, uvicorn
from endpoint_guard.app import Guard
from endpoint_guard.settings import Settings
from unit.endpoint_guard.engine import MODEL, Engine

side, port, step = sys.argv[1:]
engine = Engine(step=float(step))
app = Guard(engine, (MODEL,), settings=Settings(in_flight=1024)) if side == "with" else engine
uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error", lifespan="off")
"""


@dataclass
class Measured:
    """Of one side with one number of streams: times in seconds, tokens a second, CPU seconds a request."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    throughput: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@contextmanager
def server(side: str) -> Iterator[tuple[int, psutil.Process]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = (ROOT / "charts/ray-pd-llm/files", ROOT / "tests")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [str(runtime_python()), "-c", SERVER, side, str(port), str(STEP)]
    process = subprocess.Popen(command, env=environment)
    try:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                sys.exit(f"The server {side} the guard ended with {process.returncode}.")
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(10)


async def stream(port: int, into: Measured) -> None:
    body = json.dumps(
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": "one two three " * 50}],
            "max_tokens": TOKENS,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
    request = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        began = time.perf_counter()
        writer.write(request.encode())
        content, first = b"", None
        while part := await reader.read(2**16):
            content += part
            if first is None and b'"content": " one"' in content.replace(b'":"', b'": "'):
                first = time.perf_counter() - began
        if first is None or content.count(b"data: ") != TOKENS + 3 or b"[DONE]" not in content:
            sys.exit(f"A stream was not answered as it should be: {content[-500:]!r}")
        into.first.append(first)
        into.whole.append(time.perf_counter() - began)
    finally:
        writer.close()


async def round_of(port: int, process: psutil.Process, streams: int, into: Measured) -> None:
    """Each stream asks several times in a row; they begin spread over the time of an answer, as they would after a while."""
    repeats = 2
    used = sum(process.cpu_times()[:2])

    async def one(number: int) -> None:
        await asyncio.sleep(TOKENS * STEP * number / streams)
        for _ in range(repeats):
            await stream(port, into)

    began = time.perf_counter()
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*map(one, range(streams)))
    took = time.perf_counter() - began
    into.throughput.append(streams * repeats * TOKENS / took)
    into.cpu.append((sum(process.cpu_times()[:2]) - used) / (streams * repeats))


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] * 1e3


def shown(results: dict[int, dict[str, Measured]], rounds: int) -> Table:
    title = (
        f"{TOKENS} tokens, one in {STEP * 1e3:.0f} ms; {rounds} rounds of each in turns;"
        " medians over rounds of throughput and CPU"
    )
    table = Table(title=title, title_justify="left")
    columns = "streams|guard|first token p50|p99 ms|whole p50|p99 ms|tokens/s|CPU ms/request"
    for name in columns.split("|"):
        table.add_column(name, justify="right")
    for streams, sides in results.items():
        rows = {}
        for side, of in sides.items():
            rows[side] = [
                percentile(of.first, 50),
                percentile(of.first, 99),
                percentile(of.whole, 50),
                percentile(of.whole, 99),
                statistics.median(of.throughput),
                statistics.median(of.cpu) * 1e3,
            ]
            table.add_row(str(streams), side, *(f"{value:.2f}" for value in rows[side]))
        cost = [b - a for a, b in zip(*(rows[side] for side in SIDES), strict=True)]
        share = statistics.median(
            b / a for a, b in zip(*(sides[side].throughput for side in SIDES), strict=True)
        )
        added = [f"{value:+.2f}" for value in cost]
        table.add_row("", "cost", *added[:4], f"{share:.1%}", added[5], end_section=True)
    return table


async def measure(rounds: int) -> dict[int, dict[str, Measured]]:
    results = {streams: {side: Measured() for side in SIDES} for streams in STREAMS}
    with server("without") as without, server("with") as guarded:
        servers = dict(zip(SIDES, (without, guarded), strict=True))
        for side in SIDES:
            await round_of(*servers[side], 8, Measured())  # warm
        for number in range(rounds):
            for streams in STREAMS:
                for side in SIDES if number % 2 else SIDES[::-1]:
                    await round_of(*servers[side], streams, results[streams][side])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    Console(width=110).print(shown(asyncio.run(measure(rounds)), rounds))


if __name__ == "__main__":
    main()
