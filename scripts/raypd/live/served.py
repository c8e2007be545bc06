"""What a release serves and with which pods: what `raypd verify` holds against what it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raypd import yaml_text
from raypd.lint.speed import transport
from raypd.lint.subject import EFA, GPU
from raypd.live.snapshot import ENGINES, HEAD, RAY_API, component_of, labels, running
from raypd.report import UsageError

if TYPE_CHECKING:
    from raypd.live.cluster import Cluster

Json = dict[str, Any]

_TELEMETRY_PORT = "9090"  # NIXL's default


@dataclass(frozen=True)
class Served:
    """`engines` has the running engine pods by component: "prefill" and "decode", or "engine".
    `door` is a pod whose port of Serve answers requests, `head` the pod of Ray's dashboard.
    `backends` are NIXL's, by component, as the serve config asks for them."""

    namespace: str
    model: str
    context: int  # tokens of prompt and answer
    prefix: str  # of the endpoint's URLs, "" for none
    engines: dict[str, list[Json]]
    backends: dict[str, list[str]]
    head: Json
    door: Json

    @property
    def disaggregated(self) -> bool:
        """Prompt and answer are to be computed by different engines."""
        return "prefill" in self.backends

    @property
    def pods(self) -> list[Json]:
        """All engine pods."""
        return [pod for pods in self.engines.values() for pod in pods]

    @property
    def floor(self) -> float | None:
        """GB/s that the path of KV gives at least when it works, where that was measured: between
        GPUs of one host, by UCX."""
        over_ucx = all(backends == ["UCX"] for backends in self.backends.values())
        hosts = {pod["spec"].get("nodeName") for pod in self.pods}
        with_gpu = all(_has(pod, GPU) for pod in self.pods)
        if self.disaggregated and over_ucx and with_gpu and len(hosts) == 1:
            return transport()["paths"]["sameHostPcie"]["floor"]
        return None


def find(cluster: Cluster, release: str, namespace: str) -> Served:
    """What the release serves from its active RayCluster.

    Raises UsageError when there is no such release, or when it does not serve.
    """
    selector = f"app.kubernetes.io/instance={release}"
    try:
        rayservices = cluster.list(f"{RAY_API}/namespaces/{namespace}/rayservices", selector)
    except LookupError:
        rayservices = []
    if not rayservices:
        raise UsageError(
            f"There is no release {release} of the chart in namespace {namespace}. `raypd up` makes"
            " one; --release and --namespace choose another."
        )
    pods = cluster.list(f"/api/v1/namespaces/{namespace}/pods", selector)
    return served(rayservices[0], pods)


def served(rayservice: Json, pods: list[Json]) -> Served:
    """The same from the RayService and the release's pods. Raises UsageError as `find` does."""
    name, namespace = rayservice["metadata"]["name"], rayservice["metadata"]["namespace"]
    active = (rayservice.get("status") or {}).get("activeServiceStatus") or {}
    raycluster = active.get("rayClusterName")
    ours = [p for p in pods if raycluster and labels(p).get("ray.io/cluster") == raycluster]
    ours = [pod for pod in ours if running(pod)]
    application = yaml_text.load(rayservice["spec"]["serveConfigV2"])["applications"][0]
    configs = _engine_configs(application["args"])
    engines = {role: [p for p in ours if component_of(p) == role] for role in configs}
    heads = [pod for pod in ours if component_of(pod) == HEAD]
    # The chart keeps the head out of the Service; its proxy answers all the same.
    doors = [pod for pod in ours if labels(pod).get("ray.io/serve") == "true"] or heads
    missing = [role for role, found in engines.items() if not found] + ([] if heads else [HEAD])
    if missing:
        raise UsageError(
            f"RayService {namespace}/{name} does not serve: no pod runs as {' or '.join(missing)}"
            f" of {f'RayCluster {raycluster}' if raycluster else 'an active RayCluster'}."
            " `raypd status` shows where it stands, `raypd doctor` why."
        )
    config = next(iter(configs.values()))
    return Served(
        namespace=namespace,
        model=config["model_loading_config"]["model_id"],
        context=int(config["engine_kwargs"]["max_model_len"]),
        prefix=(application.get("route_prefix") or "/").rstrip("/"),
        engines=engines,
        backends={
            role: _backends(c) for role, c in configs.items() if role in ("prefill", "decode")
        },
        head=heads[0],
        door=doors[0],
    )


def environment(pod: Json) -> dict[str, str]:
    """Variables of the pod's Ray container that have a plain value."""
    return {e["name"]: e["value"] for e in container(pod).get("env") or [] if "value" in e}


def container(pod: Json) -> Json:
    """The Ray container, which KubeRay wants to be the first."""
    return pod["spec"]["containers"][0]


def telemetry_port(pod: Json) -> int | None:
    """Port of NIXL's Prometheus exporter in the pod, None when it is not asked for."""
    env = environment(pod)
    if env.get("NIXL_TELEMETRY_EXPORTER", "").lower() != "prometheus":
        return None
    return int(env.get("NIXL_TELEMETRY_PROMETHEUS_PORT", _TELEMETRY_PORT))


def asks_for_efa(pod: Json) -> bool:
    """The pod was given EFA interfaces."""
    return _has(pod, EFA)


def _has(pod: Json, device: str) -> bool:
    limits = (container(pod).get("resources") or {}).get("limits") or {}
    return str(limits.get(device, "0")) != "0"


def _engine_configs(args: Json) -> dict[str, Json]:
    if "prefill_config" in args:
        return {"prefill": args["prefill_config"], "decode": args["decode_config"]}
    return {ENGINES[-1]: args["llm_configs"][0]}


def _backends(config: Json) -> list[str]:
    transfer = config["engine_kwargs"].get("kv_transfer_config") or {}
    # NIXL takes UCX where nothing is named.
    return (transfer.get("kv_connector_extra_config") or {}).get("backends") or ["UCX"]
