"""What stands around the pods: the RayService's own options, and the objects beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raypd.importer.draft import Draft
from raypd.importer.quantity import as_bytes, as_cpu
from raypd.importer.read import Original, is_of_chart
from raypd.lint.subject import CLUSTER, mapping, sequence

# Kinds that live longer than a release, or that an administrator makes.
_OUTSIDE = ("Namespace", "PersistentVolume", "StorageClass", "CustomResourceDefinition")
# What the chart makes of these when it is told to, for its own renders.
_SWITCHES = {
    "NetworkPolicy": "networkPolicy.enabled",
    "PrometheusRule": "monitoring.prometheusRule.enabled",
    "ConfigMap": "monitoring.dashboards.enabled",
    "Job": "cache.prefetch.enabled",
}


def objects(draft: Draft, original: Original) -> None:
    """Fills upgrade, endpoint.service, gcsFaultTolerance, autoscaler, and what other objects say."""
    _upgrade(draft, original)
    _service(draft, original)
    _fault_tolerance(draft, original)
    _autoscaler(draft, original)
    if any(is_of_chart(m) for m in original.others):
        budgets = [_name(m) for m in original.others if m.get("kind") == "PodDisruptionBudget"]
        for role in original.homes:
            if not any(name.endswith(f"-{role}") for name in budgets):
                draft.put(f"{role}.podDisruptionBudget.enabled", False)
        if not any(m.get("kind") == "NetworkPolicy" and is_of_chart(m) for m in original.others):
            draft.put("networkPolicy.enabled", False)
    extra = [m for m in original.others if not _mapped(draft, original, m)]
    if extra:
        draft.put("extraObjects", extra)


def _name(manifest: dict[str, Any]) -> str:
    return str(mapping(manifest.get("metadata")).get("name"))


def _upgrade(draft: Draft, original: Original) -> None:
    spec = original.subject.spec
    kind = mapping(spec.get("upgradeStrategy")).get("type")
    if kind == "None":
        draft.put("upgrade.strategy", "None")
    else:
        gpus = sum(group.gpus * group.pods[0] for group in original.subject.workers)
        if kind == "NewCluster":
            draft.put("upgrade.strategy", "NewCluster")
            draft.put("upgrade.spareCapacity", True, "are as many nodes again to be had?")
        draft.changed(
            "RPD765",
            "spec.upgradeStrategy.type",
            "KubeRay's NewCluster starts a second cluster beside the first at every change of a pod, "
            f"with {gpus:g} more GPUs."
            + ("" if kind else " The manifest leaves it to that default; the chart says None."),
            "`upgrade.strategy: None`, unless the nodes for it exist (`upgrade.spareCapacity`).",
        )
    if isinstance(spec.get("rayClusterDeletionDelaySeconds"), int):
        draft.put("upgrade.deletionDelaySeconds", spec["rayClusterDeletionDelaySeconds"])


def _service(draft: Draft, original: Original) -> None:
    service = mapping(original.subject.spec.get("serveService"))
    if kind := mapping(service.get("spec")).get("type"):
        draft.put("endpoint.service.type", kind)
    if annotations := mapping(mapping(service.get("metadata")).get("annotations")):
        draft.put("endpoint.service.annotations", annotations)


def _fault_tolerance(draft: Draft, original: Original) -> None:
    """KubeRay's options, or the annotation and variables that they replaced."""
    options = mapping(original.subject.cluster.get("gcsFaultToleranceOptions"))
    head = original.subject.head
    address = options.get("redisAddress") or head.env.get("RAY_REDIS_ADDRESS", {}).get("value")
    if not address:
        return
    draft.put("gcsFaultTolerance.enabled", True)
    draft.put("gcsFaultTolerance.redisAddress", str(address))
    password = mapping(options.get("redisPassword")) or head.env.get("REDIS_PASSWORD", {})
    secret = mapping(mapping(password.get("valueFrom")).get("secretKeyRef"))
    if secret:
        draft.put("gcsFaultTolerance.passwordSecret.name", secret.get("name"))
        draft.put("gcsFaultTolerance.passwordSecret.key", secret.get("key", "password"))
    space = options.get("externalStorageNamespace") or original.subject.annotations.get(
        "ray.io/external-storage-namespace"
    )
    if space:
        draft.put("gcsFaultTolerance.externalStorageNamespace", space)
    if not options:
        draft.changed(
            "RPD753",
            f"{head.env_path}[RAY_REDIS_ADDRESS]",
            "KubeRay's gcsFaultToleranceOptions take the place of the annotation and variables.",
            "Nothing to do: `gcsFaultTolerance` is set.",
        )
        for name in ("REDIS_PASSWORD", "RAY_REDIS_ADDRESS"):
            draft.told.add(f"{head.env_path}[{name}]")
        for name in ("ray.io/ft-enabled", "ray.io/external-storage-namespace"):
            draft.told.add(f'metadata.annotations["{name}"]')


