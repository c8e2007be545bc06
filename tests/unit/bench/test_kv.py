"""Fabrics and pieces, and what becomes of a measurement when a process misbehaves."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import psutil
import pytest

from raypd.bench import ends, kv
from raypd.bench.ends import Here
from raypd.bench.kv import Pieces, Question, measure, path_of, pieces_of
from raypd.bench.report import Results, Row
from raypd.report import UsageError

GOOD = Pieces(8, 1 << 20)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "WORKER", Path(__file__).with_name("worker.py"))


def asked(*layouts: Pieces, fabric: str = "default", seconds: float = 20, limit: float = 60):
    start = partial(Here, Path(sys.executable))
    fabrics = {fabric: kv.FABRICS[fabric]}
    return Question((start, start), "127.0.0.1", ["host"], fabrics, layouts, 4, seconds, limit)


def rows(question: Question) -> list[Row]:
    found = list(measure(question, {}))
    assert not [p for p in psutil.Process().children() if "worker.py" in " ".join(p.cmdline())]
    return found


def test_a_row_has_the_rate_and_its_share_of_a_plain_copy() -> None:
    (row,) = rows(asked(GOOD))
    assert row["gb_per_s"] == pytest.approx(8 * 2**20 / 0.5 / 1e9)
    assert row["best_gb_per_s"] == pytest.approx(8 * 2**20 / 0.4 / 1e9)
    assert row["share"] == pytest.approx(0.2 / 0.5)
    assert (row["yardstick"], row["error"], row["layout"]) == ("copy", None, "8 x 1 MiB")


def test_tcp_is_measured_against_a_plain_socket() -> None:
    (row,) = rows(asked(GOOD, fabric="tcp"))
    assert row["yardstick"] == "socket"
    assert row["yardstick_gb_per_s"] == pytest.approx(8 * 2**20 / 0.2 / 1e9)


def test_the_processes_tell_their_versions() -> None:
    versions: dict[str, str] = {}
    list(measure(asked(GOOD), versions))
    assert versions == {"NIXL": "1"}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (13, "Not done after 2 s, and ended."),
        (14, "The process ended with: the driver is gone"),
        (15, "RuntimeError: NIXL says DONE, but the bytes are not the target's."),
    ],
)
def test_one_bad_layout_leaves_the_others(bad: int, says: str) -> None:
    found = rows(asked(GOOD, Pieces(bad, 64), GOOD, seconds=2))
    assert [row["error"] for row in found] == [None, says, None]
    assert found[1]["gb_per_s"] is None


def test_a_backend_that_is_not_there_has_no_figure_for_any_layout() -> None:
    found = rows(asked(GOOD, GOOD, fabric="libfabric"))
    assert len(found) == 2
    for row in found:
        assert row["error"] == "The target did not start: nixlNotFoundError: NIXL_ERR_NOT_FOUND."


def test_what_is_left_at_the_time_limit_is_said_not_to_be_measured() -> None:
    found = rows(asked(Pieces(13, 64), GOOD, limit=2))
    assert "and ended" in found[0]["error"]
    assert found[1]["error"] == "Not measured: the time limit was reached."


def test_a_fabric_is_measured_only_in_the_memory_that_it_is_for() -> None:
    assert rows(asked(GOOD, fabric="cuda-ipc")) == []


@pytest.mark.parametrize(
    ("size", "path"),
    [(32768, "zero-copy, cma/memory"), (131072, "software emulation, tcp/lo")],
)
def test_the_path_is_that_of_the_piece_s_size(size: int, path: str) -> None:
    log = """
| ucp_context_0 intra-node cfg#1 | active message by ucp_am_send* from host memory    |
|                         0..inf | multi-frag copy-in                        | tcp/eth0 |
| ucp_context_0 intra-node cfg#1 | remote memory read by ucp_get*(multi) into host memory from host |
|                       0..65536 | zero-copy              | cma/memory |
|                     65537..inf | software emulation     | tcp/lo     |
| ucp_context_0 intra-node cfg#1 | remote memory write by ucp_put* from host memory to host |
|                         0..inf | zero-copy              | tcp/eth0   |
"""
    assert path_of(log, size) == path


def test_no_path_where_ucx_says_nothing() -> None:
    assert path_of("", 8) is None


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("4608x128KiB", Pieces(4608, 131072)),
        ("1 x 604MiB", Pieces(1, 604 << 20)),
        ("3x8", Pieces(3, 8)),
    ],
)
def test_descriptors_are_read(text: str, pieces: Pieces) -> None:
    assert pieces_of(text) == pieces


@pytest.mark.parametrize("text", ["", "x", "4608", "0x8", "2x0", "2x0KiB", "1x7", "1x1KB", "-1x8"])
def test_descriptors_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--descriptors"):
        pieces_of(text)


def test_layouts_of_the_same_prompt_are_of_the_same_size() -> None:
    assert {layout.bytes for layout in kv.LAYOUTS} == {4096 * 147_456}


def test_a_picture_for_each_memory_that_has_figures() -> None:
    common = {"fabric": "default", "bytes_each": 8, "yardstick": "copy", "yardstick_gb_per_s": 2.0}
    made = kv.draw(
        Results(
            command="",
            versions={},
            hardware={},
            rows=[
                {"memory": "host", "gb_per_s": 1.0, **common},
                {"memory": "vram", "gb_per_s": None, **common},
            ],
        )
    )
    assert list(made) == ["kv-host"]
