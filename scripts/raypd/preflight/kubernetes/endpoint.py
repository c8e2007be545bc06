"""What is to carry requests into the cluster: Gateways and Ingress classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raypd.label_selector import selects
from raypd.lint.subject import error, mapping, sequence
from raypd.preflight.outcome import Idle, NotChecked, Outcome, Seen
from raypd.preflight.site import Site

Json = dict[str, Any]

_GATEWAYS = "/apis/gateway.networking.k8s.io/v1"
_CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


def gateways_take_routes(site: Site) -> Iterator[Outcome]:
    """Each Gateway that the HTTPRoute names is there and takes routes of the release's namespace."""
    routes = [m for m in site.rendered.manifests if m.get("kind") == "HTTPRoute"]
    if not routes:
        yield Idle("no HTTPRoute is made")
        return
    known = site.kube.case.facts.kinds
    for route in routes:
        if "HTTPRoute" not in (known.get(str(route.get("apiVersion"))) or {}):
            raise NotChecked("the cluster does not know the kind HTTPRoute (RPD681)")
        for i, parent in enumerate(map(mapping, sequence(route["spec"].get("parentRefs")))):
            if parent.get("kind", "Gateway") == "Gateway":
                yield from _gateway(site, parent, f"httpRoute.parentRefs[{i}]")


def _gateway(site: Site, parent: Json, path: str) -> Iterator[Outcome]:
    namespace = str(parent.get("namespace") or site.namespace)
    name = f"{namespace}/{parent['name']}"
    found = site.kube.get(f"{_GATEWAYS}/namespaces/{namespace}/gateways/{parent['name']}")
    if found is None:
        yield error(
            "RPD854",
            path,
            f"There is no Gateway {name}: the route stays without an address.",
            "A Gateway that is there: kubectl get gateways -A",
        )
        return
    section = parent.get("sectionName")
    listeners = [
        listener
        for listener in map(mapping, sequence(mapping(found.get("spec")).get("listeners")))
        if section in (None, listener.get("name"))
    ]
    if not any(_takes(site, listener, namespace) for listener in listeners):
        which = f"its listener {section}" if section else "no listener of it"
        yield error(
            "RPD855",
            path,
            f"The Gateway {name} is there, and {which} {'does not take' if section else 'takes'} "
            f"HTTPRoutes of namespace {site.namespace} (allowedRoutes).",
            "`allowedRoutes.namespaces` of a listener: `from: All`, or a selector that this "
            "namespace's labels meet.",
        )
        return
    yield Seen(name)


def _takes(site: Site, listener: Json, namespace: str) -> bool:
    """A listener without allowedRoutes takes routes of the Gateway's own namespace."""
    allowed = mapping(listener.get("allowedRoutes"))
    kinds = [mapping(kind).get("kind") for kind in sequence(allowed.get("kinds"))]
    if kinds and "HTTPRoute" not in kinds:
        return False
    if listener.get("protocol") not in ("HTTP", "HTTPS"):
        return False
    spaces = mapping(allowed.get("namespaces"))
    match spaces.get("from", "Same"):
        case "All":
            return True
        case "Selector":
            space = site.kube.case.facts.namespace or {}
            have = mapping(mapping(space.get("metadata")).get("labels"))
            return selects(mapping(spaces.get("selector")), have)
        case _:
            return namespace == site.namespace


def ingress_class_there(site: Site) -> Iterator[Outcome]:
    """The Ingress has a class, by name or by default."""
    ingresses = [m for m in site.rendered.manifests if m.get("kind") == "Ingress"]
    if not ingresses:
        yield Idle("no Ingress is made")
        return
    classes = {found["metadata"]["name"]: found for found in site.kube.list(_CLASSES)}
    default = [
        name
        for name, found in classes.items()
        if mapping(found["metadata"].get("annotations")).get(_DEFAULT) == "true"
    ]
    there = ", ".join(sorted(classes)) or "none, so install a controller"
    for ingress in ingresses:
        name = mapping(ingress.get("spec")).get("ingressClassName")
        if name in classes:
            yield Seen(str(name))
        elif name or not default:
            yield error(
                "RPD856",
                "ingress.className",
                f"There is no IngressClass {name}: nobody takes the Ingress."
                if name
                else "No class is named, and the cluster has no default one: nobody takes the Ingress.",
                f"One that is there: {there}.",
            )
        else:
            yield Seen(f"{default[0]} by default")


CHECKS = [
    ("Gateways of the HTTPRoute", gateways_take_routes),
    ("Ingress class", ingress_class_there),
]