def _autoscaler(draft: Draft, original: Original) -> None:
    cluster = original.subject.cluster
    options = mapping(cluster.get("autoscalerOptions"))
    if isinstance(options.get("idleTimeoutSeconds"), int):
        draft.put("autoscaler.idleTimeoutSeconds", options["idleTimeoutSeconds"])
    limits = mapping(mapping(options.get("resources")).get("limits"))
    for key, convert in (("cpu", as_cpu), ("memory", as_bytes)):
        if value := convert(limits.get(key)):
            draft.put(f"autoscaler.resources.{key}", value)
    scaled = any(draft.get(f"{role}.autoscaling.enabled") for role in original.homes)
    if cluster.get("enableInTreeAutoscaling") is True and not scaled:
        draft.changed(
            "RPD763",
            f"{CLUSTER}.enableInTreeAutoscaling",
            "Ray's autoscaler is on, and no engine has an autoscaling_config, so the number of pods "
            "is fixed; the chart leaves the autoscaler out.",
            "`prefill.autoscaling` or `decode.autoscaling` of the values to scale.",
        )
        draft.told.add(f"{CLUSTER}.autoscalerOptions")


def _mapped(draft: Draft, original: Original, manifest: dict[str, Any]) -> bool:
    """Values speak of this object, or it stays outside of the release."""
    kind, name = str(manifest.get("kind")), _name(manifest)
    own = is_of_chart(manifest)
    if kind in ("Secret", *_OUTSIDE) or (kind == "PersistentVolumeClaim" and not own):
        draft.changed(
            "RPD768",
            f"{kind}/{name}",
            "It stays outside of the release, which uses it by its name"
            + (
                ": values are no place for secrets."
                if kind == "Secret"
                else " and does not own it."
            ),
            "Keep it applied as it is now.",
        )
        return True
    if kind == "ServiceAccount" and name == original.subject.head.pod.get("serviceAccountName"):
        return True
    if mapper := _MAPPERS.get(kind):
        return mapper(draft, original, manifest)
    if own:
        if kind in _SWITCHES:
            draft.put(_SWITCHES[kind], True)
        return True
    return not manifest.get("apiVersion") or not mapping(manifest.get("metadata")).get("name")


def _claim(draft: Draft, original: Original, manifest: dict[str, Any]) -> bool:
    spec = mapping(manifest.get("spec"))
    mapping(draft.get("cache.persistentVolumeClaim")).pop("existingClaim", None)
    draft.put("cache.persistentVolumeClaim.accessModes", spec.get("accessModes"))
    draft.put("cache.persistentVolumeClaim.storageClassName", spec.get("storageClassName", ""))
    size = as_bytes(mapping(mapping(spec.get("resources")).get("requests")).get("storage"))
    draft.put("cache.persistentVolumeClaim.size", size)
    annotations = mapping(mapping(manifest.get("metadata")).get("annotations"))
    draft.put("cache.persistentVolumeClaim.keep", "helm.sh/resource-policy" in annotations)
    return True


