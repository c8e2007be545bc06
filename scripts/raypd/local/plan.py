"""From the rendered RayService to what has to be started here: one Ray node for each of its pods.

Pure: nothing is started, no file is touched. What KubeRay would do with the same manifest is done
the same way (the shell words of rayStartParams, CPUs from the limit or else the request); what one
host cannot give to several pods is replaced, and every replacement is listed in `Plan.replaced`.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from raypd.lint.subject import GPU
from raypd.report import UsageError

HOST = "127.0.0.1"

# `ray start` options that name a port or an address: every pod has its own, one host has one set.
PORTS = (
    "port",
    "dashboard-port",
    "ray-client-server-port",
    "metrics-export-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "node-manager-port",
    "object-manager-port",
    "runtime-env-agent-port",
)
HEAD_PORTS = ("port", "dashboard-port", "ray-client-server-port")
CACHES = (
    "HF_HOME",
    "VLLM_CACHE_ROOT",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
)
_REPLACED_OPTIONS = {*PORTS, "min-worker-port", "max-worker-port", "dashboard-host", "block"}


@dataclass(frozen=True)
class NodePlan:
    """One pod of the RayCluster as a Ray node: `name` is GROUP-NUMBER, "head" for the head.

    `options` are those of `ray start` (without ports), `env` the container's variables; `mounts` has the
    files of each mounted ConfigMap and Secret, by name, under the path that they are mounted at.
    """

    name: str
    group: str
    options: dict[str, str]
    env: dict[str, str]
    mounts: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """Cards that the pod asks for."""
        return int(self.options.get("num-gpus", "0"))


@dataclass(frozen=True)
class Plan:
    """The head first, then every worker; the serve config as it was rendered; and what differs."""

    nodes: list[NodePlan]
    serve_config: dict[str, Any]
    replaced: list[str] = field(default_factory=list)

    @property
    def model_id(self) -> str:
        """The name that clients ask for."""
        return _first(_llm_configs(self.serve_config))["model_loading_config"]["model_id"]

    @property
    def model_source(self) -> str:
        """Where its files come from: a folder, or a name on the hub."""
        return _first(_llm_configs(self.serve_config))["model_loading_config"]["model_source"]

    @property
    def caches(self) -> dict[str, str]:
        """The folders that the engines' caches are in, by the variable that names each."""
        return {
            name: env[name] for env in (n.env for n in self.nodes) for name in CACHES if name in env
        }

    @property
    def max_model_len(self) -> int:
        """Tokens of the longest prompt and answer together."""
        return _first(_llm_configs(self.serve_config))["engine_kwargs"]["max_model_len"]

    @property
    def disaggregated(self) -> bool:
        """True when prompt and answer are computed by different engines."""
        return "prefill_config" in _application(self.serve_config)["args"]

    @property
    def one_worker_per_pod(self) -> bool:
        """True when no engine is spread over several processes by tensor or pipeline parallelism."""
        kwargs = [config.get("engine_kwargs") or {} for config in _llm_configs(self.serve_config)]
        keys = ("tensor_parallel_size", "pipeline_parallel_size")
        return all(k.get(key, 1) == 1 for k in kwargs for key in keys)

    @property
    def backends(self) -> list[str]:
        """NIXL's transports, as the serve config names them; [] without KV transfer."""
        transfer = _first(_llm_configs(self.serve_config))["engine_kwargs"].get(
            "kv_transfer_config"
        )
        return (transfer or {}).get("kv_connector_extra_config", {}).get("backends", [])


