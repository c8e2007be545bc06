"""The reference deployment, installed from the package on a real Kubernetes with three nodes.

Of the reference values only image, device of the engines, model and what these two bring along are
overridden: groups, placement, affinities and tolerations are those of g6.8xlarge. The tests share
one installation; the last one removes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from chart.rendering import ROOT
from cluster.release import NAMESPACE, RAYSERVICES, SELECTOR, Release
from raypd.local.chat import unseen_prompt

STARTS_SECONDS = 1200  # for a small and busy machine; a quiet one needs a fraction
pytestmark = pytest.mark.timeout(STARTS_SECONDS + 300)
COUNTED_SECONDS = 10  # engine, node agent and this look each add their interval
TOKENS = "ray_vllm_prompt_tokens_by_source_total"


@pytest.fixture(scope="module")
def running(release: Release) -> Iterator[Release]:
    release.install(ROOT / "values" / "g6-qwen3.5-9b.yaml")
    release.wait_until_running(STARTS_SECONDS)
    yield release


def test_each_role_lands_on_a_node_of_its_own(running):
    nodes = {node.metadata.name: node for node in running.target.core.list_node().items}
    place = {role: running.pod(role).spec.node_name for role in ("head", "prefill", "decode")}
    labels = {role: nodes[name].metadata.labels for role, name in place.items()}
    assert labels["head"]["role"] == "system"
    for role in ("prefill", "decode"):
        assert labels[role]["role"] == "gpu-worker"
        assert labels[role]["node.kubernetes.io/instance-type"] == "g6.8xlarge"
    assert place["prefill"] != place["decode"]
    zones = {labels[role]["topology.kubernetes.io/zone"] for role in ("prefill", "decode")}
    assert len(zones) == 1


def test_rayservice_is_ready(running):
    conditions = {c["type"]: c["status"] for c in running.rayservice()["status"]["conditions"]}
    assert conditions["Ready"] == "True"


def test_a_chat_answer_comes_through_the_service(running):
    answer = _chat(running, "Hello.")
    assert answer.choices[0].message.content.strip()
    assert answer.usage.prompt_tokens > 0
    assert 0 < answer.usage.completion_tokens <= 16


def test_decode_receives_the_prompt_that_prefill_computed(running):
    before = _settled_tokens(running)
    prompt = _chat(running, unseen_prompt()).usage.prompt_tokens
    computed, received = ("prefill", "local_compute"), ("decode", "external_kv_transfer")
    grown: dict[tuple[str, str], float] = {}

    def counted() -> bool:
        grown.update({k: v - before.get(k, 0) for k, v in _tokens(running).items()})
        return all(grown.get(key, 0) >= prompt for key in (computed, received))

    running.wait("the engines' counters", counted, 60)
    assert grown[computed] == prompt
    assert grown[received] == prompt
    assert grown.get(("decode", "local_compute"), 0) <= 1  # the last token is decode's own


def test_helm_test_passes(running):
    assert "answer:" in running.test()


def test_uninstall_leaves_nothing(running):
    running.uninstall()
    target = running.target

    def left() -> list[str]:
        found = [pod.metadata.name for pod in running.pods()]
        found += [item["metadata"]["name"] for item in _rayservices(running)]
        for kind in (target.core.list_namespaced_service, target.core.list_namespaced_secret):
            found += [o.metadata.name for o in kind(NAMESPACE, label_selector=SELECTOR).items]
        return found

    running.wait("nothing of the release left", lambda: not left(), 180)


def _rayservices(release: Release) -> list[dict]:
    return release.target.custom.list_namespaced_custom_object(**RAYSERVICES)["items"]


def _chat(release: Release, prompt: str):
    if not release.target.simulated:
        pytest.skip("this machine cannot reach the cluster's service addresses; `helm test` can")
    url = f"http://{release.service().spec.cluster_ip}:8000/v1"
    client = OpenAI(base_url=url, api_key="unused", timeout=120, max_retries=0)
    (model,) = client.models.list()
    messages = [{"role": "user", "content": prompt}]
    return client.chat.completions.create(
        model=model.id, messages=messages, max_tokens=16, temperature=0
    )


def _tokens(release: Release) -> dict[tuple[str, str], float]:
    """Prompt tokens so far, by role and where they came from."""
    sums: dict[tuple[str, str], float] = {}
    for role in ("prefill", "decode"):
        for family in text_string_to_metric_families(release.metrics(role)):
            for sample in family.samples:
                if sample.name == TOKENS:
                    key = role, sample.labels["source"]
                    sums[key] = sums.get(key, 0) + sample.value
    return sums


def _settled_tokens(release: Release) -> dict[tuple[str, str], float]:
    """The counters once they stand still: they follow a request by seconds."""
    seen = [_tokens(release)]

    def still() -> bool:
        seen.append(_tokens(release))
        return seen[-1] == seen[-2]

    time.sleep(COUNTED_SECONDS)
    release.wait("counters that stand still", still, 60)
    return seen[-1]
