"""Which other versions of Ray, vLLM or NIXL know a thing that the one under check does not.

The contracts of all versions are read for it, so ask only once there is a finding.
"""

from __future__ import annotations

from collections.abc import Callable

from raypd.lint.contract import NAMES, Contract, Part, contract_for, known_versions


def known_elsewhere(contract: Contract, part: Part, knows: Callable[[Contract], bool]) -> str:
    """A sentence, with a blank before it, on the versions of `part` whose contract `knows` the thing;
    empty where none does: " vLLM 0.27.0 (Ray 2.59.0) was the last to know it."
    """
    by_version: dict[str, Contract] = {}  # oldest first; the newest Ray of each version of the part
    for ray_version in known_versions():
        other = contract_for(ray_version)
        by_version[other.version_of(part)] = other
    versions = list(by_version)
    here = versions.index(contract.version_of(part))
    later = [version for version in versions[here + 1 :] if knows(by_version[version])]
    earlier = [version for version in versions[:here] if knows(by_version[version])]

    def named(version: str) -> str:
        with_ray = "" if part == "ray" else f" (Ray {by_version[version].ray_version})"
        return f"{NAMES[part]} {version}{with_ray}"

    if later:
        return f" {named(later[0])} {'and later know' if later[1:] else 'knows'} it."
    if earlier:
        return f" {named(earlier[-1])} was the last to know it."
    return ""
