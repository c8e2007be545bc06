"""The pods: one template for the head and every role."""

from __future__ import annotations

TCP = {"transport": {"fabric": "tcp"}, "cache": {"type": "emptyDir"}}
ENGINES = ("prefill", "decode")


def container(pod: dict) -> dict:
    return pod["containers"][0]


def test_devices_are_limits_and_requests_of_engines_only(render):
    for name, pod in render.pods().items():
        resources = container(pod)["resources"]
        for device in ("nvidia.com/gpu", "vpc.amazonaws.com/efa"):
            if name == "head":
                assert device not in resources["limits"] and device not in resources["requests"]
            else:
                assert resources["limits"][device] == resources["requests"][device] == 1
        assert "cpu" not in resources["limits"]


def test_tcp_and_cpu_ask_for_no_device(render):
    assert (
        "vpc.amazonaws.com/efa" not in container(render.pods(TCP)["prefill"])["resources"]["limits"]
    )
    values = TCP | {"runtime": {"device": "cpu"}, "model": {"kind": "hybrid"}}
    assert set(container(render.pods(values)["decode"])["resources"]["limits"]) == {"memory"}


def test_efa_engines_lock_memory_without_being_privileged(render):
    for name in ENGINES:
        pod = render.pods()[name]
        assert container(pod)["securityContext"]["capabilities"] == {
            "drop": ["ALL"],
            "add": ["IPC_LOCK"],
        }
        assert container(pod)["securityContext"]["allowPrivilegeEscalation"] is False
        assert pod["securityContext"]["runAsUser"] == 0


ZCOPY = "UCX_CUDA_IPC_ENABLE_GET_ZCOPY"


def test_engines_that_may_share_a_host_over_tcp_read_by_cuda_ipc(render):
    together = TCP | {"placement": {"rolesApart": False}}
    env = render.env(together)
    assert all(env[name][ZCOPY] == "on" for name in ENGINES)
    assert ZCOPY not in env["head"]
    assert ZCOPY not in render.env(TCP)["decode"]
    cpu = together | {"runtime": {"device": "cpu"}}
    assert ZCOPY not in render.env(cpu)["decode"]
    efa = {"placement": {"rolesApart": False}}
    assert ZCOPY not in render.env(efa)["decode"]


def test_what_ucx_is_told_can_be_overridden(render):
    together = TCP | {"placement": {"rolesApart": False}}
    env = render.env(together | {"model": {"env": {ZCOPY: "off"}}})
    assert env["prefill"][ZCOPY] == env["decode"][ZCOPY] == "off"
    env = render.env(together | {"decode": {"env": {ZCOPY: None}}})
    assert env["prefill"][ZCOPY] == "on" and ZCOPY not in env["decode"]


def test_read_only_root_leaves_writable_what_is_written(render):
    values = TCP | {"securityContext": {"readOnlyRootFilesystem": True}}
    for name in ("head", *ENGINES):
        pod = render.pods(values)[name]
        assert container(pod)["securityContext"]["readOnlyRootFilesystem"] is True
        mounts = {m["mountPath"] for m in container(pod)["volumeMounts"]}
        assert {"/tmp", "/dev/shm"} <= mounts
        assert ("/cache" in mounts) is (name != "head")
        assert render.env(values)[name]["HOME"] == "/tmp"


def test_rdma_flag_only_where_the_adapter_has_it(render):
    with_rdma = render.env()["prefill"]
    assert with_rdma["FI_PROVIDER"] == "efa" and with_rdma["FI_EFA_USE_DEVICE_RDMA"] == "1"
    g5 = {"instanceType": "g5.8xlarge"}
    assert "FI_EFA_USE_DEVICE_RDMA" not in render.env({"prefill": g5, "decode": g5})["prefill"]
    assert not any(k.startswith("FI_") for k in render.env(TCP)["prefill"])


def test_roles_on_one_node_get_the_variable_that_makes_it_safe(render):
    assert "FI_EFA_ENABLE_SHM_TRANSFER" not in render.env()["decode"]
    assert (
        render.env({"placement": {"rolesApart": False}})["decode"]["FI_EFA_ENABLE_SHM_TRANSFER"]
        == "0"
    )


def test_env_layers_and_removal(render):
    values = {
        "model": {"env": {"A": 1, "B": "model", "VLLM_NO_USAGE_STATS": None}},
        "decode": {
            "env": {"B": "decode", "C": {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}}
        },
        "head": {"env": {"D": False}},
    }
    env = render.env(values)
    assert env["prefill"]["A"] == "1" and env["prefill"]["B"] == "model"
    assert env["decode"]["B"] == "decode"
    assert env["decode"]["C"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert "VLLM_NO_USAGE_STATS" not in env["prefill"]
    assert env["head"]["D"] == "false" and "A" not in env["head"]


def test_no_side_channel_variable_is_ever_set(render):
    for env in render.env().values():
        assert not any(name.startswith("VLLM_NIXL_SIDE_CHANNEL") for name in env)


def test_image_by_digest_and_pull_secrets(render):
    digest = "sha256:" + "a" * 64
    pod = render.pods({"image": {"digest": digest, "pullSecrets": ["one", "two"]}})["decode"]
    assert container(pod)["image"] == f"public.ecr.aws/deep-learning-containers/ray@{digest}"
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]


def test_extras_of_a_role_reach_that_role_alone(render):
    extras = {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "sidecars": [{"name": "log", "image": "busybox:1"}],
        "initContainers": [{"name": "wait", "image": "busybox:1"}],
        "podLabels": {"team": "search"},
        "podAnnotations": {"example.com/a": "b"},
        "priorityClassName": "high",
        "terminationGracePeriodSeconds": 600,
    }
    groups = render.groups({"decode": extras})
    decode, prefill = (groups[n]["template"] for n in ("decode", "prefill"))
    assert decode["metadata"]["labels"]["team"] == "search"
    assert decode["metadata"]["annotations"] == {"example.com/a": "b"}
    assert decode["spec"]["priorityClassName"] == "high"
    assert decode["spec"]["terminationGracePeriodSeconds"] == 600
    assert [c["name"] for c in decode["spec"]["containers"]] == ["ray-worker", "log"]
    assert [c["name"] for c in decode["spec"]["initContainers"]] == ["wait"]
    assert {"name": "data", "mountPath": "/data"} in container(decode["spec"])["volumeMounts"]
    assert "team" not in prefill["metadata"]["labels"] and "initContainers" not in prefill["spec"]


def test_a_label_of_the_user_cannot_break_the_selectors(render):
    values = {"decode": {"podLabels": {"app.kubernetes.io/component": "mine"}}}
    labels = render.groups(values)["decode"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "decode"


def test_token_reaches_every_engine_by_reference_and_is_nowhere_in_the_pods(render):
    token = "hf_0123456789abcdef"
    text = render.text({"huggingface": {"token": token}})
    assert token not in text
    for values, name in (
        ({"huggingface": {"token": token}}, "llm-ray-pd-llm-hf-token"),
        ({"huggingface": {"existingSecret": {"name": "mine"}}}, "mine"),
    ):
        env = render.env(values)
        for role in ENGINES:
            assert env[role]["HF_TOKEN"] == {"secretKeyRef": {"name": name, "key": "HF_TOKEN"}}
        assert "HF_TOKEN" not in env["head"]
    assert "HF_TOKEN" not in render.env()["decode"]