def plan(
    rayservice: Mapping[str, Any],
    serve_config: Mapping[str, Any],
    manifests: Iterable[Mapping[str, Any]] = (),
    caller_env: Mapping[str, str] | None = None,
    gpus: int = 0,
) -> Plan:
    """What to start for `rayservice` (parsed), whose parsed serveConfigV2 is `serve_config`, on a
    machine with so many GPUs.

    ConfigMaps and Secrets that variables refer to are looked for in `manifests`; a Secret that is
    not there (a token) is taken from the variable of the same name in `caller_env`.
    """
    namespace = rayservice["metadata"].get("namespace", "default")
    sources = _Sources(manifests, caller_env or {}, namespace)
    cluster = rayservice["spec"]["rayClusterConfig"]
    nodes = [_node("head", "head", cluster["headGroupSpec"], sources)]
    for group in cluster.get("workerGroupSpecs") or []:
        pods = _replicas(group) * (group.get("numOfHosts") or 1)
        nodes += [
            _node(f"{group['groupName']}-{n}", group["groupName"], group, sources)
            for n in range(pods)
        ]
    nodes, shared = _with_gpus(nodes, gpus)
    replaced = [
        f"ports of `ray start`: free ones for each node, all on {HOST} (pods have addresses of their own)",
        "proxy: one, on the head's node (the nodes share one address), on a free port",
        "object store: at most 128 MiB for each node (they share this machine's /dev/shm)",
        "NIXL side channel: on a loopback address of this run, so that runs do not meet",
        "ports of the engines (VLLM_PORT): a range for each node, since engines that look for a free one"
        " at the same time find the same",
        *shared,
        *sources.notes,
    ]
    return Plan(nodes, dict(serve_config), replaced)


def _with_gpus(nodes: list[NodePlan], gpus: int) -> tuple[list[NodePlan], list[str]]:
    """The nodes with their cards, and what is to be said of it. Where the pods ask for more cards
    than there are, nodes share them: each believes that its cards are its own."""
    asked = sum(node.gpus for node in nodes)
    if asked == 0:
        return nodes, [
            "NIXL's progress thread: waits for data; it would keep one core busy for each engine"
        ]
    most = max(node.gpus for node in nodes)
    if most > gpus:
        raise UsageError(
            f"the render asks for {most} GPU{'s' * (most > 1)} in one pod, and this machine has {gpus}."
            " Render for the CPU: values/local-cpu.yaml, or --set runtime.device=cpu."
        )
    cards = itertools.cycle(range(gpus))
    given = {node.name: ",".join(str(next(cards)) for _ in range(node.gpus)) for node in nodes}
    placed = [replace(n, env={**n.env, "CUDA_VISIBLE_DEVICES": given[n.name]}) for n in nodes]
    if asked <= gpus:
        return placed, []
    return placed, [
        f"GPUs: the pods ask for {asked}, here is {gpus}; engines share a card, so what each takes of its"
        " memory (gpuMemoryUtilization) must be little enough"
    ]


def _replicas(group: Mapping[str, Any]) -> int:
    """As many as the group starts with: `replicas` is left out where an autoscaler owns it."""
    replicas = group.get("replicas")
    return replicas if replicas is not None else group.get("minReplicas") or 1


def _node(name: str, group: str, spec: Mapping[str, Any], sources: _Sources) -> NodePlan:
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    parameters = {key: _word(text) for key, text in (spec.get("rayStartParams") or {}).items()}
    options = {k: v for k, v in parameters.items() if k not in _REPLACED_OPTIONS}
    options |= {k: v for k, v in _capacity(container).items() if k not in options}
    if labels := spec.get("labels"):
        options["labels"] = ",".join(f"{key}={text}" for key, text in labels.items())
    if extra := spec.get("resources"):  # KubeRay's own short form for rayStartParams.resources
        options["resources"] = json.dumps({k: float(v) for k, v in extra.items()})
    store = int(options.get("object-store-memory", 128 * 2**20))
    options["object-store-memory"] = str(min(store, 128 * 2**20))
    env, mounts = sources.environment(name, container), sources.mounts(pod, container)
    return NodePlan(name, group, options, env, mounts)


def _word(text: str) -> str:
    """KubeRay pastes rayStartParams into a shell command: quotes in them are the shell's."""
    words = shlex.split(str(text))
    return words[0] if words else ""


