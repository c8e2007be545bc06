"""What the pinned versions of Ray, vLLM and NIXL accept, from data/contracts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from raypd import data


@dataclass(frozen=True)
class Contract:
    """The contracts of one set of versions; `ray_version` is the Ray that it was chosen for."""

    ray_version: str
    ray: dict[str, Any]
    vllm: dict[str, Any]
    nixl: dict[str, Any]

    @property
    def known(self) -> bool:
        """The contract is that of the version asked for, and not only the nearest there is."""
        return self.ray_version == self.ray["source"]["ray"]

    @property
    def versions(self) -> str:
        """For reports: what was checked against."""
        ray, vllm, nixl = (
            part["source"][name]
            for name, part in (("ray", self.ray), ("vllm", self.vllm), ("nixl", self.nixl))
        )
        return f"Ray {ray}, vLLM {vllm} and NIXL {nixl}"

    def ray_schema(self, name: str) -> dict[str, Any]:
        """A definition of Ray's contract as a schema that stands by itself."""
        return {"$ref": f"#/$defs/{name}", "$defs": self.ray["$defs"]}

    def engine_schema(self) -> dict[str, Any]:
        """vLLM's engine and front-end arguments."""
        return {"$ref": "#/$defs/EngineKwargs", "$defs": self.vllm["$defs"]}


@cache
def contract_for(ray_version: str) -> Contract:
    """The contract that goes with a Ray version; the default set where that version is not known."""
    sets = data.load("contracts/sets.yaml")
    chosen = sets["ray"].get(ray_version, sets["ray"][sets["default"]])
    return Contract(
        ray_version=ray_version,
        ray=_read(f"ray-{chosen['ray']}.json"),
        vllm=_read(f"vllm-{chosen['vllm']}.json"),
        nixl=_read(f"nixl-{chosen['nixl']}.json"),
    )


def _read(name: str) -> dict[str, Any]:
    return json.loads(files(data).joinpath("contracts", name).read_text(encoding="utf-8"))
