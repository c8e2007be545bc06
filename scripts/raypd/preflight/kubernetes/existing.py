"""What `raypd up` looks at before it installs, each as a check of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from raypd.live.install import preconditions
from raypd.live.install.facts import RAY_API
from raypd.live.install.preconditions import Case
from raypd.preflight.outcome import NotChecked, Outcome
from raypd.preflight.site import Site

# What a check reads, by the beginnings of the names that `facts.gather` gives to what may not be read.
_READS: dict[str, tuple[str, ...]] = {
    "ray_api_present": (RAY_API,),
    "no_field_dropped": ("the RayService CRD",),
    "operator_there": ("KubeRay's operator",),
    "operator_running": ("KubeRay's operator",),
    "operator_not_too_old": ("KubeRay's operator",),
    "operator_of_known_version": ("KubeRay's operator",),
    "operator_watches_namespace": ("KubeRay's operator",),
    "operator_let_in": ("KubeRay's operator", "the operator's namespace"),
    "namespace_stays": ("the namespace",),
    "namespace_admits_pods": ("the namespace",),
    "references_there": (
        *("Secret ", "ConfigMap ", "PersistentVolumeClaim "),
        *("ServiceAccount ", "PriorityClass "),
    ),
    "claims_reach_every_node": ("PersistentVolumeClaim ",),
    "storage_class_there": ("storage classes",),
    "storage_class_fits": ("storage classes", "CSI drivers"),
    "room_for_pods": ("nodes", "pods of all namespaces", "node autoscalers"),
}
# Nothing of it can be looked at where there is no operator.
_OF_OPERATOR = {name for name, reads in _READS.items() if "KubeRay's operator" in reads} - {
    "operator_there"
}


def _wrapped(function: preconditions.Check) -> Callable[[Site], Iterator[Outcome]]:
    name = function.__name__

    def check(site: Site) -> Iterator[Outcome]:
        case: Case = site.kube.case
        unseen = {
            what: why
            for what, why in case.facts.unseen.items()
            if what.startswith(_READS.get(name, ()))
        }
        yield from function(case)
        for what, why in unseen.items():
            yield NotChecked(f"{what}: {why}")
        if not unseen and name in _OF_OPERATOR and case.facts.operator is None:
            yield NotChecked("there is no KubeRay operator")

    check.__name__ = name
    check.__doc__ = function.__doc__
    return check


CHECKS = [(title, _wrapped(function)) for title, function in preconditions.CHECKS]
