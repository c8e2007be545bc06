"""`raypd lint --manifest` against the real operator: what one refuses the other refuses.

The bad manifests are those of lint's own tests and a few more. Each is given to an API server with
KubeRay's CRDs and the operator behind it; that the CRD refuses it counts as well.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.devcluster import kuberay, lifecycle, nodeless
from cluster.devcluster.api import Api
from raypd.lint.kuberay import TIMEOUT
from raypd.lint.verb import of_manifest
from raypd.toolchain import go, kuberay_module
from unit.lint.sample import ABSENT, Break, Sample
from unit.lint.test_kuberay import BROKEN, KEPT, autoscaling, incremental

NAME = "rules"
GATES = "RayServiceIncrementalUpgrade=true"  # without it the operator ignores those settings
NAMESPACE = "inference"  # the sample's
JUDGED_SECONDS = 180
KEYS = "/apis/ray.io/v1"
GATEWAY_API = "sigs.k8s.io/gateway-api"


def _timeout(text: str) -> Break:
    return lambda s: s.put("rayservice:metadata|annotations", {TIMEOUT: text})


# Other ways to break a rule, for the operator tells them apart.
MORE: list[tuple[str, Break]] = [
    ("RPD203", _timeout("0s")),
    ("RPD203", _timeout("-5")),
    ("RPD206", lambda s: s.put("head:resources", {"CPU": "4"})),
    ("RPD208", lambda s: s.put("group1:labels", {"role": "-"})),
    ("RPD211", lambda s: s.put("group0:maxReplicas", -1)),
    ("RPD221", lambda s: s.env("head", "REDIS_USERNAME", "ray")),
    (
        "RPD225",
        lambda s: autoscaling(s, "v2").put("group1:template|spec|restartPolicy", "OnFailure"),
    ),
    (
        "RPD227",
        lambda s: s.put("cluster:authOptions", {"mode": "token"}).put("cluster:rayVersion", ABSENT),
    ),
    (
        "RPD227",
        lambda s: s.put("cluster:authOptions", {"mode": "token"}).put(
            "cluster:rayVersion", "nightly"
        ),
    ),
    (
        "RPD233",
        lambda s: incremental(s).put(
            "rayservice:spec|upgradeStrategy|clusterUpgradeOptions", ABSENT
        ),
    ),
    ("RPD235", lambda s: incremental(s, stepSizePercent=101)),
]
BAD = [*((code, break_) for code, _, break_ in BROKEN), *MORE]

# What lint refuses and the operator takes, and why lint is right.
LINT_ALONE = {
    "RPD210": "the CRD fills both in: 0 and 2147483647, which nobody means",
    "RPD238": "KubeRay and the autoscaler go by rayVersion and never look at the image",
    "RPD239": "a warning: the checks do not know that Ray",
    "RPD240": "a warning: Ray refuses the nodes when they join",
    "RPD243": "`ray start` fails in the pod",
    "RPD244": "a warning: the field does nothing",
    "RPD245": "the operator counts the pods of both groups as one",
    "RPD246": "a warning: it shows at the first upgrade",
}

# Refusals in the operator's source that no RayService can bring about here, by their beginning.
UNREACHABLE = {
    "worker group %s must set both minReplicas and maxReplicas": "the CRD fills both in",
    "worker group %s can be suspended only when": "a feature gate that is on by default",
    "The RayService spec is invalid: Spec.RayClusterDeletionDelaySeconds": "the CRD refuses it",
    "The RayCluster spec is invalid: Spec.UpgradeStrategy.Type": "the CRD refuses it",
    "authOptions.enableK8sTokenAuth is enabled": "refused for a RayService before this is asked",
    "RayCluster name should be": "the operator makes up the name itself",
}


@dataclass
class Verdict:
    """`refusal` is the API server's or the operator's own sentence; "" when the manifest is taken:
    the operator has made the head pod of its RayCluster."""

    refusal: str
    lint: dict[str, str]  # codes of the RPD2xx family, with their severity


@pytest.fixture(scope="module")
def api(root: None) -> Iterator[Api]:
    made = nodeless.up(NAME, GATES)
    try:
        api = lifecycle.api_of(made)
        # An incremental upgrade that is taken makes a Gateway; of the version that KubeRay builds on.
        wanted = re.search(rf"{GATEWAY_API} (\S+)", (kuberay_module() / "go.mod").read_text())
        assert wanted is not None
        folder = go.module(GATEWAY_API, wanted[1]) / "config" / "crd" / "standard"
        kuberay.install_crds(api, folder)
        api.apply(
            f"/api/v1/namespaces/{NAMESPACE}",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        )
        yield api
    finally:
        lifecycle.down(NAME)


@pytest.fixture(scope="module")
def verdicts(api: Api, tmp_path_factory: pytest.TempPathFactory) -> list[Verdict]:
    """On each of BAD, then on each of KEPT; they are judged side by side."""
    folder = tmp_path_factory.mktemp("manifests")
    manifests = [_manifest(break_, i) for i, (_, break_) in enumerate([*BAD, *KEPT])]
    refused: dict[str, str] = {}
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        try:
            api.apply(f"{KEYS}/namespaces/{NAMESPACE}/rayservices/{name}", manifest)
        except RuntimeError as error:
            refused[name] = str(error)
    names = {manifest["metadata"]["name"] for manifest in manifests}
    deadline = time.monotonic() + JUDGED_SECONDS
    while lacking := names - (judged := refused | _judged(api)).keys():
        assert time.monotonic() < deadline, f"the operator says nothing of {sorted(lacking)}"
        time.sleep(1)
    return [Verdict(judged[m["metadata"]["name"]], _lint(m, folder)) for m in manifests]


@pytest.mark.parametrize("number", range(len(BAD)), ids=[code for code, _ in BAD])
def test_a_bad_manifest_is_refused_by_both(verdicts, number):
    code, verdict = BAD[number][0], verdicts[number]
    assert code in verdict.lint
    if code in LINT_ALONE:
        assert not verdict.refusal, f"explained as lint's alone, and refused: {verdict.refusal}"
    else:
        assert verdict.refusal
        assert verdict.lint[code] == "error"


@pytest.mark.parametrize("number", range(len(KEPT)), ids=[code for code, _ in KEPT])
def test_what_keeps_a_rule_by_a_hair_is_taken_by_the_operator(verdicts, number):
    verdict = verdicts[len(BAD) + number]
    assert not verdict.refusal
    assert KEPT[number][0] not in verdict.lint


def test_lint_knows_every_refusal_in_the_operators_source(verdicts):
    seen = [verdict.refusal for verdict in verdicts if "error" in verdict.lint.values()]
    refusals = _refusals((kuberay_module() / SOURCE).read_text())
    unseen = {r for r in refusals if not any(re.search(_pattern(r), text) for text in seen)}
    unreachable = {r for r in refusals if r.startswith(tuple(UNREACHABLE))}
    assert unseen - unreachable == set(), "no bad manifest here, so lint may lack the rule"
    assert unreachable <= unseen, "explained as unreachable, and reached"
    idle = [begin for begin in UNREACHABLE if not any(r.startswith(begin) for r in refusals)]
    assert idle == [], "not in the source any more"


SOURCE = "controllers/ray/utils/validation.go"
# Where the operator begins to judge a RayService, and the RayCluster that it makes of it.
ROOTS = [
    "ValidateRayServiceMetadata",
    "ValidateRayServiceSpec",
    "ValidateRayClusterMetadata",
    "ValidateRayClusterUpgradeOptions",
]


def _refusals(source: str) -> set[str]:
    """The formats of all errors in the functions that ROOTS are and call."""
    bodies = {part[1]: part[0] for part in re.finditer(r"^func (\w+)\(.*?^}", source, re.M | re.S)}
    todo, reached = list(ROOTS), set()
    while todo:
        name = todo.pop()
        reached.add(name)
        todo += [other for other in bodies if f"{other}(" in bodies[name] and other not in reached]
    literals = r'fmt\.(?:Errorf|Sprintf)\(\s*((?:"(?:[^"\\]|\\.)*"[\s+]*)+)'
    formats = {
        "".join(json.loads(text) for text in re.findall(r'"(?:[^"\\]|\\.)*"', call))
        for name in reached
        for call in re.findall(literals, bodies[name])
    }
    return formats - {"%s"}  # which joins what others say


def _pattern(text: str) -> str:
    """A regular expression for what Go's Printf makes of the format."""
    return ".*".join(re.escape(part) for part in re.split(r"%[a-z]", text))


