"""The reference deployment, put up by `raypd up` from the package on a real Kubernetes with three nodes.

Of the reference values only image, device of the engines, model and what these two bring along are
overridden: groups, placement, affinities and tolerations are those of g6.8xlarge.
"""

from __future__ import annotations

import pytest

from cluster.load import MAX_TOKENS
from cluster.release import Release
from live.checks import ReleaseChecks
from live.deployed import Deployed


class TestReference(ReleaseChecks):
    @pytest.fixture
    def deployed(self, reference: Release) -> Deployed:
        return reference.deployed


def test_engines_are_on_the_nodes_that_the_eksctl_config_makes(reference):
    nodes = {node.metadata.name: node for node in reference.target.core.list_node().items}
    for role in ("prefill", "decode"):
        labels = nodes[reference.pod(role).spec.node_name].metadata.labels
        assert labels["role"] == "gpu-worker"
        assert labels["node.kubernetes.io/instance-type"] == "g6.8xlarge"


def test_a_chat_answer_comes_through_the_service(reference):
    answer = reference.endpoint().chat("Hello.")
    assert answer.choices[0].message.content.strip()
    assert answer.usage.prompt_tokens > 0
    assert 0 < answer.usage.completion_tokens <= MAX_TOKENS
