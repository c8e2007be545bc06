"""What the pinned versions of Ray, vLLM and NIXL accept, from data/contracts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from raypd import data

Part = Literal["ray", "vllm", "nixl"]
PARTS: tuple[Part, ...] = get_args(Part)
NAMES: dict[Part, str] = {"ray": "Ray", "vllm": "vLLM", "nixl": "NIXL"}


@dataclass(frozen=True)
class Contract:
    """The contracts of one set of versions; `ray_version` is the Ray that it was chosen for, whether
    there is a contract of it or not.
    """

    ray_version: str
    ray: dict[str, Any]
    vllm: dict[str, Any]
    nixl: dict[str, Any]

    @property
    def known(self) -> bool:
        """The contract is that of the version asked for, and not only the nearest there is."""
        return self.ray_version in known_versions()

    @property
    def versions(self) -> str:
        """For reports: what was checked against."""
        ray, vllm, nixl = (f"{NAMES[part]} {self.version_of(part)}" for part in PARTS)
        return f"{ray}, {vllm} and {nixl}"

    def version_of(self, part: Part) -> str:
        """The version of one of the three that is described. Patch releases that take the same
        arguments share one file, and then it is the version asked for.
        """
        if part == "ray" and self.known:
            return self.ray_version
        return getattr(self, part)["source"][part]

    def ray_schema(self, name: str) -> dict[str, Any]:
        """A definition of Ray's contract as a schema that stands by itself."""
        return {"$ref": f"#/$defs/{name}", "$defs": self.ray["$defs"]}

    def engine_schema(self) -> dict[str, Any]:
        """vLLM's engine and front-end arguments."""
        return {"$ref": "#/$defs/EngineKwargs", "$defs": self.vllm["$defs"]}

    def builder_arguments(self, import_path: Any) -> str | None:
        """The definition of a builder's arguments, by import path in either of Python's two forms;
        None for a builder that is not Ray Serve LLM's.
        """
        module, _, name = str(import_path).rpartition(".")
        builders = self.ray["builders"]
        return builders.get(str(import_path)) or builders.get(f"{module}:{name}")


def known_versions() -> list[str]:
    """Every Ray version that has a contract, oldest first."""
    return sorted(data.load("contracts/sets.yaml")["ray"], key=_numbers)


def default_version() -> str:
    """The Ray of the chart's default image."""
    return data.load("contracts/sets.yaml")["default"]


@cache
def contract_for(ray_version: str) -> Contract:
    """The contract of a Ray version; where there is none, that of the newest known one that is not
    newer, and the default one for what is no version at all.
    """
    chosen = data.load("contracts/sets.yaml")["ray"][_nearest(ray_version)]
    return Contract(
        ray_version=ray_version,
        ray=_read(f"ray-{chosen['ray']}.json"),
        vllm=_read(f"vllm-{chosen['vllm']}.json"),
        nixl=_read(f"nixl-{chosen['nixl']}.json"),
    )


def _nearest(ray_version: str) -> str:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})+", ray_version):
        return default_version()
    known, asked = known_versions(), (*_numbers(ray_version), 0)  # 2.58 is 2.58.0
    not_newer = [version for version in known if _numbers(version) <= asked]
    return not_newer[-1] if not_newer else known[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _read(name: str) -> dict[str, Any]:
    return json.loads(files(data).joinpath("contracts", name).read_text(encoding="utf-8"))
