"""All checks by where they look, and a run of them, those that wait for the network side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from raypd.preflight import hub, image
from raypd.preflight.aws import (
    ami,
    capacity,
    filesystems,
    identity,
    network,
    offerings,
    placement,
    prices,
    quotas,
)
from raypd.preflight.kubernetes import apply, devices, endpoint, existing, monitoring, volumes
from raypd.preflight.outcome import Idle, NotChecked, Outcome, Seen
from raypd.preflight.site import Site
from raypd.report import Finding, Report

_SIDE_BY_SIDE = 12


@dataclass(frozen=True)
class Check:
    """One thing that is looked at: `side` is where, `title` what, as a report says it."""

    side: str
    title: str
    function: Callable[[Site], Iterator[Outcome]]

    @property
    def name(self) -> str:
        """The function's name as people read it: "vcpu-quotas"."""
        return self.function.__name__.replace("_", "-")


_SIDES = {
    "AWS": (identity, quotas, offerings, capacity, network, placement, ami, filesystems, prices),
    "registry": (image,),
    "Hugging Face": (hub,),
    "Kubernetes": (existing, apply, devices, volumes, endpoint, monitoring),
}
CHECKS = [
    Check(side, title, function)
    for side, modules in _SIDES.items()
    for module in modules
    for title, function in module.CHECKS
]


class Preflight(Report):
    """A report that also says how many of the checks were made in full: `made` of `total`, which are
    those with something to look at."""

    made: int = 0
    total: int = 0

    @property
    def exit_code(self) -> int:
        """As of any report; 2 where there is no error and not one check could be made, since that is
        no pass."""
        return super().exit_code or (0 if self.made else 2)

    def _verdict(self) -> str:
        verdict = super()._verdict() if self.findings or self.made else "Nothing was checked."
        if self.made == self.total:
            return verdict
        return f"{verdict} {self.made} of {self.total} checks were made in full."


def run(site: Site, checks: list[Check] | None = None) -> Preflight:
    """Makes the checks (None means all) and reports on them in their order."""
    chosen = CHECKS if checks is None else checks
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as workers:
        results = list(workers.map(lambda check: _outcomes(check, site), chosen))
    report = Preflight()
    unseen: dict[tuple[str, str], list[str]] = {}
    for check, outcomes in zip(chosen, results, strict=True):
        seen = [outcome.text for outcome in outcomes if isinstance(outcome, Seen)]
        findings = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
        reasons = [str(outcome) for outcome in outcomes if isinstance(outcome, NotChecked)]
        report.findings += findings
        if seen or findings or not reasons:
            told = f": {'; '.join(seen)}" if seen else ""
            report.checked.append(f"{check.side}, {check.title}{told}")
        if not outcomes or not all(isinstance(outcome, Idle) for outcome in outcomes):
            report.total += 1
            report.made += not reasons
        for reason in dict.fromkeys(reasons):
            unseen.setdefault((check.side, reason), []).append(check.title)
    report.not_checked += [
        f"{side}, {'; '.join(titles)}: {reason}" for (side, reason), titles in unseen.items()
    ]
    return report


def _outcomes(check: Check, site: Site) -> list[Outcome]:
    outcomes: list[Outcome] = []
    try:
        for outcome in check.function(site):
            outcomes.append(outcome)
    except NotChecked as reason:
        outcomes.append(reason)
    return outcomes
