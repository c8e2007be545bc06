"""The way from KubeRay's operator to the head, past the NetworkPolicies of a release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from raypd.lint.subject import mapping
from raypd.live.snapshot import DASHBOARD_PORT
from raypd.network_policy import NAME_LABEL, Caller, admits

if TYPE_CHECKING:
    from raypd.render import Rendered

Json = dict[str, Any]


def policies(rendered: Rendered) -> list[Json]:
    """The NetworkPolicies that the release makes."""
    return [m for m in rendered.manifests if m.get("kind") == "NetworkPolicy"]


def head_labels(rendered: Rendered) -> Json:
    """The labels of its head's pod."""
    cluster = mapping(mapping(rendered.rayservice.get("spec")).get("rayClusterConfig"))
    template = mapping(mapping(cluster.get("headGroupSpec")).get("template"))
    return mapping(mapping(template.get("metadata")).get("labels"))


def shuts_out(
    made: Iterable[Json], namespace: str, head: Json, operator: Json, space: Json | None
) -> bool:
    """Whether policies of `namespace` keep the operator, a Deployment, from Ray's dashboard on a head with
    the labels `head`. `space` is the operator's Namespace, None where it is not known."""
    template = mapping(mapping(operator.get("spec")).get("template"))
    caller = Caller(
        str(operator["metadata"]["namespace"]),
        mapping(mapping(template.get("metadata")).get("labels")) or None,
        mapping(mapping((space or {}).get("metadata")).get("labels")),
    )
    return not admits(made, namespace, head, caller, DASHBOARD_PORT)


def remedy(operator: Json) -> str:
    """The value that lets the operator in."""
    namespace = operator["metadata"]["namespace"]
    return (
        "`networkPolicy.operator: [{namespaceSelector: {matchLabels: "
        f"{{{NAME_LABEL}: {namespace}}}}}}}]`, or `networkPolicy.enabled: false` where every pod of the "
        "cluster may use Ray's dashboard."
    )
