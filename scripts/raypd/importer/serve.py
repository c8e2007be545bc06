"""What the serve config says: model, engines, KV transfer and endpoint."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from raypd.importer.draft import Draft
from raypd.importer.read import Original
from raypd.lint.speed import transport
from raypd.lint.subject import EFA, Engine, ingress_options, mapping, sequence, whole
from raypd.lint.transfer import CONV_LAYOUT, NIXL, PORT_BASE, ROLES
from raypd.schema import shown

# Engine arguments with a value of their own: those that both roles share, and those of a role.
SHARED = {
    "max_model_len": "maxModelLen",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kvCacheDtype",
    "block_size": "blockSize",
    "trust_remote_code": "trustRemoteCode",
    "load_format": "loadFormat",
    "revision": "revision",
}
OF_ROLE = {
    "gpu_memory_utilization": "gpuMemoryUtilization",
    "max_num_seqs": "maxNumSeqs",
    "max_num_batched_tokens": "maxNumBatchedTokens",
}
PARALLEL = {"tensor_parallel_size": "tensor", "pipeline_parallel_size": "pipeline"}
_SCALING = {
    "min_replicas": ("minReplicas", 1),
    "max_replicas": ("maxReplicas", 1),
    "target_ongoing_requests": ("targetOngoingRequests", 2),
    "upscale_delay_s": ("upscaleDelaySeconds", 30),
    "downscale_delay_s": ("downscaleDelaySeconds", 600),
}


def serve(draft: Draft, original: Original, models: dict[str, Any]) -> None:
    """Fills the blocks topology, model, runtime, transport, endpoint, and the engines' own values."""
    _model(draft, original, models)
    for role, engine in original.engines.items():
        _engine(draft, role, engine)
    _mode(draft, original)
    if original.disaggregated:
        _transfer(draft, original)
        _kind(draft, original, models)
        _blocks(draft, models)
    _endpoint(draft, original)


def asks_for(original: Original, resource: str) -> dict[str, int]:
    """How many of a device one pod of each role asks for."""
    found = {}
    for role, group in original.homes.items():
        resources = mapping(group.ray_container.get("resources"))
        both = {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}
        text = str(both.get(resource, 0))
        found[role] = int(text) if text.isdigit() else 0
    return found


def on_cpu(original: Original) -> bool:
    """No engine computes on a GPU."""
    return not any(
        bundle.get("GPU") for engine in original.engines.values() for bundle in engine.bundles
    ) and not any(group.gpus for group in original.homes.values())


