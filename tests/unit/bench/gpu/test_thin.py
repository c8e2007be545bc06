"""Kernels of other cards are taken out of a library, and nothing else is touched."""

from __future__ import annotations

import importlib.util
import struct
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[4] / "bench" / "gpu" / "thin.py"
PTX, CUBIN = 1, 2


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("thin", FILE)
    made = importlib.util.module_from_spec(spec)
    sys.modules["thin"] = made  # a dataclass looks its module up
    spec.loader.exec_module(made)
    yield made
    del sys.modules["thin"]


def code(kind: int, architecture: int) -> bytes:
    """An entry: a header of 64 bytes, and code that says what it is for."""
    body = f"{kind}/{architecture};".encode() * 4
    body += b"." * (-len(body) % 8)
    header = struct.pack("<HHIQ", kind, 0x101, 64, len(body)).ljust(28, b"\0")
    return (header + struct.pack("<I", architecture)).ljust(64, b"\0") + body


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(*containers: bytes, section: bytes = b".nv_fatbin") -> bytes:
    """A 64-bit ELF file with one section of containers, padded apart as linkers do."""
    content = (b"\0" * 8).join(containers)
    names = b"\0" + section + b"\0.shstrtab\0"
    start, at = 64, 64 + len(content)
    table = at + len(names)
    header = b"\x7fELF\x02\x01\x01".ljust(40, b"\0") + struct.pack("<Q", table)
    header = header.ljust(58, b"\0") + struct.pack("<HHH", 64, 3, 2)

    def entry(name: int, offset: int, size: int) -> bytes:
        return struct.pack("<IIQQQQ", name, 1, 0, 0, offset, size).ljust(64, b"\0")

    sections = bytes(64) + entry(1, start, len(content)) + entry(len(section) + 2, at, len(names))
    return header + content + names + sections


def thinned(module, tmp_path: Path, data: bytes) -> tuple[int, bytes]:
    file = tmp_path / "lib.so"
    file.write_bytes(data)
    return module.thin(file, 90), file.read_bytes()


def test_machine_code_of_the_card_stays_and_all_else_is_cleared(module, tmp_path) -> None:
    data = library(container(code(CUBIN, 80), code(CUBIN, 90), code(PTX, 90), code(CUBIN, 120)))
    cleared, left = thinned(module, tmp_path, data)
    assert b"2/90;" in left
    assert not any(other in left for other in (b"2/80;", b"1/90;", b"2/120;"))
    assert len(left) == len(data)
    assert cleared == sum(len(code(*e)) - 64 for e in ((CUBIN, 80), (PTX, 90), (CUBIN, 120)))


def test_headers_stay_so_that_the_driver_can_walk(module, tmp_path) -> None:
    data = library(container(code(CUBIN, 80), code(CUBIN, 90)), container(code(CUBIN, 90)))
    before = [[(e.kind, e.architecture) for e in c] for c in module.containers(data)]
    _, left = thinned(module, tmp_path, data)
    assert [[(e.kind, e.architecture) for e in c] for c in module.containers(left)] == before
    assert before == [[(CUBIN, 80), (CUBIN, 90)], [(CUBIN, 90)]]


def test_without_machine_code_the_newest_ptx_that_can_be_compiled_stays(module, tmp_path) -> None:
    data = library(container(code(PTX, 80), code(PTX, 89), code(PTX, 120), code(CUBIN, 80)))
    _, left = thinned(module, tmp_path, data)
    assert b"1/89;" in left
    assert not any(other in left for other in (b"1/80;", b"1/120;", b"2/80;"))


@pytest.mark.parametrize(
    "data", [b"#!/bin/sh\n", library(b"x" * 64, section=b".rodata"), library(b"")], ids=repr
)
def test_what_is_no_cuda_library_is_left_alone(module, tmp_path, data: bytes) -> None:
    assert thinned(module, tmp_path, data) == (0, data)
