"""`raypd bench kv` on this machine: bytes that really move over NIXL, between two real processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psutil
import pytest

from raypd.bench import ends, kv
from raypd.bench.ends import Here
from raypd.bench.kv import Pieces, Question, measure
from raypd.toolchain import runtime_environment, runtime_python

# Whole buffers, blocks in no order, and a piece that does not divide the buffer of the largest.
LAYOUTS = (Pieces(1, 8 << 20), Pieces(64, 32 << 10), Pieces(3, 1 << 20))


def asked(fabrics: Sequence[str], layouts: Sequence[Pieces]) -> Question:
    def start(env: Mapping[str, str]) -> Here:
        return Here(runtime_python(), {**runtime_environment(), **env})

    chosen = {name: kv.FABRICS[name] for name in fabrics}
    return Question((start, start), "127.0.0.1", ["host"], chosen, layouts, time_limit=300)


@pytest.fixture(scope="module")
def measured() -> tuple[list[kv.Row], dict[str, str]]:
    versions: dict[str, str] = {}
    question = asked(["default", "tcp"], LAYOUTS)
    return list(measure(question, versions)), versions


def test_every_layout_moves_over_every_fabric(measured) -> None:
    # The worker compares every word that arrived with the target's, and a difference is an error.
    rows, _ = measured
    assert [(row["fabric"], row["descriptors"], row["error"]) for row in rows] == [
        (fabric, pieces.count, None) for fabric in ("default", "tcp") for pieces in LAYOUTS
    ]
    for row in rows:
        assert 0 < row["gb_per_s"] <= row["best_gb_per_s"] < 1000
        assert row["yardstick_gb_per_s"] > 0


def test_ucx_says_how_it_reads(measured) -> None:
    for row in measured[0]:
        if row["fabric"] == "tcp":
            assert row["path"] == "software emulation, tcp/lo"
        else:
            assert row["path"]


def test_the_versions_are_those_that_were_used(measured) -> None:
    _, versions = measured
    assert {"Python", "torch", "NIXL", "vLLM", "Ray", "UCX"} == set(versions)


def test_wrong_bytes_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    broken = ends.WORKER.read_text().replace(
        "order.astype(np.int64) * length", "0 * order.astype(np.int64)"
    )
    assert broken != ends.WORKER.read_text()
    worker = tmp_path / "worker.py"
    worker.write_text(broken)
    monkeypatch.setattr(ends, "WORKER", worker)
    (row,) = measure(asked(["default"], [Pieces(4, 4096)]), {})
    assert row["error"] == "RuntimeError: NIXL says DONE, but the bytes are not the target's."


def test_nothing_is_left_running(measured) -> None:
    assert not [p for p in psutil.Process().children() if str(ends.WORKER) in p.cmdline()]
