"""What stands between an engine and its clients, measured with an engine of constant speed (steady_engine.py).

    PYTHONPATH=scripts python3 scripts/bootstrap.py python bench/endpoint.py [--rounds N] [--step MS] [SIDE ...]

Each side is the chart's render with one engine, served here by `raypd local up`; one after the other, all of them
once in each round. The sides are

    guard        the chart's endpoint, which gathers the tokens of an answer for 50 ms, as Ray does by itself
    guard-0      each token is sent as it is made
    ray, ray-0   the same behind Ray's own ingress
    direct       Ray's direct streaming, with the guard in the engine: HAProxy asks the engine's replica, and there
                 is no ingress (endpoint.directStreaming)
    direct-bare  the same without the guard

CPU is that of the processes which a request passes, by psutil, per token: it says how many tokens a second a core
can hand on, and other load does not change it much.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml
from rich.console import Console
from rich.table import Table

from raypd.local import state

ROOT = Path(__file__).resolve().parents[1]
NAME = "bench-endpoint"
STREAMS = (1, 16, 64)
TOKENS = 64
SECONDS = 120.0  # within which the streams of a round have to be over
SIDES = ("guard", "guard-0", "ray", "ray-0", "direct", "direct-bare")
PROCESSES = {
    ":LLMServer:": "engine",
    ":OpenAiIngress": "ingress",
    ":LLMRouter": "router",
    "ProxyActor": "proxy",
    "HAProxyManager": "proxy",
    "/haproxy ": "proxy",
}
_ERR = Console(stderr=True)


@dataclass
class Measured:
    """Of one side with one number of streams: seconds, tokens a second, CPU seconds of a token by process."""

    first: list[float] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    throughput: list[float] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)


def manifest(side: str, step: float) -> str:
    """What the chart renders for this side."""
    interval = {"RAYLLM_MODEL_RESPONSE_BATCH_TIMEOUT_MS": 0} if side.endswith("-0") else {}
    guarded = side.startswith("guard") or side == "direct"
    values = {
        "topology": {"mode": "aggregated"},
        "endpoint": {
            "directStreaming": side.startswith("direct"),
            "guard": {"enabled": guarded, "inFlight": 64},
        },
        "model": {
            "env": {
                "STEADY_STEP": step,
                "PYTHONPATH": os.pathsep.join(["/opt/ray-pd-llm", str(ROOT / "bench")]),
                **interval,
            }
        },
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values, file)
        file.flush()
        files = ["-f", str(ROOT / "values/local-cpu.yaml"), "-f", file.name]
        done = subprocess.run(
            [sys.executable, "-m", "raypd", "render", *files], capture_output=True, text=True
        )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return with_steady_engine(
        done.stdout, "GuardedSteadyEngine" if side == "direct" else "SteadyEngine"
    )


def with_steady_engine(rendered: str, class_: str) -> str:
    """The render with that class in vLLM's place, which the chart leaves to nobody where it is the guard's."""
    documents = list(yaml.safe_load_all(rendered))
    (rayservice,) = (d for d in documents if d and d["kind"] == "RayService")
    for group in rayservice["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        container = group["template"]["spec"]["containers"][0]
        kept = [each for each in container["env"] if each["name"] != "RAYLLM_VLLM_ENGINE_CLS"]
        variable = {"name": "RAYLLM_VLLM_ENGINE_CLS", "value": f"steady_engine:{class_}"}
        container["env"] = [*kept, variable]
    return yaml.safe_dump_all(documents)


@contextmanager
def served(side: str, step: float) -> Iterator[state.State]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(manifest(side, step))
        file.flush()
        command = [sys.executable, "-m", "raypd", "local"]
        try:
            options = ["--manifest", file.name, "--name", NAME, "--wait", "240"]
            up = subprocess.run([*command, "up", *options], stdout=subprocess.DEVNULL)
            if up.returncode:
                sys.exit(f"{side} does not serve.")
            yield state.need(NAME)
        finally:
            subprocess.run([*command, "down", "--name", NAME], stdout=subprocess.DEVNULL)


def cpu(run: state.State) -> dict[str, float]:
    """CPU seconds so far of what a request passes."""
    used: dict[str, float] = {}
    for process in run.processes():
        try:
            name = " ".join(process.cmdline())
            kind = next((kind for part, kind in PROCESSES.items() if part in name), None)
            if kind:
                used[kind] = used.get(kind, 0.0) + sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
    return used


async def stream(host: str, port: int, model: str, into: Measured) -> None:
    asked: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": "one two three " * 50}],
        "max_tokens": TOKENS,
        "stream": True,
    }
    body = json.dumps(asked)
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    )
    reader, writer = await asyncio.open_connection(host, port)
    try:
        last = began = time.perf_counter()
        writer.write(request.encode())
        content = b""
        while part := await reader.read(2**16):
            content += part
            if b'"content"' in part:
                now = time.perf_counter()
                (into.pauses if last > began else into.first).append(now - last)
                last = now
        if content.count(b'"content"') != TOKENS or b"[DONE]" not in content:
            sys.exit(f"A stream was not answered as it should be: {content[-500:]!r}")
    finally:
        writer.close()


async def load(run: state.State, streams: int, step: float, into: Measured) -> None:
    """Each stream asks three times in a row; they begin spread over the time of an answer."""
    repeats = 3
    host, port = run.endpoint.removeprefix("http://").split("/")[0].split(":")
    before = cpu(run)

    async def one(number: int) -> None:
        await asyncio.sleep(TOKENS * step * number / streams)
        for _ in range(repeats):
            await stream(host, int(port), run.model_id, into)

    began = time.perf_counter()
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*map(one, range(streams)))
    took = time.perf_counter() - began
    tokens = streams * repeats * TOKENS
    into.throughput.append(tokens / took)
    into.cpu.append(
        {kind: (used - before.get(kind, 0)) / tokens for kind, used in cpu(run).items()}
    )


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] * 1e3


def shown(results: dict[str, dict[int, Measured]], step: float, rounds: int) -> Table:
    title = (
        f"{TOKENS} tokens, one in {step * 1e3:g} ms; {rounds} rounds; CPU in microseconds of one token,"
        " medians over rounds"
    )
    table = Table(title=title, title_justify="left")
    kinds = ("engine", "ingress", "router", "proxy")
    columns = ["streams", "side", "first token p50", "p99 ms", "pause p50", "p99 ms", "tokens/s"]
    for name in (*columns, *(f"CPU {kind}" for kind in kinds), "all"):
        table.add_column(name, justify="right")
    for streams in STREAMS:
        for side, by_streams in results.items():
            of = by_streams[streams]
            used = [statistics.median(cpu.get(kind, 0.0) for cpu in of.cpu) * 1e6 for kind in kinds]
            figures = [
                percentile(of.first, 50),
                percentile(of.first, 99),
                percentile(of.pauses, 50),
                percentile(of.pauses, 99),
            ]
            table.add_row(
                str(streams),
                side,
                *(f"{figure:.1f}" for figure in figures),
                f"{statistics.median(of.throughput):,.0f}",
                *(f"{figure:.0f}" if figure else "" for figure in used),
                f"{sum(used):.0f}",
            )
        table.add_section()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sides", nargs="*", default=SIDES, metavar="SIDE", help=", ".join(SIDES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--step", type=float, default=20, help="milliseconds from token to token")
    asked = parser.parse_args()
    if unknown := set(asked.sides) - set(SIDES):
        parser.error(f"{', '.join(sorted(unknown))}: there are {', '.join(SIDES)}")
    step = asked.step / 1e3
    results = {side: {streams: Measured() for streams in STREAMS} for side in asked.sides}
    for number in range(asked.rounds):
        for side in asked.sides if number % 2 == 0 else asked.sides[::-1]:
            with served(side, step) as run, _ERR.status(f"round {number + 1}, {side}"):
                asyncio.run(load(run, 4, step, Measured()))  # warm
                for streams in STREAMS:
                    asyncio.run(load(run, streams, step, results[side][streams]))
    Console(width=130).print(shown(results, step, asked.rounds))


if __name__ == "__main__":
    main()