def _mode(draft: Draft, original: Original) -> None:
    if on_cpu(original):
        draft.put("runtime.device", "cpu")
    if original.disaggregated:
        return
    engine, group = original.engines["engine"], original.homes["engine"]
    per_pod = int(group.gpus) or engine.devices
    nodes = -(-engine.devices // per_pod)
    draft.put("topology.mode", "multinode" if nodes > 1 else "aggregated")
    if nodes > 1:
        draft.put("engine.parallelism.nodes", nodes)
        if not asks_for(original, EFA)["engine"]:
            draft.put("transport.fabric", "tcp")


def _model(draft: Draft, original: Original, models: dict[str, Any]) -> None:
    first = next(iter(original.engines.values()))
    place = f"{first.path}.model_loading_config"
    loading = mapping(first.config.get("model_loading_config"))
    identity = loading.get("model_id")
    source = loading.get("model_source", identity)
    if isinstance(source, dict):  # a mirror: {bucket_uri: ...}
        source = source.get("bucket_uri")
    if identity is not None:
        draft.put("model.id", identity)
    if isinstance(source, str):
        draft.put("model.source", source)
    for argument, key in SHARED.items():
        written = {
            role: engine.kwargs[argument]
            for role, engine in original.engines.items()
            if engine.kwargs.get(argument) is not None
        }
        if written:
            draft.put(f"model.{key}", next(iter(written.values())))
    if draft.get("model.dtype") is None:
        draft.put("model.dtype", "auto", "vLLM's default: the manifest names none")
    if draft.get("model.maxModelLen") is None:
        known = mapping(models.get(source) if isinstance(source, str) else None).get("maxModelLen")
        if known:
            draft.put("model.maxModelLen", known, "the model's own: the manifest names none")
        else:
            draft.lost(
                "RPD761",
                f"{first.path}.engine_kwargs.max_model_len",
                "The manifest names no length, and the chart needs one; the length of this model is "
                "not known.",
                "`model.maxModelLen`: the longest prompt and answer together that you serve.",
            )
    if source is None:
        draft.lost(
            "RPD761",
            place,
            "It names no model that the chart could load.",
            "`model.id` and `model.source`.",
        )


def _kind(draft: Draft, original: Original, models: dict[str, Any]) -> None:
    source = draft.get("model.source")
    if "kind" in mapping(models.get(source)):
        return
    hybrid = any(
        engine.kwargs.get("disable_hybrid_kv_cache_manager") is False
        for engine in original.engines.values()
    ) or any(env.get(CONV_LAYOUT) == "DS" for _, env in original.subject.environments)
    kind = "hybrid" if hybrid else "dense"
    draft.put("model.kind", kind, "a guess: look for layer_types in the model's config.json")
    first = next(iter(original.engines.values()))
    draft.changed(
        "RPD762",
        f"{first.path}.model_loading_config.model_source",
        f"Nothing is known about {shown(source)}; it is taken for {kind}, because the manifest "
        + ("sets" if hybrid else "does not set")
        + f" {CONV_LAYOUT}=DS or the hybrid KV cache manager.",
        "`model.kind`: hybrid where the model's config.json has layers of Mamba or linear attention.",
    )


def _blocks(draft: Draft, models: dict[str, Any]) -> None:
    """Where the original leaves blocks to vLLM, and the chart would not."""
    kind = draft.get("model.kind") or models[draft.get("model.source")]["kind"]
    if kind in transport()["blockSize"] and draft.get("model.blockSize") is None:
        draft.put("model.blockSize", 0)


def _engine(draft: Draft, role: str, engine: Engine) -> None:
    for argument, key in OF_ROLE.items():
        if engine.kwargs.get(argument) is not None:
            draft.put(f"{role}.{key}", engine.kwargs[argument])
    for argument, key in PARALLEL.items():
        if engine.kwargs.get(argument) is not None:
            draft.put(f"{role}.parallelism.{key}", engine.kwargs[argument])
    options = engine.deployment
    if "max_ongoing_requests" in options:
        draft.put(f"{role}.maxOngoingRequests", options["max_ongoing_requests"])
    scaling = options.get("autoscaling_config")
    if (isinstance(scaling, dict) and scaling) or options.get("num_replicas") == "auto":
        draft.put(f"{role}.autoscaling.enabled", True)
        for key, (name, default) in _SCALING.items():
            draft.put(f"{role}.autoscaling.{name}", mapping(scaling).get(key, default))
    else:
        draft.put(f"{role}.replicas", options.get("num_replicas", 1))
    experimental = mapping(engine.config.get("experimental_configs"))
    if PORT_BASE in experimental and role in ROLES:
        draft.put(f"transport.ports.{role}", experimental[PORT_BASE])


def _transfer(draft: Draft, original: Original) -> None:
    prefill, decode = original.engines["prefill"], original.engines["decode"]
    interfaces = max(asks_for(original, EFA).values())
    backends = [sequence(engine.extra.get("backends")) for engine in (prefill, decode)]
    if backends[0] != backends[1] or len(backends[0]) != 1:
        meant = "efa" if any("LIBFABRIC" in names for names in backends) or interfaces else "tcp"
        draft.changed(
            "RPD756",
            f"{decode.transfer_path}.kv_connector_extra_config.backends",
            "The roles do not name one and the same backend, so that KV goes over what NIXL has in "
            f"common: UCX, over TCP. The values say {meant}, because the pods "
            + ("ask for EFA." if interfaces else "ask for no EFA interface."),
            "`transport.fabric`: efa or tcp, the same on both roles by the chart.",
        )
    else:
        meant = "efa" if backends[0] == ["LIBFABRIC"] else "tcp"
    draft.put("transport.fabric", meant)
    if meant == "efa" and not interfaces:
        draft.changed(
            "RPD756",
            f"{original.homes['prefill'].pod_path}.containers[0].resources",
            f"KV is to go over EFA, and the pods ask for no {EFA}: the engines would find none.",
            "`transport.efa.interfacesPerPod`, which the chart sets to 1.",
        )
    for engine in (prefill, decode):
        _connector(draft, engine)
    for key, value in (
        ("leaseSeconds", prefill.extra.get("kv_lease_duration")),
        ("threads", prefill.extra.get("num_threads")),
        ("loadFailurePolicy", decode.transfer.get("kv_load_failure_policy")),
        ("bufferDevice", prefill.transfer.get("kv_buffer_device")),
    ):
        if value is not None:
            draft.put(f"transport.{key}", value)
    owned = ("backends", "kv_lease_duration", "num_threads")
    if extra := {k: v for k, v in prefill.extra.items() if k not in owned}:
        draft.put("transport.extraConfig", extra)
    experimental = mapping(decode.config.get("experimental_configs"))
    prewarm = bool(experimental.get("_prewarm_prefill_decode"))
    comment = "" if prewarm else "true makes the handshake before the first request"
    draft.put("transport.prewarm", prewarm, comment)


def _connector(draft: Draft, engine: Engine) -> None:
    connector = engine.transfer.get("kv_connector")
    if engine.transfer and connector not in NIXL[:1]:
        draft.lost(
            "RPD750",
            f"{engine.transfer_path}.kv_connector",
            f"The chart moves KV by NixlConnector alone, and this is {shown(connector)}.",
            "NixlConnector, or stay with your own manifest.",
        )
    elif not engine.transfer:
        draft.changed(
            "RPD753",
            engine.transfer_path,
            f"The {engine.role} role has no kv_transfer_config; the chart writes one.",
            "Nothing to do.",
        )
    role = engine.transfer.get("kv_role")
    if engine.transfer and role != ROLES[engine.role]:
        draft.changed(
            "RPD753",
            f"{engine.transfer_path}.kv_role",
            f"{shown(role)} becomes `{ROLES[engine.role]}`, the role of {engine.role} for NIXL.",
            "Nothing to do.",
        )


GUARD = "endpoint_guard.ray_ingress:GuardedIngress"
GUARDED_ENGINE = "endpoint_guard.ray_direct:GuardedEngine"  # with direct streaming
_OF_THE_RENDER = (
    "disaggregated",
    "context",
    "replicas",
    "api_keys",
)  # not values of the guard's own


def guarded(original: Original) -> bool:
    """Whether the chart's guard is the ingress, or stands in the engines that answer."""
    if original.subject.direct_streaming:
        homes = original.homes.values()
        classes = [mapping(home.env.get("RAYLLM_VLLM_ENGINE_CLS")).get("value") for home in homes]
        return all(each == GUARDED_ENGINE for each in classes)
    ingress = mapping(original.arguments.get("ingress_cls_config")).get("ingress_cls")
    return ingress == GUARD


def _settings(original: Original) -> dict[str, Any]:
    """The guard's, by the names of endpoint_guard/settings.py."""
    settings: dict[str, Any] = {}
    for deployment in map(mapping, sequence(original.application.get("deployments"))):
        settings |= mapping(deployment.get("user_config"))
    for other in original.others if original.subject.direct_streaming else []:
        written = mapping(other.get("data")).get("settings.json")
        if isinstance(written, str):
            with suppress(ValueError):  # not the guard's
                settings |= mapping(json.loads(written))
    return settings


def _guard(draft: Draft, original: Original) -> None:
    """A release without the guard stays without it: it would refuse what is let through today."""
    if not guarded(original):
        draft.put("endpoint.guard.enabled", False)
        return
    for name, value in _settings(original).items():
        if name == "key_limits":
            limits = {key: _camel_keys(mapping(each)) for key, each in mapping(value).items()}
            draft.put("endpoint.guard.keyLimits", limits)
        elif name == "limits":
            for limit, number in _camel_keys(mapping(value)).items():
                draft.put(f"endpoint.guard.limits.{limit}", number)
        elif name not in _OF_THE_RENDER:
            draft.put(f"endpoint.guard.{_camel(name)}", value)
    head = original.subject.head
    for volume in map(mapping, sequence(head.pod.get("volumes"))):
        if volume.get("name") == "api-keys":
            secret = mapping(volume.get("secret")).get("secretName")
            draft.put("endpoint.guard.apiKeys.existingSecret", secret)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _camel_keys(written: dict[str, Any]) -> dict[str, Any]:
    return {_camel(key): value for key, value in written.items()}


def _endpoint(draft: Draft, original: Original) -> None:
    if original.subject.direct_streaming:
        draft.put("endpoint.directStreaming", True)
    draft.put("endpoint.routePrefix", original.application.get("route_prefix", "/"))
    options = ingress_options(original.application)
    if whole(options.get("num_replicas"), 0):
        draft.put("endpoint.replicas", options["num_replicas"])
    if "max_ongoing_requests" in options:
        draft.put("endpoint.maxOngoingRequests", options["max_ongoing_requests"])
    arguments = original.arguments
    _guard(draft, original)
    for key in ("proxy_cls_config", "proxy_deployment_config"):
        if arguments.get(key) is not None:
            draft.changed(
                "RPD753",
                f"{original.path}.args.{key}",
                "There is no proxy deployment any more: Ray ignores it, and the chart leaves it out.",
                "`endpoint` and `decode.replicas` shape what stands in its place.",
            )
    for path, application in original.subject.applications:
        if path != original.path:
            draft.lost(
                "RPD767",
                path,
                f"A release serves one model, and application {shown(application.get('name'))} is "
                "another.",
                "A release of its own.",
            )
    for i, config in enumerate(sequence(arguments.get("llm_configs"))[1:], 1):
        draft.lost(
            "RPD767",
            f"{original.path}.args.llm_configs[{i}]",
            "A release serves one model, and this is a further one"
            + (f", `{config}`." if isinstance(config, str) else "."),
            "A release of its own.",
        )