def _manifest(break_: Break, number: int) -> dict[str, Any]:
    sample = Sample()
    break_(sample)
    manifest = sample.rayservice
    manifest["spec"]["serveConfigV2"] = yaml.safe_dump(sample.serve_config)
    if manifest["metadata"]["name"] == Sample().rayservice["metadata"]["name"]:
        manifest["metadata"]["name"] = f"case-{number}"
    return manifest


def _lint(manifest: dict[str, Any], folder: Path) -> dict[str, str]:
    file = folder / f"{manifest['metadata']['name']}.yaml"
    file.write_text(yaml.safe_dump(manifest))
    found = of_manifest(file).findings
    return {f.code: f.severity for f in found if f.code.startswith("RPD2")}


def _judged(api: Api) -> dict[str, str]:
    """What the operator says of each RayService that it has judged."""

    def items(path: str) -> list[dict[str, Any]]:
        return api.get(path)["items"]

    said = {}
    for service in items(f"{KEYS}/namespaces/{NAMESPACE}/rayservices"):
        for condition in service.get("status", {}).get("conditions", []):
            if condition["reason"] == "ValidationFailed":
                said[service["metadata"]["name"]] = condition["message"]
    clusters = {
        cluster["metadata"]["name"]: cluster["metadata"]["ownerReferences"][0]["name"]
        for cluster in items(f"{KEYS}/namespaces/{NAMESPACE}/rayclusters")
    }
    for event in items(f"/api/v1/namespaces/{NAMESPACE}/events"):
        service = clusters.get(event["involvedObject"]["name"])
        if service and event["reason"].startswith("InvalidRayCluster"):
            said[service] = event["message"]
    for pod in items(f"/api/v1/namespaces/{NAMESPACE}/pods"):
        if pod["metadata"]["labels"]["ray.io/node-type"] == "head":
            said.setdefault(clusters[pod["metadata"]["labels"]["ray.io/cluster"]], "")
    return said
