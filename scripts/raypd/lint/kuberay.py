"""KubeRay's own rules (RPD2xx).

The API server stores a RayService that breaks them; the operator then refuses it with an event that
nobody sees at install time. Rules of KubeRay 1.6.2, controllers/ray/utils/validation.go, as far as
they concern a RayService, each with its own code; RPD238 and later are what the operator, the CRD or
Ray trip over further on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from raypd.lint.contract import known_versions
from raypd.lint.subject import (
    CLUSTER,
    Check,
    Group,
    Subject,
    error,
    mapping,
    parse_resources,
    sequence,
    warning,
)
from raypd.report import Finding

MAX_NAME = 47  # 53 of a RayCluster, less the suffix that KubeRay adds
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
GO_DURATION = re.compile(r"\+?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+")
LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

TIMEOUT = "ray.io/initializing-timeout"
FT_ENABLED = "ray.io/ft-enabled"
STORAGE_NAMESPACE = "ray.io/external-storage-namespace"
AUTOSCALER_V2 = "RAY_enable_autoscaler_v2"
INCREMENTAL = "NewClusterWithIncrementalUpgrade"
UPGRADE_TYPES = ("None", "NewCluster", INCREMENTAL)


def name_length(subject: Subject) -> Iterator[Finding]:
    name = _name(subject)
    if len(name) > MAX_NAME:
        yield error(
            "RPD201",
            "metadata.name",
            f"`{name}` has {len(name)} characters, and KubeRay refuses a RayService name of more "
            f"than {MAX_NAME}.",
            "A shorter release name, or `fullnameOverride`.",
        )


def name_form(subject: Subject) -> Iterator[Finding]:
    name = _name(subject)
    if not DNS_1035.fullmatch(name):
        yield error(
            "RPD202",
            "metadata.name",
            f"`{name}` is no DNS-1035 label: lower-case letters, digits and `-`, beginning with a "
            "letter and not ending with `-`.",
            "A release name that begins with a letter, or `fullnameOverride`.",
        )


def initializing_timeout(subject: Subject) -> Iterator[Finding]:
    value = subject.annotations.get(TIMEOUT)
    if value in (None, ""):
        return
    text = str(value)
    duration = GO_DURATION.fullmatch(text)
    seconds = re.fullmatch(r"\+?\d+", text)
    if (duration or seconds) and float("".join(re.findall(r"[1-9]", text)) or 0) > 0:
        return
    yield error(
        "RPD203",
        f'metadata.annotations["{TIMEOUT}"]',
        f"`{text}` is neither a positive Go duration nor a positive number of seconds.",
        'For example "30m" or "1800".',
    )


def kubernetes_token_auth(subject: Subject) -> Iterator[Finding]:
    if _auth(subject).get("enableK8sTokenAuth"):
        yield error(
            "RPD204",
            f"{CLUSTER}.authOptions.enableK8sTokenAuth",
            "KubeRay does not support Kubernetes token authentication for a RayService.",
            "Take it out; `authOptions.mode: token` alone is allowed.",
        )


def head_container(subject: Subject) -> Iterator[Finding]:
    if not subject.head.containers:
        yield error(
            "RPD205",
            f"{subject.head.pod_path}.containers",
            "The head group has no container.",
            "One container that runs Ray, as the first in the list.",
        )


def resources_twice(subject: Subject) -> Iterator[Finding]:
    for group in subject.groups:
        params = [p for p in ("num-cpus", "num-gpus", "memory", "resources") if _param(group, p)]
        if params and group.spec.get("resources"):
            yield error(
                "RPD206",
                f"{group.path}.resources",
                f"The group names resources here and in rayStartParams ({', '.join(params)}).",
                "Name them in one of the two places.",
            )


def labels_in_start_params(subject: Subject) -> Iterator[Finding]:
    for group in subject.groups:
        if "labels" in group.start_params:
            yield error(
                "RPD207",
                f"{group.path}.rayStartParams.labels",
                "KubeRay does not take Ray labels from rayStartParams.",
                "The group's own `labels`.",
            )


def label_syntax(subject: Subject) -> Iterator[Finding]:
    for group in subject.groups:
        for key, value in mapping(group.spec.get("labels")).items():
            if not _is_label_key(str(key)) or not _is_label_value(str(value)):
                yield error(
                    "RPD208",
                    f"{group.path}.labels[{key}]",
                    f"`{key}: {value}` is no Kubernetes label.",
                    "A key of up to 63 letters, digits, `-`, `_`, `.` (with an optional DNS prefix "
                    "and `/`), and a value of the same characters.",
                )


def worker_container(subject: Subject) -> Iterator[Finding]:
    for group in subject.workers:
        if not group.containers:
            yield error(
                "RPD209",
                f"{group.pod_path}.containers",
                f"Worker group `{group.name}` has no container.",
                "One container that runs Ray, as the first in the list.",
            )


def replica_bounds_present(subject: Subject) -> Iterator[Finding]:
    if _autoscaling(subject):
        return
    for group in subject.workers:
        missing = [key for key in ("minReplicas", "maxReplicas") if group.spec.get(key) is None]
        if missing:
            yield error(
                "RPD210",
                f"{group.path}.{missing[0]}",
                f"Worker group `{group.name}` lacks {' and '.join(missing)}, which KubeRay demands "
                "when autoscaling is off.",
                "Both, equal to `replicas` for a fixed size.",
            )


def replica_bounds_positive(subject: Subject) -> Iterator[Finding]:
    for group in subject.workers:
        for key in ("minReplicas", "maxReplicas"):
            if _is_negative(group.spec.get(key)):
                yield error(
                    "RPD211",
                    f"{group.path}.{key}",
                    f"{group.spec[key]} is negative.",
                    "0 or more.",
                )


def replica_bounds_order(subject: Subject) -> Iterator[Finding]:
    for group in subject.workers:
        low, high = group.spec.get("minReplicas"), group.spec.get("maxReplicas")
        if isinstance(low, int) and isinstance(high, int) and low > high:
            yield error(
                "RPD212",
                f"{group.path}.minReplicas",
                f"minReplicas {low} is larger than maxReplicas {high}.",
                f"minReplicas of at most {high}.",
            )


def group_idle_timeout(subject: Subject) -> Iterator[Finding]:
    for group in subject.workers:
        if _is_negative(group.spec.get("idleTimeoutSeconds")):
            yield error(
                "RPD213",
                f"{group.path}.idleTimeoutSeconds",
                f"{group.spec['idleTimeoutSeconds']} is negative.",
                "0 or more seconds.",
            )


def group_idle_timeout_needs_v2(subject: Subject) -> Iterator[Finding]:
    if _autoscaler_v2(subject) or _env_value(subject, AUTOSCALER_V2) in ("1", "true"):
        return
    for group in subject.workers:
        if group.spec.get("idleTimeoutSeconds") is not None:
            yield error(
                "RPD214",
                f"{group.path}.idleTimeoutSeconds",
                "A group's idle timeout works with autoscaler v2 alone, which is not on.",
                f"`{CLUSTER}.autoscalerOptions.version: v2`, or no idleTimeoutSeconds here.",
            )


def fault_tolerance_twice(subject: Subject) -> Iterator[Finding]:
    if subject.annotations.get(FT_ENABLED) and _ft_options(subject) is not None:
        yield error(
            "RPD215",
            f'metadata.annotations["{FT_ENABLED}"]',
            "GCS fault tolerance is configured by the annotation and by gcsFaultToleranceOptions.",
            "gcsFaultToleranceOptions alone.",
        )


def redis_without_fault_tolerance(subject: Subject) -> Iterator[Finding]:
    annotated = str(subject.annotations.get(FT_ENABLED, "")).lower() == "true"
    enabled = annotated or _ft_options(subject) is not None
    if not enabled and "RAY_REDIS_ADDRESS" in subject.head.env:
        yield error(
            "RPD216",
            f"{subject.head.env_path}[RAY_REDIS_ADDRESS]",
            "The variable turns GCS fault tolerance on behind KubeRay's back.",
            "gcsFaultToleranceOptions.redisAddress.",
        )


def redis_password_param(subject: Subject) -> Iterator[Finding]:
    if _ft_options(subject) is not None and _param(subject.head, "redis-password"):
        yield error(
            "RPD217",
            f"{subject.head.path}.rayStartParams.redis-password",
            "Not allowed beside gcsFaultToleranceOptions.",
            "gcsFaultToleranceOptions.redisPassword.",
        )


def redis_password_variable(subject: Subject) -> Iterator[Finding]:
    if _ft_options(subject) is not None and "REDIS_PASSWORD" in subject.head.env:
        yield error(
            "RPD218",
            f"{subject.head.env_path}[REDIS_PASSWORD]",
            "Not allowed beside gcsFaultToleranceOptions.",
            "gcsFaultToleranceOptions.redisPassword, best from a Secret.",
        )


def redis_address_variable(subject: Subject) -> Iterator[Finding]:
    if _ft_options(subject) is not None and "RAY_REDIS_ADDRESS" in subject.head.env:
        yield error(
            "RPD219",
            f"{subject.head.env_path}[RAY_REDIS_ADDRESS]",
            "Not allowed beside gcsFaultToleranceOptions.",
            "gcsFaultToleranceOptions.redisAddress.",
        )


def storage_namespace_twice(subject: Subject) -> Iterator[Finding]:
    if _ft_options(subject) is not None and subject.annotations.get(STORAGE_NAMESPACE):
        yield error(
            "RPD220",
            f'metadata.annotations["{STORAGE_NAMESPACE}"]',
            "Not allowed beside gcsFaultToleranceOptions.",
            "gcsFaultToleranceOptions.externalStorageNamespace.",
        )


def redis_username(subject: Subject) -> Iterator[Finding]:
    places = {
        f"{subject.head.path}.rayStartParams.redis-username": _param(
            subject.head, "redis-username"
        ),
        f"{subject.head.env_path}[REDIS_USERNAME]": "REDIS_USERNAME" in subject.head.env,
    }
    for path, given in places.items():
        if given:
            yield error(
                "RPD221",
                path,
                "KubeRay does not take the Redis user from here.",
                "gcsFaultToleranceOptions.redisUsername.",
            )


def suspended_with_autoscaler(subject: Subject) -> Iterator[Finding]:
    if not _autoscaling(subject):
        return
    for group in subject.workers:
        if group.spec.get("suspend") is True:
            yield error(
                "RPD222",
                f"{group.path}.suspend",
                "A worker group cannot be suspended while the autoscaler is on.",
                "`suspend: false`, or no autoscaling.",
            )


def v2_variable_without_autoscaler(subject: Subject) -> Iterator[Finding]:
    if not _autoscaling(subject) and _env_value(subject, AUTOSCALER_V2) in ("1", "true"):
        yield error(
            "RPD223",
            f"{subject.head.env_path}[{AUTOSCALER_V2}]",
            "Autoscaler v2 is asked for while autoscaling is off.",
            f"`{CLUSTER}.enableInTreeAutoscaling: true`, or no such variable.",
        )


def v2_twice(subject: Subject) -> Iterator[Finding]:
    version = mapping(subject.cluster.get("autoscalerOptions")).get("version")
    if _autoscaling(subject) and version is not None and AUTOSCALER_V2 in subject.head.env:
        yield error(
            "RPD224",
            f"{subject.head.env_path}[{AUTOSCALER_V2}]",
            "The autoscaler's version is set here and in autoscalerOptions.version.",
            "autoscalerOptions.version alone.",
        )


def v2_restart_policy(subject: Subject) -> Iterator[Finding]:
    if not (_autoscaling(subject) and _autoscaler_v2(subject)):
        return
    for group in subject.groups:
        if group.pod.get("restartPolicy") not in (None, "", "Never"):
            yield error(
                "RPD225",
                f"{group.pod_path}.restartPolicy",
                f"{group.pod['restartPolicy']} is not allowed with autoscaler v2.",
                "`Never`, or nothing.",
            )


def autoscaler_idle_timeout(subject: Subject) -> Iterator[Finding]:
    seconds = mapping(subject.cluster.get("autoscalerOptions")).get("idleTimeoutSeconds")
    if _is_negative(seconds):
        yield error(
            "RPD226",
            f"{CLUSTER}.autoscalerOptions.idleTimeoutSeconds",
            f"{seconds} is negative.",
            "0 or more seconds.",
        )


def token_auth_version(subject: Subject) -> Iterator[Finding]:
    if _auth(subject).get("mode") != "token":
        return
    version = _version(subject.cluster.get("rayVersion"))
    if version is None or version < (2, 52):
        yield error(
            "RPD227",
            f"{CLUSTER}.rayVersion",
            "authOptions.mode `token` needs a rayVersion of 2.52.0 or later, and "
            f"{subject.cluster.get('rayVersion')!r} is given.",
            "The Ray version of the image, 2.52.0 or later.",
        )


def cluster_upgrade_strategy(subject: Subject) -> Iterator[Finding]:
    if mapping(subject.cluster.get("upgradeStrategy")).get("type") is not None:
        yield error(
            "RPD228",
            f"{CLUSTER}.upgradeStrategy",
            "The strategy of a RayCluster that stands alone. The operator refuses the cluster that it "
            "makes of it, so that the RayService never gets past initializing.",
            "`spec.upgradeStrategy`, the RayService's own.",
        )


def head_service_name(subject: Subject) -> Iterator[Finding]:
    service = mapping(subject.head.spec.get("headService"))
    if mapping(service.get("metadata")).get("name"):
        yield error(
            "RPD229",
            f"{subject.head.path}.headService.metadata.name",
            "A RayService names its head service itself, anew for every cluster.",
            "No name here; the stable one is `<name>-head-svc`.",
        )


def upgrade_type(subject: Subject) -> Iterator[Finding]:
    kind = _upgrade(subject).get("type")
    if kind is not None and kind not in UPGRADE_TYPES:
        yield error(
            "RPD230",
            "spec.upgradeStrategy.type",
            f"`{kind}` is no upgrade strategy.",
            f"One of {', '.join(f'`{known}`' for known in UPGRADE_TYPES)}.",
        )


def deletion_delay(subject: Subject) -> Iterator[Finding]:
    if _is_negative(subject.spec.get("rayClusterDeletionDelaySeconds")):
        yield error(
            "RPD231",
            "spec.rayClusterDeletionDelaySeconds",
            f"{subject.spec['rayClusterDeletionDelaySeconds']} is negative.",
            "0 or more seconds.",
        )


def incremental_needs_autoscaler(subject: Subject) -> Iterator[Finding]:
    if _incremental(subject) is not None and not _autoscaling(subject):
        yield error(
            "RPD232",
            f"{CLUSTER}.enableInTreeAutoscaling",
            f"{INCREMENTAL} needs Ray's autoscaler, and it is off.",
            "`enableInTreeAutoscaling: true`, or another upgrade strategy.",
        )


def incremental_needs_options(subject: Subject) -> Iterator[Finding]:
    if _incremental(subject) is not None and not _upgrade(subject).get("clusterUpgradeOptions"):
        yield error(
            "RPD233",
            "spec.upgradeStrategy.clusterUpgradeOptions",
            f"{INCREMENTAL} needs its options, and there are none.",
            "stepSizePercent, intervalSeconds and gatewayClassName.",
        )


def incremental_surge(subject: Subject) -> Iterator[Finding]:
    options = _incremental(subject)
    if options and not _within(options.get("maxSurgePercent", 100), 0, 100):
        yield error(
            "RPD234",
            "spec.upgradeStrategy.clusterUpgradeOptions.maxSurgePercent",
            f"{options['maxSurgePercent']} is no percentage.",
            "0 to 100.",
        )


def incremental_step(subject: Subject) -> Iterator[Finding]:
    options = _incremental(subject)
    if options and not _within(options.get("stepSizePercent"), 0, 100):
        yield error(
            "RPD235",
            "spec.upgradeStrategy.clusterUpgradeOptions.stepSizePercent",
            f"{options.get('stepSizePercent')} is no percentage.",
            "0 to 100.",
        )


def incremental_interval(subject: Subject) -> Iterator[Finding]:
    options = _incremental(subject)
    if options and not _within(options.get("intervalSeconds"), 1, float("inf")):
        yield error(
            "RPD236",
            "spec.upgradeStrategy.clusterUpgradeOptions.intervalSeconds",
            f"{options.get('intervalSeconds')} is no positive number of seconds.",
            "1 or more.",
        )


def incremental_gateway(subject: Subject) -> Iterator[Finding]:
    options = _incremental(subject)
    if options and not options.get("gatewayClassName"):
        yield error(
            "RPD237",
            "spec.upgradeStrategy.clusterUpgradeOptions.gatewayClassName",
            f"{INCREMENTAL} moves traffic with a Gateway, and no class is named.",
            "The GatewayClass of the cluster.",
        )


def version_of_image(subject: Subject) -> Iterator[Finding]:
    version = str(subject.cluster.get("rayVersion") or "")
    for group in subject.groups:
        image = str(group.ray_container.get("image") or "")
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        in_tag = re.match(r"(\d+\.\d+\.\d+)", tag)
        if in_tag and in_tag[1] != version:
            yield error(
                "RPD238",
                f"{CLUSTER}.rayVersion",
                f"rayVersion is `{version}`, and the image of group `{group.name}` is tagged "
                f"`{tag}`. KubeRay and Ray's autoscaler go by rayVersion.",
                f"`{in_tag[1]}`, or the image of Ray {version}.",
            )


def version_known(subject: Subject) -> Iterator[Finding]:
    if subject.contract.known:
        return
    version = subject.cluster.get("rayVersion")
    yield warning(
        "RPD239",
        f"{CLUSTER}.rayVersion",
        f"Ray {version} is not among the versions whose contract is known, so the serve config was "
        f"checked against {subject.contract.versions}."
        if version
        else "No rayVersion is given, so KubeRay and the checks must guess.",
        f"One of {', '.join(known_versions())}, with an image of that version.",
    )


def one_image(subject: Subject) -> Iterator[Finding]:
    images = {str(g.ray_container["image"]) for g in subject.groups if "image" in g.ray_container}
    if len(images) > 1:
        yield warning(
            "RPD240",
            CLUSTER,
            f"The groups run different images: {', '.join(sorted(images))}. Ray refuses to join "
            "nodes of different Ray or Python versions.",
            "One image for head and workers.",
        )


def start_params_are_strings(subject: Subject) -> Iterator[Finding]:
    for group in subject.groups:
        for key, value in group.start_params.items():
            if not isinstance(value, str):
                yield error(
                    "RPD241",
                    f"{group.path}.rayStartParams.{key}",
                    f"{value!r} is no string, and the CRD takes only strings here.",
                    f'"{value}", in quotes.',
                )


def variables_are_strings(subject: Subject) -> Iterator[Finding]:
    for group in subject.groups:
        for c, container in enumerate(group.containers):
            for entry in map(mapping, sequence(container.get("env"))):
                value = entry.get("value")
                if value is not None and not isinstance(value, str):
                    yield error(
                        "RPD242",
                        f"{group.pod_path}.containers[{c}].env[{entry.get('name')}]",
                        f"{value!r} is no string, and Kubernetes takes only strings here.",
                        f'"{value}", in quotes.',
                    )


def resources_are_readable(subject: Subject) -> Iterator[Finding]:
    for group in subject.groups:
        written = group.start_params.get("resources")
        if parse_resources(written) is None:
            yield error(
                "RPD243",
                f"{group.path}.rayStartParams.resources",
                f"{written!r} is no JSON mapping of names to numbers, so `ray start` fails.",
                """For example '"{\\"prefill\\": 1}"'.""",
            )


def dead_thresholds(subject: Subject) -> Iterator[Finding]:
    for key in ("serviceUnhealthySecondThreshold", "deploymentUnhealthySecondThreshold"):
        if key in subject.spec:
            yield warning(
                "RPD244",
                f"spec.{key}",
                "KubeRay does not use this field any more (kuberay issue 1685).",
                f"The annotation `{TIMEOUT}`, or nothing.",
            )


def group_names_differ(subject: Subject) -> Iterator[Finding]:
    names = [group.name for group in subject.workers]
    for i, group in enumerate(subject.workers):
        if group.name in names[:i]:
            yield error(
                "RPD245",
                f"{group.path}.groupName",
                f"Two worker groups are named `{group.name}`; KubeRay counts the pods of both as one.",
                "A name of its own for each group.",
            )


def upgrade_needs_spare_gpus(subject: Subject) -> Iterator[Finding]:
    """Only for manifests: with values the chart's own rule asks for the user's word."""
    kind = _upgrade(subject).get("type") or "NewCluster"
    gpus = sum(group.gpus * group.pods[0] for group in subject.workers)
    if subject.values is None and kind == "NewCluster" and gpus:
        yield warning(
            "RPD246",
            "spec.upgradeStrategy.type",
            "Under NewCluster (KubeRay's default) a change of a pod template starts a second "
            f"cluster beside the first, which needs {gpus:g} more GPUs; without them it pends for ever.",
            "`None`, unless that many GPUs are spare.",
        )


CHECKS: list[Check] = [
    name_length,
    name_form,
    initializing_timeout,
    kubernetes_token_auth,
    head_container,
    resources_twice,
    labels_in_start_params,
    label_syntax,
    worker_container,
    replica_bounds_present,
    replica_bounds_positive,
    replica_bounds_order,
    group_idle_timeout,
    group_idle_timeout_needs_v2,
    fault_tolerance_twice,
    redis_without_fault_tolerance,
    redis_password_param,
    redis_password_variable,
    redis_address_variable,
    storage_namespace_twice,
    redis_username,
    suspended_with_autoscaler,
    v2_variable_without_autoscaler,
    v2_twice,
    v2_restart_policy,
    autoscaler_idle_timeout,
    token_auth_version,
    cluster_upgrade_strategy,
    head_service_name,
    upgrade_type,
    deletion_delay,
    incremental_needs_autoscaler,
    incremental_needs_options,
    incremental_surge,
    incremental_step,
    incremental_interval,
    incremental_gateway,
    version_of_image,
    version_known,
    one_image,
    start_params_are_strings,
    variables_are_strings,
    resources_are_readable,
    dead_thresholds,
    group_names_differ,
    upgrade_needs_spare_gpus,
]


def _name(subject: Subject) -> str:
    return str(mapping(subject.rayservice.get("metadata")).get("name", ""))


def _param(group: Group, name: str) -> bool:
    return group.start_params.get(name) not in (None, "")


def _autoscaling(subject: Subject) -> bool:
    return subject.cluster.get("enableInTreeAutoscaling") is True


def _autoscaler_v2(subject: Subject) -> bool:
    return mapping(subject.cluster.get("autoscalerOptions")).get("version") == "v2"


def _auth(subject: Subject) -> dict[str, Any]:
    return mapping(subject.cluster.get("authOptions"))


def _ft_options(subject: Subject) -> Any:
    return subject.cluster.get("gcsFaultToleranceOptions")


def _upgrade(subject: Subject) -> dict[str, Any]:
    return mapping(subject.spec.get("upgradeStrategy"))


def _incremental(subject: Subject) -> dict[str, Any] | None:
    """The options of an incremental upgrade; None under another strategy."""
    if _upgrade(subject).get("type") != INCREMENTAL:
        return None
    return mapping(_upgrade(subject).get("clusterUpgradeOptions"))


def _env_value(subject: Subject, name: str) -> Any:
    return subject.head.env.get(name, {}).get("value")


def _is_negative(value: Any) -> bool:
    return isinstance(value, (int, float)) and value < 0


def _within(value: Any, low: float, high: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high


def _version(text: Any) -> tuple[int, ...] | None:
    numbers = re.match(r"v?(\d+)\.(\d+)", str(text or ""))
    return tuple(map(int, numbers.groups())) if numbers else None


def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(LABEL_NAME.fullmatch(name)) and (
        not slash or (len(prefix) <= 253 and bool(DNS_SUBDOMAIN.fullmatch(prefix)))
    )


def _is_label_value(value: str) -> bool:
    return value == "" or bool(LABEL_NAME.fullmatch(value))
