"""What holds of every release that serves, whatever its cluster, model and mode.

A test module takes the checks over by a class of its own, and says in a fixture `deployed` which
release they look at:

    class TestRelease(ReleaseChecks):
        pass

The last check removes the release, unless it stays.
"""

from __future__ import annotations

import httpx
import pytest
from openai import OpenAI

from live.deployed import Deployed, Json
from raypd.evidence import unseen_prompt
from raypd.live.forward import forward
from raypd.live.served import Served
from raypd.live.snapshot import SERVE_PORT

ANSWER_SECONDS = 120
CONFORMANCE_SECONDS = 960  # the verb itself ends after 900, and says what it has not run
# Of `raypd conformance`: where what is known to differ shows, and what takes little time.
QUICK = ("models", "chat", "streaming", "errors", "limits", "auth", "unicode")
ANSWER_TOKENS = 16
GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
# Of these the chart or KubeRay makes some. Claims stay when a release goes.
KINDS = [
    "ray.io/v1/rayservices",
    "ray.io/v1/rayclusters",
    "v1/pods",
    "v1/services",
    "v1/secrets",
    "v1/configmaps",
    "v1/serviceaccounts",
    "batch/v1/jobs",
    "policy/v1/poddisruptionbudgets",
    "networking.k8s.io/v1/networkpolicies",
]


class ReleaseChecks:
    def test_it_serves(self, deployed: Deployed) -> None:
        standing = deployed.raypd("status")
        assert standing["state"] == "serving"
        assert all(pod["ready"] for pod in standing["pods"] if pod["component"] != "test")

    def test_kuberay_calls_it_ready(self, deployed: Deployed) -> None:
        (rayservice,) = deployed.objects("ray.io/v1/rayservices")
        conditions = {c["type"]: c["status"] for c in rayservice["status"]["conditions"]}
        assert conditions["Ready"] == "True"

    def test_the_doctor_finds_nothing(self, deployed: Deployed) -> None:
        assert deployed.raypd("doctor")["findings"] == []

    def test_each_engine_has_a_node_with_what_it_asks_for(self, deployed: Deployed) -> None:
        nodes = _nodes(deployed)
        for pod in deployed.served().pods:
            node = nodes[pod["spec"]["nodeName"]]
            for name, count in _limits(pod).items():
                if name == GPU or name.endswith("/efa"):
                    assert int(node["status"]["allocatable"][name]) >= int(count)
            selector = pod["spec"].get("nodeSelector") or {}
            assert selector.items() <= node["metadata"]["labels"].items()

    def test_roles_are_on_nodes_of_their_own(self, deployed: Deployed) -> None:
        served = deployed.served()
        if not served.disaggregated or not deployed.values["placement"]["rolesApart"]:
            pytest.skip("the values do not ask for it")
        places = {role: _places(pods) for role, pods in served.engines.items()}
        assert not places["prefill"] & places["decode"]

    def test_engines_are_in_one_zone(self, deployed: Deployed) -> None:
        if not deployed.values["placement"]["sameZone"]:
            pytest.skip("the values do not ask for it")
        nodes = _nodes(deployed)
        places = _places(deployed.served().pods)
        assert len({nodes[name]["metadata"]["labels"][ZONE] for name in places}) == 1

    def test_the_head_keeps_off_the_gpus(self, deployed: Deployed) -> None:
        assert GPU not in _limits(deployed.served().head)

    def test_a_chat_request_is_answered(self, deployed: Deployed) -> None:
        served = deployed.served()
        with _port(deployed, served) as http:
            answer = _client(served, http).chat.completions.create(**_request(served))
        assert (answer.choices[0].message.content or "").strip()
        assert answer.usage is not None
        assert answer.usage.prompt_tokens > 0
        assert 0 < answer.usage.completion_tokens <= ANSWER_TOKENS

    def test_an_answer_is_streamed(self, deployed: Deployed) -> None:
        served = deployed.served()
        with _port(deployed, served) as http:
            chunks = list(
                _client(served, http).chat.completions.create(**_request(served), stream=True)
            )
        parts = [c.delta.content for chunk in chunks for c in chunk.choices if c.delta.content]
        assert len(parts) > 1
        assert chunks[-1].choices[-1].finish_reason in ("stop", "length")

    def test_it_differs_from_openais_api_in_what_is_known_and_in_nothing_else(
        self, deployed: Deployed, pytestconfig: pytest.Config
    ) -> None:
        groups = () if pytestconfig.getoption("--slow") else QUICK
        options = [part for group in groups for part in ("--group", group)]
        found = deployed.raypd("conformance", *options, seconds=CONFORMANCE_SECONDS)
        verdicts = [check["verdict"] for check in found["checks"]]
        assert not {"FAIL", "NOT RUN"} & set(verdicts)
        assert verdicts.count("PASS") > len(verdicts) // 2

    def test_helm_test_passes(self, deployed: Deployed) -> None:
        assert "answer:" in deployed.helm("test", deployed.name, "--logs")

    def test_prefill_and_decode_are_proven_apart(self, deployed: Deployed) -> None:
        proof = deployed.raypd("verify")
        assert proof["proven"]
        assert proof["disaggregated"] == (deployed.values["topology"]["mode"] == "disaggregated")
        assert not [check for check in proof["checks"] if check["verdict"] == "FAIL"]

    def test_nixl_alone_moves_bytes_between_the_engines_pods(self, deployed: Deployed) -> None:
        if not deployed.served().disaggregated:
            pytest.skip("nothing is moved")
        found = deployed.raypd("bench kv", "--descriptors", "64x64KiB", "--descriptors", "1x4MiB")
        assert [(row["fabric"], row["error"]) for row in found["rows"]] == [
            (fabric, None) for fabric in ("default", "tcp") for _ in range(2)
        ]
        assert all(row["gb_per_s"] > 0 < row["yardstick_gb_per_s"] for row in found["rows"])

    def test_nothing_is_left_of_it(self, deployed: Deployed) -> None:
        if deployed.stays:
            pytest.skip("the release was there before and stays")
        deployed.down()
        left = {kind: [o["metadata"]["name"] for o in deployed.objects(kind)] for kind in KINDS}
        assert not any(left.values()), left


def _nodes(deployed: Deployed) -> dict[str, Json]:
    return {node["metadata"]["name"]: node for node in deployed.cluster.list("/api/v1/nodes")}


def _places(pods: list[Json]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods}


def _limits(pod: Json) -> dict[str, str]:
    return (pod["spec"]["containers"][0].get("resources") or {}).get("limits") or {}


def _port(deployed: Deployed, served: Served):
    """A client for Serve's port: through the API server, so that it works from anywhere."""
    return forward(
        deployed.cluster, deployed.namespace, served.door["metadata"]["name"], SERVE_PORT
    )


def _client(served: Served, http: httpx.Client) -> OpenAI:
    return OpenAI(
        base_url=str(http.base_url.join(f"{served.prefix}/v1")),
        api_key="unused",
        timeout=ANSWER_SECONDS,
        max_retries=0,
        http_client=http,
    )


def _request(served: Served) -> Json:
    return {
        "model": served.model,
        "messages": [{"role": "user", "content": unseen_prompt()}],
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0,
    }