def _budget(draft: Draft, original: Original, manifest: dict[str, Any]) -> bool:
    least = mapping(manifest.get("spec")).get("minAvailable")
    for role, group in original.homes.items():
        if (
            is_of_chart(manifest)
            and _name(manifest).endswith(f"-{role}")
            and isinstance(least, int)
        ):
            fewest = max(int(group.spec.get("minReplicas") or 0), 0)
            draft.put(f"{role}.podDisruptionBudget.maxUnavailable", max(fewest - least, 0))
            return True
    _replaced(
        draft, manifest, "prefill.podDisruptionBudget", "two budgets on one pod stop evictions"
    )
    return True


def _monitor(draft: Draft, original: Original, manifest: dict[str, Any]) -> bool:
    draft.put("monitoring.podMonitor.enabled", True)
    spec = mapping(manifest.get("spec"))
    intervals = [mapping(e).get("interval") for e in sequence(spec.get("podMetricsEndpoints"))]
    if intervals and intervals[0]:
        draft.put("monitoring.podMonitor.interval", intervals[0])
    labels = mapping(mapping(manifest.get("metadata")).get("labels"))
    own = {k: v for k, v in labels.items() if not k.startswith(("app.kubernetes.io/", "helm.sh/"))}
    if own:
        draft.put("monitoring.podMonitor.labels", own)
    if not is_of_chart(manifest):
        _replaced(draft, manifest, "monitoring.podMonitor", "it selects pods by the chart's labels")
    return True


def _ingress(draft: Draft, original: Original, manifest: dict[str, Any]) -> bool:
    spec, metadata = mapping(manifest.get("spec")), mapping(manifest.get("metadata"))
    rules = [mapping(rule) for rule in sequence(spec.get("rules"))]
    paths = [
        mapping(path) for rule in rules for path in sequence(mapping(rule.get("http")).get("paths"))
    ]
    services = {
        str(mapping(mapping(path.get("backend")).get("service")).get("name")) for path in paths
    }
    simple = len(paths) == len(rules) and all(path.get("path") in (None, "/") for path in paths)
    if services != {f"{original.name}-serve-svc"} or not simple:
        return False
    draft.put("ingress.enabled", True)
    if spec.get("ingressClassName"):
        draft.put("ingress.className", spec["ingressClassName"])
    if annotations := mapping(metadata.get("annotations")):
        draft.put("ingress.annotations", annotations)
    if hosts := [rule["host"] for rule in rules if rule.get("host")]:
        draft.put("ingress.hosts", hosts)
    if spec.get("tls"):
        draft.put("ingress.tls", spec["tls"])
    if not is_of_chart(manifest):
        _replaced(draft, manifest, "ingress", "it has the name of the release")
    return True


def _route(draft: Draft, original: Original, manifest: dict[str, Any]) -> bool:
    if not is_of_chart(manifest):
        return False
    spec = mapping(manifest.get("spec"))
    draft.put("httpRoute.enabled", True)
    draft.put("httpRoute.parentRefs", sequence(spec.get("parentRefs")))
    draft.put("httpRoute.hostnames", sequence(spec.get("hostnames")))
    for rule in map(mapping, sequence(spec.get("rules"))):
        draft.put("httpRoute.timeout", str(mapping(rule.get("timeouts")).get("request", "")))
    return True


def _replaced(draft: Draft, manifest: dict[str, Any], value: str, why: str) -> None:
    draft.changed(
        "RPD774",
        f"{manifest.get('kind')}/{_name(manifest)}",
        f"The chart makes one of its own in its place: {why}.",
        f"`{value}` shapes it; delete the old one once the release runs.",
    )


_MAPPERS: dict[str, Callable[[Draft, Original, dict[str, Any]], bool]] = {
    "PersistentVolumeClaim": _claim,
    "PodDisruptionBudget": _budget,
    "PodMonitor": _monitor,
    "Ingress": _ingress,
    "HTTPRoute": _route,
}
