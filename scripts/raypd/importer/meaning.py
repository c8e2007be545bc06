"""What a RayService means, in a form in which two of them can be compared: one entry for each thing
that decides how engines run, under the chart's names of roles, whatever groups and volumes are
called and wherever a setting stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from raypd.importer.draft import plain
from raypd.importer.quantity import amount
from raypd.importer.read import Original
from raypd.lint.subject import (
    CLUSTER,
    SERVE_CONFIG,
    Engine,
    Group,
    ingress_options,
    mapping,
    sequence,
)
from raypd.schema import dotted


class Fact(NamedTuple):
    """`value` in comparable form, and the place of the manifest that says it."""

    value: Any
    path: str


Key = tuple[str, ...]  # area, block, and names below

# What holds where nothing is written: vLLM 0.26, Ray 2.58, Kubernetes 1.35, KubeRay 1.6.
_DEFAULTS: dict[tuple[str, str], Any] = {
    ("engine argument", "dtype"): "auto",
    ("engine argument", "tensor_parallel_size"): 1,
    ("engine argument", "pipeline_parallel_size"): 1,
    ("engine argument", "kv_cache_dtype"): "auto",
    ("engine argument", "trust_remote_code"): False,
    ("engine argument", "load_format"): "auto",
    ("engine argument", "disable_hybrid_kv_cache_manager"): False,
    ("engine argument", "distributed_executor_backend"): "ray",
    ("KV transfer", "kv_load_failure_policy"): "fail",
    ("KV transfer", "kv_lease_duration"): 30,
    ("KV transfer", "num_threads"): 4,
    ("deployment", "num_replicas"): 1,
    ("deployment", "min_replicas"): 1,
    ("deployment", "max_replicas"): 1,
    ("deployment", "target_ongoing_requests"): 2,
    ("deployment", "upscale_delay_s"): 30,
    ("deployment", "downscale_delay_s"): 600,
    ("engine setting", "log_engine_metrics"): True,
    ("engine setting", "llm_engine"): "vLLM",
    # The chart's own, which leaves out a step that does nothing.
    ("engine setting", "callback_config"): {
        "callback_class": "endpoint_guard.ray_engine:NoDownload"
    },
    ("endpoint", "route_prefix"): "/",
    ("endpoint", "num_replicas"): 1,
    ("serve config", "proxy_location"): "EveryNode",
    ("serve config", "http_options"): '{"host": "0.0.0.0", "port": 8000}',
    ("pod", "dnsPolicy"): '"ClusterFirst"',
    ("pod", "restartPolicy"): '"Always"',
    ("pod", "schedulerName"): '"default-scheduler"',
    ("container", "imagePullPolicy"): '"IfNotPresent"',
    ("ray start", "dashboard-host"): "0.0.0.0",
    ("ray start", "block"): "true",
    ("cluster", "enableInTreeAutoscaling"): "false",
    ("spec", "excludeHeadPodFromServeSvc"): "false",
}
_NOISE = ("kubectl.kubernetes.io/", "meta.helm.sh/", "helm.sh/", "app.kubernetes.io/", "argocd.")
_HANDLED_CONFIG = (
    "model_loading_config",
    "engine_kwargs",
    "deployment_config",
    "experimental_configs",
    "placement_group_config",
    "runtime_env",
)
_HANDLED_POD = ("containers", "initContainers", "volumes", "serviceAccount")
_HANDLED_CONTAINER = ("name", "env", "resources", "ports", "volumeMounts")
_HANDLED_GROUP = (
    *("groupName", "replicas", "minReplicas", "maxReplicas", "scaleStrategy"),
    *("rayStartParams", "template", "serviceType"),
)
_HANDLED_ARGUMENTS = (
    *("prefill_config", "decode_config", "llm_configs", "ingress_deployment_config"),
    *("proxy_cls_config", "proxy_deployment_config"),
)


def meaning(original: Original) -> dict[Key, Fact]:
    """Everything that the two have to agree on; what says the same as nothing at all is left out."""
    facts: dict[Key, Fact] = {}
    for key, value, path in _all(original):
        default = _DEFAULTS.get((key[0], key[-1]), _NO_DEFAULT)
        if value is not None and (
            value != default or isinstance(value, bool) is not isinstance(default, bool)
        ):
            facts[key] = Fact(value, path)
    return facts


_NO_DEFAULT = object()
Entry = tuple[Key, Any, str]


def _plain(value: Any) -> str:
    """Any value as text that is equal when the values are."""
    return json.dumps(plain(value), sort_keys=True)


def _each(
    area: str, block: str, holder: Any, path: str, skip: tuple[str, ...] = ()
) -> Iterator[Entry]:
    """One entry for each key of a mapping, its value as text."""
    for name, value in mapping(holder).items():
        if name not in skip and value not in (None, {}, []):
            yield (area, block, str(name)), _plain(value), dotted([str(name)], path)


def _all(original: Original) -> Iterator[Entry]:
    for role, engine in original.engines.items():
        yield from _engine(role, engine)
    yield from _application(original)
    for block, group in {"head": original.subject.head, **original.homes}.items():
        yield from _group(block, group)
        yield from _variables(block, group, original)
    subject = original.subject
    skip = ("headGroupSpec", "workerGroupSpecs")
    yield from _each("cluster", "", subject.cluster, CLUSTER, skip)
    skip = ("rayClusterConfig", "serveConfigV2", "upgradeStrategy")
    yield from _each("spec", "", subject.spec, "spec", skip)
    metadata = mapping(subject.rayservice.get("metadata"))
    yield ("name", "", "name"), metadata.get("name"), "metadata.name"
    for kind in ("labels", "annotations"):
        for name, value in mapping(metadata.get(kind)).items():
            if not str(name).startswith(_NOISE):
                yield (kind, "", str(name)), str(value), dotted(["metadata", kind, str(name)])


def _engine(role: str, engine: Engine) -> Iterator[Entry]:
    config = engine.config
    loading = mapping(config.get("model_loading_config"))
    model = {**loading, "model_source": loading.get("model_source", loading.get("model_id"))}
    if isinstance(source := model["model_source"], dict) and set(source) == {"bucket_uri"}:
        model["model_source"] = source["bucket_uri"]
    for name, value in model.items():
        yield ("model", role, str(name)), value, f"{engine.path}.model_loading_config.{name}"
    for name, value in engine.kwargs.items():
        if name != "kv_transfer_config":
            yield ("engine argument", role, str(name)), value, f"{engine.path}.engine_kwargs.{name}"
    for name, value in engine.transfer.items():
        if name != "kv_connector_extra_config":
            yield ("KV transfer", role, str(name)), value, f"{engine.transfer_path}.{name}"
    for name, value in engine.extra.items():
        path = f"{engine.transfer_path}.kv_connector_extra_config.{name}"
        yield ("KV transfer", role, str(name)), value, path
    deployment = dict(engine.deployment)
    scaling = deployment.pop("autoscaling_config", None)
    path = f"{engine.path}.deployment_config"
    for name, value in deployment.items():
        if name == "ray_actor_options":
            skip = ("runtime_env",)
            yield from _each("deployment", role, value, f"{path}.{name}", skip)
        elif name != "name":
            yield ("deployment", role, str(name)), value, f"{path}.{name}"
    for name, value in mapping(scaling).items():
        if name == "initial_replicas" and value == mapping(scaling).get("min_replicas", 1):
            continue
        place = f"{path}.autoscaling_config.{name}"
        yield ("deployment", role, "autoscaling", str(name)), value, place
    for name, value in mapping(config.get("experimental_configs")).items():
        place = f"{engine.path}.experimental_configs.{name}"
        yield ("experimental", role, str(name)), value or None, place
    for name, value in config.items():
        if name not in _HANDLED_CONFIG:
            yield ("engine setting", role, str(name)), value, f"{engine.path}.{name}"
    yield from _each(
        "runtime_env", role, config.get("runtime_env"), f"{engine.path}.runtime_env", ("env_vars",)
    )


def _application(original: Original) -> Iterator[Entry]:
    path, application = original.path, original.application
    yield ("endpoint", "", "route_prefix"), application.get("route_prefix"), f"{path}.route_prefix"
    place = f"{path}.args.ingress_deployment_config"
    for name, value in ingress_options(application).items():
        if name != "name":
            yield ("endpoint", "", str(name)), value, f"{place}.{name}"
    skip = ("name", "route_prefix", "import_path", "args", "deployments", "runtime_env")
    yield from _each("application", "", application, path, skip)
    yield from _each("application", "", original.arguments, f"{path}.args", _HANDLED_ARGUMENTS)
    runtime = application.get("runtime_env")
    yield from _each("runtime_env", "", runtime, f"{path}.runtime_env", ("env_vars",))
    outer = original.subject.rendered.serve_config
    yield from _each("serve config", "", outer, SERVE_CONFIG, ("applications",))


def _variables(block: str, group: Group, original: Original) -> Iterator[Entry]:
    for name, (path, value) in original.variables(block, group).items():
        if isinstance(value, dict):
            yield ("variable", block, name), {"valueFrom": value}, path
        elif value is not None:
            text = value if isinstance(value, str) else _plain(value)
            yield ("variable", block, name), text, path


def _group(block: str, group: Group) -> Iterator[Entry]:
    yield from _each("group", block, group.spec, group.path, _HANDLED_GROUP)
    metadata = mapping(mapping(group.spec.get("template")).get("metadata"))
    for kind in ("labels", "annotations"):
        for name, value in mapping(metadata.get(kind)).items():
            if not str(name).startswith("app.kubernetes.io/"):
                place = dotted(["template", "metadata", kind, str(name)], group.path)
                yield (f"pod {kind}", block, str(name)), str(value), place
    for name, value in group.start_params.items():
        place = f"{group.path}.rayStartParams.{name}"
        if name == "object-store-memory":
            yield ("ray start", block, name), amount(value), place
        elif name == "resources" or (name == "num-cpus" and block != "head"):
            continue  # what pins a role, and Ray's books: compared as a whole
        elif name == "num-gpus" and block != "head":
            continue
        else:
            yield ("ray start", block, str(name)), str(value), place
    yield from _pod(block, group)
    container = group.ray_container
    path = f"{group.pod_path}.containers[0]"
    yield from _each("container", block, container, path, _HANDLED_CONTAINER)
    for kind in ("limits", "requests"):
        for name, value in mapping(mapping(container.get("resources")).get(kind)).items():
            place = dotted([str(name)], f"{path}.resources.{kind}")
            number = amount(value)
            yield (
                ("resource", block, f"{kind} {name}"),
                str(value) if number is None else number,
                place,
            )
    yield from _mounted(block, group)


def _pod(block: str, group: Group) -> Iterator[Entry]:
    pod, path = group.pod, group.pod_path
    for name, value in mapping(pod.get("nodeSelector")).items():
        place = dotted(["nodeSelector", str(name)], path)
        yield ("node selector", block, str(name)), str(value), place
    for i, toleration in enumerate(sequence(pod.get("tolerations"))):
        yield ("toleration", block, _plain(toleration)), True, f"{path}.tolerations[{i}]"
    skip = (*_HANDLED_POD, "nodeSelector", "tolerations")
    yield from _each("pod", block, pod, path, skip)


def _mounted(block: str, group: Group) -> Iterator[Entry]:
    volumes = {
        str(mapping(v).get("name")): {k: x for k, x in mapping(v).items() if k != "name"}
        for v in sequence(group.pod.get("volumes"))
    }

    def source(mount: dict[str, Any]) -> str:
        rest = {k: v for k, v in mount.items() if k not in ("name", "mountPath") and v}
        return _plain([volumes.get(str(mount.get("name"))), rest])

    path = group.pod_path
    for i, mount in enumerate(map(mapping, sequence(group.ray_container.get("volumeMounts")))):
        place = f"{path}.containers[0].volumeMounts[{i}]"
        yield ("mount", block, str(mount.get("mountPath")).rstrip("/")), source(mount), place
    inits = list(map(mapping, sequence(group.pod.get("initContainers"))))
    named = [(f"{path}.initContainers[{i}]", c) for i, c in enumerate(inits)]
    named += [(f"{path}.containers[{i}]", c) for i, c in enumerate(group.containers) if i]
    for place, container in named:
        mounts = [
            [mapping(mount).get("mountPath"), source(mapping(mount))]
            for mount in sequence(container.get("volumeMounts"))
        ]
        whole = {**container, "volumeMounts": mounts}
        yield ("container", block, f"{container.get('name')} (beside Ray)"), _plain(whole), place
