"""Takes the GPU code of other cards out of a CUDA library, in place.

A library holds its kernels once for each architecture, in containers in the section .nv_fatbin. What
the card does not run is overwritten with zeros: nothing moves, the headers that the driver walks by
stay, and the zeros compress to nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Of a container: magic, version, size of this header, size of the entries after it.
_CONTAINER = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
# Of an entry: kind, version, size of this header, size of the code; the architecture is at byte 28.
_ENTRY = struct.Struct("<HHIQ")
_ARCHITECTURE = 28
_PTX, _CUBIN = 1, 2


@dataclass(frozen=True)
class Entry:
    """Code for one architecture: PTX or machine code, at these bytes of the file."""

    kind: int
    architecture: int
    start: int
    size: int


def thin(library: Path, architecture: int) -> int:
    """Keeps machine code of `architecture` (90 for 9.0) where a container has it, else the newest PTX
    that the driver can compile for it. Returns the number of bytes cleared; 0 for what is no CUDA
    library."""
    data = bytearray(library.read_bytes())
    cleared = 0
    for entries in containers(data):
        kept = _kept(entries, architecture)
        for entry in entries:
            if entry not in kept:
                data[entry.start : entry.start + entry.size] = bytes(entry.size)
                cleared += entry.size
    if cleared:
        library.write_bytes(data)
    return cleared


def containers(data: bytes | bytearray) -> Iterator[list[Entry]]:
    """The entries of each container of a library."""
    for start, size in _fatbin_sections(data):
        at, end = start, start + size
        while at + _CONTAINER.size <= end:
            magic, _, header, length = _CONTAINER.unpack_from(data, at)
            if magic != _MAGIC:
                at += 8  # padding between containers
                continue
            yield list(_entries(data, at + header, at + header + length))
            at += header + length


def _entries(data: bytes | bytearray, at: int, end: int) -> Iterator[Entry]:
    while at < end:
        kind, _, header, size = _ENTRY.unpack_from(data, at)
        (architecture,) = struct.unpack_from("<I", data, at + _ARCHITECTURE)
        yield Entry(kind, architecture, at + header, size)
        at += header + size


def _kept(entries: list[Entry], architecture: int) -> list[Entry]:
    cubins = [e for e in entries if e.kind == _CUBIN and e.architecture == architecture]
    if cubins:
        return cubins
    ptx = [e for e in entries if e.kind == _PTX and e.architecture <= architecture]
    newest = max((e.architecture for e in ptx), default=0)
    return [e for e in ptx if e.architecture == newest]


def _fatbin_sections(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Offset and size of each section .nv_fatbin of a 64-bit ELF file."""
    if data[:5] != b"\x7fELF\x02":
        return
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    if not sections:
        return
    strings = sections[names][4]
    for name, _, _, _, offset, length in sections:
        end = data.index(b"\0", strings + name)
        if data[strings + name : end] == b".nv_fatbin":
            yield offset, length
