"""Names: valid whatever the release is called, and different for different releases."""

from __future__ import annotations

import re
import string

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

DNS_1035 = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
# What Helm takes as the name of a release: DNS-1123, up to 53 characters.
LETTERS = string.ascii_lowercase + string.digits
RELEASES = st.builds(
    lambda first, middle, last: (first + middle)[:52] + last,
    st.sampled_from(LETTERS),
    st.text(LETTERS + "-", max_size=51),
    st.sampled_from(LETTERS),
)
FEW = settings(
    max_examples=min(15, settings.default.max_examples),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@FEW
@given(release=RELEASES)
def test_valid_for_every_release(render, release):
    values = {"cache": {"type": "persistentVolumeClaim", "prefetch": {"enabled": True}}}
    manifests = render.all(values, f"name={release}")
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        assert len(name) <= (47 if manifest["kind"] == "RayService" else 63)
        assert DNS_1035.match(name), name
    assert len({(m["kind"], m["metadata"]["name"]) for m in manifests}) == len(manifests)


def test_long_names_that_differ_at_the_end_stay_different(render):
    long = "a-release-with-a-name-that-is-as-long-as-helm-lets-"
    first, second = (render.one("RayService", {}, f"name={long}{end}") for end in "ab")
    assert first["metadata"]["name"] != second["metadata"]["name"]


def test_a_leading_digit_gets_a_letter(render):
    name = render.one("RayService", {}, "name=7b")["metadata"]["name"]
    assert re.fullmatch(r"r7b-ray-pd-llm-[0-9a-f]{8}", name)


def test_short_names_are_as_people_expect(render):
    def name(values: dict, release: str) -> str:
        return render.one("RayService", values, f"name={release}")["metadata"]["name"]

    assert name({}, "llm") == "llm-ray-pd-llm"
    assert name({}, "ray-pd-llm") == "ray-pd-llm"
    assert name({"nameOverride": "chat"}, "llm") == "llm-chat"
    assert name({"fullnameOverride": "qwen"}, "llm") == "qwen"


def test_every_object_carries_the_labels_and_the_users(render):
    values = {"commonLabels": {"team": "search"}, "commonAnnotations": {"example.com/a": "b"}}
    for manifest in render.all(values):
        assert manifest["metadata"]["labels"]["team"] == "search"
        assert manifest["metadata"]["labels"]["app.kubernetes.io/instance"] == "llm"
        assert manifest["metadata"]["annotations"]["example.com/a"] == "b"
        assert manifest["metadata"]["namespace"] == "inference"


def test_no_version_of_the_chart_in_a_pod_template(render):
    """KubeRay would start a new cluster with every release of the chart."""
    for group in render.groups({"commonLabels": {"team": "search"}}).values():
        labels = group["template"]["metadata"]["labels"]
        assert set(labels) == {f"app.kubernetes.io/{k}" for k in ("name", "instance", "component")}
