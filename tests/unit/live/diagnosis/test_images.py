"""Image pulls that fail, in the kubelet's and containerd's words."""

from __future__ import annotations

import pytest

from raypd.live.diagnosis import diagnose
from unit.live.sample import (
    IMAGE,
    changed,
    event,
    pod,
    rayservice,
    serve,
    snapshot,
    waiting,
)

BACK_OFF = f'Back-off pulling image "{IMAGE}": ErrImagePull: '
RESOLVE = f'failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": '
LOADING = {"rayservice": rayservice(ready=False), "serve": serve("DEPLOYING")}


def only(words, reason="ImagePullBackOff", events=()):
    waits = waiting("decode", reason, words)
    said = [event("Pod", waits, *entry) for entry in events]
    pods = [pod("head"), pod("prefill"), waits]
    (finding,) = diagnose(snapshot(**LOADING, pods=pods, events=said))
    return finding


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (f"rpc error: code = NotFound desc = {RESOLVE}{IMAGE}: not found", "RPD620"),
        (
            f"rpc error: code = Unknown desc = {RESOLVE}failed to authorize: failed to fetch "
            "anonymous token: unexpected status from GET request to https://x/token: 401 Unauthorized",
            "RPD621",
        ),
        (
            f"{RESOLVE}pull access denied, repository does not exist or may require authorization: "
            "authorization failed: no basic auth credentials",
            "RPD621",
        ),
        (
            f'{RESOLVE}failed to do request: Head "https://public.ecr.aws/v2/": dial tcp: lookup '
            "public.ecr.aws on 10.0.0.2:53: no such host",
            "RPD622",
        ),
        (
            f'{RESOLVE}failed to do request: Head "https://public.ecr.aws/v2/": dial tcp '
            "99.83.145.10:443: i/o timeout",
            "RPD622",
        ),
        (
            "rpc error: code = Unknown desc = failed to pull and unpack image: toomanyrequests: Rate "
            "exceeded",
            "RPD622",
        ),
        (
            "failed to pull and unpack image: failed to extract layer sha256:1: write "
            "/var/lib/containerd/x/libtorch_cuda.so: no space left on device",
            "RPD625",
        ),
        ("rpc error: code = Unknown desc = something else", "RPD624"),
    ],
)
def test_kinds_of_failure(words, code):
    finding = only(BACK_OFF + words)
    assert finding.code == code
    assert words in finding.message
    assert finding.path == "pod inference/llm-ray-pd-llm-x7k2p-decode-worker-2dnjc"


def test_a_name_that_is_none():
    words = (
        'Failed to apply default image tag "Ray:serve": couldn\'t parse image name "Ray:serve": '
        "invalid reference format: repository name (library/Ray) must be lowercase"
    )
    finding = only(words, reason="InvalidImageName")
    assert finding.code == "RPD623"
    assert "must be lowercase" in finding.message


def test_pull_policy_never():
    finding = only("Container image is not present", reason="ErrImageNeverPull")
    assert finding.code == "RPD624"
    assert "image.pullPolicy" in finding.remedy


def test_a_pull_secret_that_is_missing():
    secret = (
        "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not "
        "succeed."
    )
    finding = only(
        f"{BACK_OFF}{RESOLVE}pull access denied",
        events=[("FailedToRetrieveImagePullSecret", secret)],
    )
    assert finding.code == "RPD621"
    assert "regcred" in finding.message
    assert "create secret docker-registry" in finding.remedy


def test_ecr_wants_a_policy_on_the_nodes_role():
    own = "763104351884.dkr.ecr.us-west-2.amazonaws.com/ray:serve-llm-cuda"
    waits = waiting("decode", "ErrImagePull", f"{own}: 403 Forbidden")
    waits["status"]["containerStatuses"][0]["image"] = own
    (finding,) = diagnose(snapshot(**LOADING, pods=[pod("head"), pod("prefill"), waits]))
    assert "AmazonEC2ContainerRegistryPullOnly" in finding.remedy


def test_a_kubelet_that_says_only_that_it_backs_off():
    finding = only(
        f'Back-off pulling image "{IMAGE}"',
        events=[("Failed", f'Failed to pull image "{IMAGE}": {RESOLVE}{IMAGE}: not found')],
    )
    assert finding.code == "RPD620"


def test_a_pull_under_way_is_no_finding():
    waits = waiting("decode", "ContainerCreating")
    said = event("Pod", waits, "Pulling", f'Pulling image "{IMAGE}"')
    pods = [pod("head"), pod("prefill"), waits]
    assert diagnose(snapshot(**LOADING, pods=pods, events=[said])) == []


def test_one_image_on_all_pods_is_one_finding_and_the_head_comes_first():
    words = f"{BACK_OFF}{IMAGE}: not found"
    pods = [waiting(role, "ImagePullBackOff", words) for role in ("head", "prefill", "decode")]
    (finding,) = diagnose(snapshot(rayservice=rayservice(ready=False), pods=pods, serve=None))
    assert finding.code == "RPD620"
    assert "-head-" in finding.path
    assert "-decode-" in finding.path


def test_the_image_of_an_init_container():
    waits = changed(
        waiting("decode", "PodInitializing"),
        f"""
        status:
          initContainerStatuses:
            - name: wait-gcs-ready
              image: {IMAGE}
              state: {{waiting: {{reason: ErrImagePull, message: "{IMAGE}: not found"}}}}
        """,
    )
    (finding,) = diagnose(snapshot(**LOADING, pods=[pod("head"), pod("prefill"), waits]))
    assert finding.code == "RPD620"
