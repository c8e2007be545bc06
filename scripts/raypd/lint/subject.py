"""What the checks look at: one render, taken apart into the pieces that rules speak of.

A file under check may have any shape, so everything here gives an empty piece where something else
was written; that it is of the wrong shape is told by the rules about shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from raypd.lint.contract import Contract, contract_for
from raypd.render import Rendered
from raypd.report import Finding

CLUSTER = "spec.rayClusterConfig"
SERVE_CONFIG = "spec.serveConfigV2"
_CLASSES = {"prefill": "Prefill", "decode": "Decode"}  # in the names of deployments
GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"  # devices of a pod
DIRECT_STREAMING = "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING"
INGRESS = "OpenAiIngress"  # the name of Ray Serve LLM's ingress


def mapping(value: Any) -> dict[str, Any]:
    """`value` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def whole(value: Any, default: int) -> int:
    """`value` if it is a whole number, else `default`."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def number(value: Any) -> float:
    """`value` if it is a number, else 0."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def overridden(options: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """A deployment's options with those that the application's `deployments` give instead."""
    either = ("num_replicas", "autoscaling_config")
    kept = {} if not any(key in overrides for key in either) else dict.fromkeys(either)
    return {**{k: v for k, v in options.items() if k not in kept}, **overrides}


def deployment_name(role: str, config: dict[str, Any]) -> str:
    """The name that an LLMConfig's deployment gets (Ray 2.58, core/server/builder.py); `role` as in
    an Engine."""
    loading = mapping(config.get("model_loading_config"))
    made = str(loading.get("model_id", "")).replace("/", "--").replace(".", "_")
    written = mapping(config.get("deployment_config")).get("name", made)
    return f"{_CLASSES.get(role, 'LLMServer')}:{written}"


def quantity(value: Any) -> float:
    """A Kubernetes CPU or device count ("500m", "2", 4) as a number; 0 where there is none."""
    text = str(value if value is not None else 0)
    try:
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        return 0.0


@dataclass(frozen=True)
class Engine:
    """One LLMConfig of the serve config: `role` is prefill, decode, or engine[N] when aggregated."""

    role: str
    path: str
    config: dict[str, Any]
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The name that the chart gives to the group of its pods: prefill, decode or engine."""
        return self.role.partition("[")[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        return mapping(self.config.get("engine_kwargs"))

    @property
    def transfer(self) -> dict[str, Any]:
        return mapping(self.kwargs.get("kv_transfer_config"))

    @property
    def transfer_path(self) -> str:
        return f"{self.path}.engine_kwargs.kv_transfer_config"

    @property
    def extra(self) -> dict[str, Any]:
        return mapping(self.transfer.get("kv_connector_extra_config"))

    @property
    def deployment(self) -> dict[str, Any]:
        """Options of the deployment as Ray Serve takes them: a number of replicas in the overrides
        ends an autoscaling, and an autoscaling the number."""
        return overridden(mapping(self.config.get("deployment_config")), self.overrides)

    @property
    def devices(self) -> int:
        """Devices of one replica: tensor x pipeline parallel size."""
        sizes = (self.kwargs.get(f"{kind}_parallel_size") for kind in ("tensor", "pipeline"))
        tensor, pipeline = (max(whole(size, 1), 1) for size in sizes)
        return tensor * pipeline

    @property
    def replicas(self) -> tuple[int, int]:
        """Replicas at the start and at most."""
        scaling = mapping(self.deployment.get("autoscaling_config"))
        if scaling:
            fewest = whole(scaling.get("min_replicas"), 1)
            return whole(scaling.get("initial_replicas"), fewest), max(
                whole(scaling.get("max_replicas"), 1), fewest
            )
        count = whole(self.deployment.get("num_replicas"), 1)
        return count, count

    @property
    def bundles(self) -> list[dict[str, float]]:
        """Placement bundles of one replica as Ray makes them: the replica's own CPU is added to the
        first one (Ray 2.58, llm_server.py, _merge_replica_actor_and_child_actor_bundles).
        """
        config = mapping(self.config.get("placement_group_config"))
        workers = min(self.devices, 1024)  # a slip of the pen must not fill the memory
        if config.get("bundle_per_worker") is not None:
            written = [config["bundle_per_worker"]] * workers
        elif config:
            written = sequence(config.get("bundles"))
        else:
            written = [{"GPU": 1}] * workers
        bundles = [
            {str(name): number(amount) for name, amount in mapping(bundle).items()}
            for bundle in written
        ] or [{}]
        own = mapping(self.deployment.get("ray_actor_options"))
        replica = {"CPU": own.get("num_cpus", 1), **mapping(own.get("resources"))}
        for name, amount in replica.items():
            bundles[0][str(name)] = bundles[0].get(str(name), 0) + number(amount)
        return bundles

    @property
    def strategy(self) -> str:
        return str(mapping(self.config.get("placement_group_config")).get("strategy", "PACK"))


@dataclass(frozen=True)
class Group:
    """The head group or a worker group, with what its pods offer to Ray."""

    name: str
    path: str
    spec: dict[str, Any]

    @property
    def start_params(self) -> dict[str, Any]:
        return mapping(self.spec.get("rayStartParams"))

    @property
    def pod(self) -> dict[str, Any]:
        return mapping(mapping(self.spec.get("template")).get("spec"))

    @property
    def pod_path(self) -> str:
        return f"{self.path}.template.spec"

    @property
    def containers(self) -> list[dict[str, Any]]:
        return [mapping(container) for container in sequence(self.pod.get("containers"))]

    @property
    def ray_container(self) -> dict[str, Any]:
        """KubeRay takes the first container for Ray's."""
        return self.containers[0] if self.containers else {}

    @property
    def env(self) -> dict[str, dict[str, Any]]:
        """The Ray container's environment by name."""
        entries = map(mapping, sequence(self.ray_container.get("env")))
        return {str(entry["name"]): entry for entry in entries if "name" in entry}

    @property
    def env_path(self) -> str:
        return f"{self.pod_path}.containers[0].env"

    @property
    def custom_resources(self) -> dict[str, float]:
        """Custom resources of one pod, from rayStartParams.resources as KubeRay 1.6 reads them."""
        written = self.start_params.get("resources")
        resources = parse_resources(written) or {}
        return resources | {
            str(name): quantity(value)
            for name, value in mapping(self.spec.get("resources")).items()
            if str(name).lower() not in ("cpu", "memory")
        }

    @property
    def cpus(self) -> float:
        """CPUs of one pod in Ray's books: num-cpus, else the limit, else the request, rounded up
        (KubeRay 1.6, common/pod.go, generateRayStartCommand).
        """
        return self._offered("num-cpus", lambda name: name == "cpu", ("limits", "requests"))

    @property
    def gpus(self) -> float:
        """GPUs of one pod in Ray's books: num-gpus, else what the limits ask for."""
        return self._offered("num-gpus", lambda name: name.endswith("/gpu"), ("limits",))

    def _offered(self, param: str, is_it: Callable[[str], bool], places: tuple[str, ...]) -> float:
        if param in self.start_params:
            return quantity(self.start_params[param])
        resources = mapping(self.ray_container.get("resources"))
        for place in places:
            for name, value in mapping(resources.get(place)).items():
                if is_it(str(name)) and quantity(value):
                    return float(-(-quantity(value) // 1))
        return 0.0

    @property
    def pods(self) -> tuple[int, int]:
        """Pods at the start and at most (KubeRay makes `numOfHosts` pods of each replica)."""
        hosts = whole(self.spec.get("numOfHosts"), 1)
        most = whole(self.spec.get("maxReplicas"), 0)
        fewest = whole(self.spec.get("minReplicas"), 0)
        count = whole(self.spec.get("replicas"), fewest)
        return count * hosts, max(count, most) * hosts


def overrides_of(application: dict[str, Any], name: str) -> dict[str, Any]:
    """What the application's `deployments` say of the deployment of that name."""
    for entry in map(mapping, sequence(application.get("deployments"))):
        if entry.get("name") == name:
            return entry
    return {}


def ingress_options(application: dict[str, Any]) -> dict[str, Any]:
    """Options of the application's ingress, overrides included."""
    options = mapping(mapping(application.get("args")).get("ingress_deployment_config"))
    return overridden(options, overrides_of(application, INGRESS))


def parse_resources(written: Any) -> dict[str, float] | None:
    """rayStartParams.resources: a JSON mapping inside quotes for the shell. None if it is not one."""
    if written is None:
        return {}
    text = str(written).strip("'\"` ").replace('\\"', '"')
    try:
        parsed = json.loads(text)
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in parsed.values()):
        return None
    return parsed


@dataclass(frozen=True)
class Subject:
    """One render under check. `values` are the merged values, None where only manifests are known;
    `model` is the model's entry in the chart's table of shapes, empty when it is not there.
    """

    rendered: Rendered
    contract: Contract
    values: dict[str, Any] | None = None
    model: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        rendered: Rendered,
        values: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
    ) -> Subject:
        """With the contract of the Ray that the render names."""
        spec = mapping(rendered.rayservice.get("spec"))
        version = mapping(spec.get("rayClusterConfig")).get("rayVersion")
        return cls(rendered, contract_for(str(version)), values, model)

    @property
    def rayservice(self) -> dict[str, Any]:
        return self.rendered.rayservice

    @cached_property
    def annotations(self) -> dict[str, Any]:
        return mapping(mapping(self.rayservice.get("metadata")).get("annotations"))

    @cached_property
    def spec(self) -> dict[str, Any]:
        return mapping(self.rayservice.get("spec"))

    @cached_property
    def cluster(self) -> dict[str, Any]:
        return mapping(self.spec.get("rayClusterConfig"))

    @cached_property
    def head(self) -> Group:
        spec = mapping(self.cluster.get("headGroupSpec"))
        return Group("head", f"{CLUSTER}.headGroupSpec", spec)

    @cached_property
    def workers(self) -> list[Group]:
        return [
            Group(str(spec.get("groupName", i)), f"{CLUSTER}.workerGroupSpecs[{i}]", spec)
            for i, spec in enumerate(map(mapping, sequence(self.cluster.get("workerGroupSpecs"))))
        ]

    @property
    def groups(self) -> list[Group]:
        return [self.head, *self.workers]

    @cached_property
    def applications(self) -> list[tuple[str, dict[str, Any]]]:
        """(path, application) for each one in the serve config."""
        return [
            (f"{SERVE_CONFIG}.applications[{i}]", mapping(application))
            for i, application in enumerate(
                sequence(self.rendered.serve_config.get("applications"))
            )
        ]

    @cached_property
    def config_files(self) -> list[tuple[str, str]]:
        """(path, file name) of each LLMConfig that is given as a file of the image, as Ray allows."""
        found: list[tuple[str, str]] = []
        for path, application in self.applications:
            arguments = mapping(application.get("args"))
            written = [(key, arguments.get(key)) for key in ("prefill_config", "decode_config")]
            written += [
                (f"llm_configs[{i}]", config)
                for i, config in enumerate(sequence(arguments.get("llm_configs")))
            ]
            found += [
                (f"{path}.args.{key}", config) for key, config in written if isinstance(config, str)
            ]
        return found

    @cached_property
    def engines(self) -> list[Engine]:
        """Every LLMConfig written in the serve config, without those of `config_files`."""
        found: list[Engine] = []
        for path, application in self.applications:
            arguments = mapping(application.get("args"))
            written = [
                (role, f"{role}_config", arguments.get(f"{role}_config"))
                for role in ("prefill", "decode")
            ] + [
                (f"engine[{i}]", f"llm_configs[{i}]", config)
                for i, config in enumerate(sequence(arguments.get("llm_configs")))
            ]
            for role, key, config in written:
                if isinstance(config, dict):
                    overrides = overrides_of(application, deployment_name(role, config))
                    found.append(Engine(role, f"{path}.args.{key}", config, overrides))
        return found

    @cached_property
    def pair(self) -> tuple[Engine, Engine] | None:
        """(prefill, decode) of the disaggregated application, None if there is none."""
        by_role = {engine.role: engine for engine in self.engines}
        if "prefill" in by_role and "decode" in by_role:
            return by_role["prefill"], by_role["decode"]
        return None

    @property
    def direct_streaming(self) -> list[str]:
        """Paths of the environments that let engines answer clients themselves."""
        return [p for p, env in self.environments if str(env.get(DIRECT_STREAMING, "0")) == "1"]

    @cached_property
    def environments(self) -> list[tuple[str, dict[str, Any]]]:
        """(path, name -> value) of every place that sets an engine's environment: Ray containers and
        the runtime_env of applications, engines and replicas. A value from a reference is None.
        """
        found = [
            (group.env_path, {name: entry.get("value") for name, entry in group.env.items()})
            for group in self.groups
        ]
        holders = [(path, app) for path, app in self.applications]
        holders += [(engine.path, engine.config) for engine in self.engines]
        holders += [
            (
                f"{engine.path}.deployment_config.ray_actor_options",
                mapping(engine.deployment.get("ray_actor_options")),
            )
            for engine in self.engines
        ]
        for path, holder in holders:
            variables = mapping(mapping(holder.get("runtime_env")).get("env_vars"))
            if variables:
                named = {str(name): value for name, value in variables.items()}
                found.append((f"{path}.runtime_env.env_vars", named))
        return found


Check = Callable[[Subject], Iterator[Finding]]


def error(code: str, path: str, message: str, remedy: str) -> Finding:
    """A finding that would fail."""
    return Finding(code=code, severity="error", path=path, message=message, remedy=remedy)


def warning(code: str, path: str, message: str, remedy: str) -> Finding:
    """A finding that works today, and misleads or will stop working."""
    return Finding(code=code, severity="warning", path=path, message=message, remedy=remedy)
