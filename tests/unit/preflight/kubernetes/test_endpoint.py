"""Gateways and Ingress classes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypd.preflight.kubernetes.endpoint import (
    gateways_take_routes,
    ingress_class_there,
    selects,
)
from raypd.preflight.site import Site
from unit.live import paper
from unit.preflight.kubernetes.good import Cluster, on
from unit.preflight.simulated import codes, only, outcomes, seen, unseen

KINDS = {**paper.KINDS, "gateway.networking.k8s.io/v1": {"HTTPRoute": ("httproutes", True)}}
GATEWAY = "/apis/gateway.networking.k8s.io/v1/namespaces/{}/gateways/public"


def route(objects: dict[str, Any], namespace: str = "edge", section: str = "") -> Site:
    parent = f'{{"name":"public","namespace":"{namespace}"'
    parent += f',"sectionName":"{section}"}}' if section else "}"
    set_ = ["httpRoute.enabled=true", "httpRoute.parentRefs[0].name=public"]
    set_.append(f"httpRoute.parentRefs[0].namespace={namespace}")
    if section:
        set_.append(f"httpRoute.parentRefs[0].sectionName={section}")
    return on(Cluster(objects), paper.rendered(*set_), facts={"kinds": dict(KINDS)})


def gateway(allowed: Any = None, namespace: str = "edge", **listener: Any) -> dict[str, Any]:
    one = {"name": "web", "protocol": "HTTPS", **listener}
    if allowed is not None:
        one["allowedRoutes"] = {"namespaces": allowed}
    return {GATEWAY.format(namespace): {"spec": {"listeners": [one]}}}


@pytest.mark.parametrize(
    ("allowed", "namespace"),
    [
        ({"from": "All"}, "edge"),
        (
            {
                "from": "Selector",
                "selector": {"matchLabels": {"kubernetes.io/metadata.name": "inference"}},
            },
            "edge",
        ),
        (None, "inference"),
        ({"from": "Same"}, "inference"),
    ],
)
def test_a_gateway_that_takes_the_route(allowed: Any, namespace: str) -> None:
    where = route(gateway(allowed, namespace), namespace)
    labels = {"kubernetes.io/metadata.name": "inference"}
    space = {"metadata": {"name": "inference", "labels": labels}}
    where.kube.case.facts.__dict__["namespace"] = space
    found = outcomes(gateways_take_routes, where)
    assert (codes(found), seen(found)) == ([], f"{namespace}/public")


def test_without_the_gateway_api_no_gateway_is_looked_for() -> None:
    where = route({})
    where.kube.case.facts.kinds.pop("gateway.networking.k8s.io/v1")
    found = outcomes(gateways_take_routes, where)
    assert (codes(found), "RPD681" in unseen(found)) == ([], True)


def test_a_gateway_that_is_not_there() -> None:
    assert "edge/public" in only(outcomes(gateways_take_routes, route({})), "RPD854").message


@pytest.mark.parametrize(
    ("allowed", "listener"),
    [
        (None, {}),
        ({"from": "Same"}, {}),
        ({"from": "None"}, {}),
        ({"from": "Selector", "selector": {"matchLabels": {"team": "web"}}}, {}),
        ({"from": "All"}, {"protocol": "TLS"}),
    ],
)
def test_a_gateway_that_does_not_take_it(allowed: Any, listener: dict[str, Any]) -> None:
    found = outcomes(gateways_take_routes, route(gateway(allowed, **listener)))
    assert "edge/public" in only(found, "RPD855").message


def test_the_listener_that_the_route_names() -> None:
    objects = gateway({"from": "All"})
    listeners = objects[GATEWAY.format("edge")]["spec"]["listeners"]
    listeners.append({"name": "admin", "protocol": "HTTP"})
    assert codes(outcomes(gateways_take_routes, route(objects, section="web"))) == []
    finding = only(outcomes(gateways_take_routes, route(objects, section="admin")), "RPD855")
    assert "its listener admin does not take" in finding.message


def test_a_gateway_that_may_not_be_seen_is_not_checked() -> None:
    where = on(
        Cluster(forbidden=(GATEWAY.format("edge"),)),
        paper.rendered(
            "httpRoute.enabled=true",
            "httpRoute.parentRefs[0].name=public",
            "httpRoute.parentRefs[0].namespace=edge",
        ),
        facts={"kinds": KINDS},
    )
    assert "you may not get" in unseen(outcomes(gateways_take_routes, where))


def test_no_route_is_made() -> None:
    assert seen(outcomes(gateways_take_routes, on())) == "no HTTPRoute is made"


def ingress(name: str, *classes: str, default: str = "") -> Site:
    path = "/apis/networking.k8s.io/v1/ingressclasses"
    objects = {
        f"{path}/{one}": {
            "metadata": {
                "name": one,
                "annotations": {
                    "ingressclass.kubernetes.io/is-default-class": str(one == default).lower()
                },
            }
        }
        for one in classes
    }
    rendered = paper.rendered("ingress.enabled=true", f"ingress.className={name}")
    return on(Cluster(objects), rendered)


@pytest.mark.parametrize(
    "where", [("alb", "alb", "nginx"), ("", "nginx")], ids=["by name", "by default"]
)
def test_a_class_that_is_there(where: tuple[str, ...]) -> None:
    found = outcomes(ingress_class_there, ingress(*where, default="nginx"))
    assert codes(found) == []
    assert seen(found)


@pytest.mark.parametrize(("name", "classes"), [("alb", ["nginx"]), ("", ["nginx"]), ("alb", [])])
def test_a_class_that_is_not(name: str, classes: list[str]) -> None:
    finding = only(outcomes(ingress_class_there, ingress(name, *classes)), "RPD856")
    assert finding.path == "ingress.className"


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))


@given(LABELS, LABELS)
def test_labels_are_selected_as_a_subset(wanted: dict[str, str], have: dict[str, str]) -> None:
    assert selects({"matchLabels": wanted}, have) == (wanted.items() <= have.items())


@given(st.sampled_from("abc"), st.lists(st.sampled_from("xyz"), min_size=1), LABELS)
def test_each_operator_and_its_opposite(key: str, values: list[str], have: dict[str, str]) -> None:
    def met(operator: str) -> bool:
        need = {"key": key, "operator": operator, "values": values}
        return selects({"matchExpressions": [need]}, have)

    assert met("In") is not met("NotIn")
    assert met("Exists") is not met("DoesNotExist")