def _capacity(container: Mapping[str, Any]) -> dict[str, str]:
    """num-cpus, memory and num-gpus as KubeRay derives them from a container's resources."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    options = {}
    if (cpu := limits.get("cpu", requests.get("cpu"))) is not None:
        options["num-cpus"] = str(math.ceil(quantity(cpu)))
    if (memory := limits.get("memory", requests.get("memory"))) is not None:
        options["memory"] = str(int(quantity(memory)))
    options["num-gpus"] = str(int(quantity(limits.get(GPU, 0))))
    return options


_SUFFIXES = {
    "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def quantity(text: str | float) -> float:
    """A Kubernetes quantity as a number: "500m" -> 0.5, "6Gi" -> 6442450944."""
    written = str(text)
    digits = written.rstrip("".join({c for suffix in _SUFFIXES for c in suffix}))
    suffix = written[len(digits) :]
    try:
        return float(digits) * (_SUFFIXES[suffix] if suffix else 1)
    except (KeyError, ValueError):
        raise UsageError(
            f"{written!r} is no Kubernetes quantity; write for example 500m, 2 or 6Gi."
        ) from None


class _Sources:
    """Where the value of a variable comes from, and notes on what could not be had."""

    def __init__(
        self, manifests: Iterable[Mapping[str, Any]], caller_env: Mapping[str, str], namespace: str
    ) -> None:
        self.notes: list[str] = []
        self._objects = {
            (m["kind"], m["metadata"]["name"]): {**_data(m), **(m.get("stringData") or {})}
            for m in manifests
            if m.get("kind") in ("ConfigMap", "Secret")
        }
        self._caller_env = caller_env
        self._namespace = namespace

    def environment(self, node: str, container: Mapping[str, Any]) -> dict[str, str]:
        """The container's variables; those without a value here are left out and noted."""
        found = {}
        for entry in container.get("env") or []:
            name = entry["name"]
            text = (
                entry.get("value", "") if "valueFrom" not in entry else self._look_up(node, entry)
            )
            if text is None:
                self._note(f"{name}: left out, its {_first(entry['valueFrom'])} is not here")
            else:
                found[name] = text
        # Not a pod: the home and the user are the caller's, as are the rights to their files.
        return {name: text for name, text in found.items() if name not in ("HOME", "USER")}

    def mounts(
        self, pod: Mapping[str, Any], container: Mapping[str, Any]
    ) -> dict[str, dict[str, str]]:
        """The files of the ConfigMaps and Secrets that the container mounts; those that are not here are
        noted, and their folders are empty."""
        volumes = {volume["name"]: volume for volume in pod.get("volumes") or []}
        found = {}
        for mount in container.get("volumeMounts") or []:
            volume = volumes.get(mount["name"], {})
            for key, kind, named in (
                ("configMap", "ConfigMap", "name"),
                ("secret", "Secret", "secretName"),
            ):
                if key not in volume:
                    continue
                files = self._objects.get((kind, volume[key][named]))
                if files is None:
                    self._note(f"{mount['mountPath']}: empty, its {kind} is not here")
                found[mount["mountPath"]] = dict(files or {})
        return found

    def _look_up(self, node: str, entry: Mapping[str, Any]) -> str | None:
        source = entry["valueFrom"]
        if "fieldRef" in source:
            path = source["fieldRef"]["fieldPath"]
            fields = {"metadata.name": node, "metadata.namespace": self._namespace}
            if path in ("status.podIP", "status.hostIP"):
                self._note(f"{entry['name']}: {HOST} in place of {path}")
                return HOST
            return fields.get(path)
        for key, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
            if key in source:
                data = self._objects.get((kind, source[key]["name"]), {})
                return data.get(source[key]["key"], self._caller_env.get(entry["name"]))
        return None

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _data(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The `data` of a ConfigMap or a Secret as text."""
    data = manifest.get("data") or {}
    if manifest["kind"] == "Secret":
        return {key: base64.b64decode(text).decode() for key, text in data.items()}
    return dict(data)


def _application(serve_config: Mapping[str, Any]) -> Mapping[str, Any]:
    return serve_config["applications"][0]


def _llm_configs(serve_config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The engines' configs: decode and prefill, or the list of an aggregated application."""
    args = _application(serve_config)["args"]
    return [args[k] for k in ("decode_config", "prefill_config") if k in args] or args[
        "llm_configs"
    ]


def _first(items: Iterable[Any]) -> Any:
    return next(iter(items))
