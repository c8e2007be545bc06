"""One real run for each mode, shared by all tests of the session: Ray, vLLM and NIXL on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from raypd.local import state, verb
from raypd.local.state import State
from raypd.render import ValueArguments

HERE = Path(__file__).parent
LOCAL_CPU = HERE.parents[1] / "values" / "local-cpu.yaml"
WAIT_SECONDS = 600  # of a start; a quiet machine needs 60, one with other work several times that


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("local", "engines on this machine")
    group.addoption("--write-conformance", type=Path, help="a page for test_conformance.py's table")


def serving(name: str, set_: list[str], files: Sequence[Path] = ()) -> Iterator[State]:
    if (old := state.find(name)) is not None:
        state.end(old)
    arguments = ValueArguments(list(files), set_, [], [], [])
    run = verb.start(None, arguments, name, WAIT_SECONDS, verb.Stages())
    try:
        yield run
    finally:
        state.end(run)


@pytest.fixture(scope="session")
def disaggregated() -> Iterator[State]:
    """A run with prefill and decode apart, the chart's default mode, and keys at the endpoint."""
    yield from serving("test-disaggregated", [], [LOCAL_CPU, HERE / "guarded.yaml"])


@pytest.fixture
def unguarded() -> Iterator[State]:
    """The same behind Ray's own ingress, for one test: two such runs at a time are too much for two cores."""
    yield from serving("test-unguarded", ["endpoint.guard.enabled=false"])


@pytest.fixture(scope="module")
def aggregated() -> Iterator[State]:
    """A run with one engine that does both."""
    yield from serving("test-aggregated", ["topology.mode=aggregated"])
