"""What Ray Serve and Ray Serve LLM accept in serveConfigV2 (RPD300 to RPD329).

The API server takes serveConfigV2 for a string; Ray refuses it minutes later, on GPUs that are
already paid for. RPD301 to RPD306 are the contract itself, extracted from the packages; the rest are
rules that the programs check in code (Ray 2.58, ray.llm._internal.serve, and ray.serve.schema).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from raypd.data import load
from raypd.lint.contract import NAMES, Contract, Part
from raypd.lint.history import known_elsewhere
from raypd.lint.subject import (
    DIRECT_STREAMING,
    INGRESS,
    SERVE_CONFIG,
    Check,
    Engine,
    Subject,
    deployment_name,
    error,
    mapping,
    sequence,
    warning,
)
from raypd.lint.transfer import DEAD_VARIABLES
from raypd.report import Finding
from raypd.schema import is_within, nearest_key, schema_findings

FAMILY = "RPD30"

# Names that are known and refused or ignored have rules of their own, which say what to do.
_RENAMED_EXPERIMENTAL = "num_router_replicas"
_DEPRECATED_PROXY = ("proxy_cls_config", "proxy_deployment_config")
# Ray 2.58, serve/config.py, AutoscalingConfig: marked as deprecated there.
_DEPRECATED_SCALING = {
    "metrics_interval_s": "the variable RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S",
    "smoothing_factor": "`upscaling_factor` and `downscaling_factor`",
    "upscale_smoothing_factor": "`upscaling_factor`",
    "downscale_smoothing_factor": "`downscaling_factor`",
}


def outer_contract(subject: Subject) -> Iterator[Finding]:
    """Everything outside the applications' arguments."""
    yield from _contract_findings(
        subject,
        "ray",
        lambda contract: contract.ray_schema("ServeDeploySchema"),
        subject.rendered.serve_config,
        SERVE_CONFIG,
    )


def builder_contract(subject: Subject) -> Iterator[Finding]:
    """The arguments of each application, by the builder that its import path names."""
    in_files = [path for path, _ in subject.config_files]
    for path, application in subject.applications:
        builder = _builder(subject, application)
        if builder is None or not isinstance(application.get("args", {}), dict):
            continue
        own_rules = (_RENAMED_EXPERIMENTAL,)
        for finding in _contract_findings(
            subject,
            "ray",
            lambda contract, builder=builder: contract.ray_schema(builder),
            mapping(application.get("args")),
            f"{path}.args",
        ):
            if not finding.path.endswith(own_rules) and finding.path not in in_files:
                yield finding


def engine_contract(subject: Subject) -> Iterator[Finding]:
    """vLLM's arguments below engine_kwargs, those of kv_transfer_config included."""
    elsewhere = subject.contract.vllm["nixl_extra_config"]  # RPD341 says where they belong
    for engine in subject.engines:
        for finding in _contract_findings(
            subject, "vllm", Contract.engine_schema, engine.kwargs, f"{engine.path}.engine_kwargs"
        ):
            inside_transfer = finding.path.startswith(engine.transfer_path)
            key = finding.path.rpartition(".")[2]
            if not (inside_transfer and finding.code == "RPD301" and key in elsewhere):
                yield finding


def _contract_findings(
    subject: Subject,
    part: Part,
    schema_of: Callable[[Contract], dict[str, Any]],
    value: Any,
    at: str,
) -> Iterator[Finding]:
    """Where `value` breaks a contract; an unknown key or choice with the versions that know it."""
    broken: dict[str, list[str]] = {}  # by Ray version: the paths that its contract refuses

    def knows(contract: Contract, path: str) -> bool:
        if contract.ray_version not in broken:
            findings = schema_findings(schema_of(contract), value, FAMILY, at)
            broken[contract.ray_version] = [finding.path for finding in findings]
        return not any(is_within(path, other) for other in broken[contract.ray_version])

    for finding in schema_findings(schema_of(subject.contract), value, FAMILY, at):
        if finding.code in (f"{FAMILY}1", f"{FAMILY}4"):
            history = known_elsewhere(
                subject.contract, part, lambda contract, path=finding.path: knows(contract, path)
            )
            finding = finding.model_copy(update={"message": finding.message + history})
        yield finding


def builder_known(subject: Subject) -> Iterator[Finding]:
    builders = subject.contract.ray["builders"]
    for path, application in subject.applications:
        written = application.get("import_path")
        if not isinstance(written, str) or _builder(subject, application):
            continue
        if written.startswith("ray.serve.llm"):
            yield error(
                "RPD310",
                f"{path}.import_path",
                f"`{written}` is no application builder of Ray Serve LLM."
                + known_elsewhere(
                    subject.contract,
                    "ray",
                    lambda contract, written=written: written in contract.ray["builders"],
                ),
                nearest_key(written, builders),
            )
        elif ":" not in written and "." not in written:
            yield error(
                "RPD310",
                f"{path}.import_path",
                f"`{written}` is no import path: `module:object`.",
                f"`{next(iter(builders))}`, or `module:object` of your own.",
            )


def host_and_port(subject: Subject) -> Iterator[Finding]:
    for path, application in subject.applications:
        for key in ("host", "port"):
            if key in application:
                yield error(
                    "RPD311",
                    f"{path}.{key}",
                    "Ray Serve refuses it inside an application.",
                    f"`{SERVE_CONFIG}.http_options.{key}`.",
                )


def applications_differ(subject: Subject) -> Iterator[Finding]:
    for key, default in (("name", "default"), ("route_prefix", "/")):
        seen: dict[Any, str] = {}
        for path, application in subject.applications:
            value = application.get(key, default)
            if key == "name" and value == "":
                yield error("RPD312", f"{path}.name", "The name is empty.", "A name.")
            elif isinstance(value, str) and value in seen:
                yield error(
                    "RPD312",
                    f"{path}.{key}",
                    f"`{value}` is the {key} of {seen[value]} as well.",
                    f"A {key} of its own for each application.",
                )
            seen[str(value)] = path


def deployments_exist(subject: Subject) -> Iterator[Finding]:
    for path, application in subject.applications:
        engines = [e for e in subject.engines if e.path.startswith(f"{path}.")]
        known = [deployment_name(engine.role, engine.config) for engine in engines]
        if not known:
            continue  # made by something else than Ray Serve LLM
        known.append(INGRESS)
        for i, deployment in enumerate(map(mapping, sequence(application.get("deployments")))):
            name = str(deployment.get("name"))
            if name not in known:
                yield error(
                    "RPD313",
                    f"{path}.deployments[{i}].name",
                    f"The application has no deployment `{name}`, and Ray Serve refuses the whole "
                    "config.",
                    f"One of {', '.join(f'`{name}`' for name in known)}: Ray Serve LLM makes them of "
                    "the model id, with `--` for `/` and `_` for `.`.",
                )


def replicas_or_autoscaling(subject: Subject) -> Iterator[Finding]:
    for path, options in _deployments(subject):
        count = options.get("num_replicas")
        if isinstance(count, int) and options.get("autoscaling_config") is not None:
            yield error(
                "RPD314",
                f"{path}.num_replicas",
                f"num_replicas is fixed at {count} beside an autoscaling_config, and Ray Serve "
                "refuses both together.",
                "`auto` or nothing to scale, or no autoscaling_config.",
            )


def autoscaling_bounds(subject: Subject) -> Iterator[Finding]:
    for path, options in _deployments(subject):
        scaling = mapping(options.get("autoscaling_config"))
        low = scaling.get("min_replicas", 1)
        high = scaling.get("max_replicas", 1)
        start = scaling.get("initial_replicas", low)
        bounds = (low, start, high)
        if all(isinstance(n, int) for n in bounds) and not low <= start <= high:
            yield error(
                "RPD315",
                f"{path}.autoscaling_config",
                f"min_replicas {low}, initial_replicas {start} and max_replicas {high} are not in "
                "this order.",
                "min_replicas <= initial_replicas <= max_replicas (each is 1 unless given).",
            )


def no_placement_in_deployment(subject: Subject) -> Iterator[Finding]:
    for engine in subject.engines:
        for key in ("placement_group_bundles", "placement_group_strategy"):
            if key in mapping(engine.config.get("deployment_config")):
                yield error(
                    "RPD316",
                    f"{engine.path}.deployment_config.{key}",
                    "Ray Serve LLM makes the placement group itself and refuses it here.",
                    f"`{engine.path}.placement_group_config`.",
                )


def one_form_of_bundles(subject: Subject) -> Iterator[Finding]:
    for engine in subject.engines:
        config = mapping(engine.config.get("placement_group_config"))
        given = [k for k in ("bundles", "bundle_per_worker") if config.get(k) is not None]
        if engine.config.get("placement_group_config") is not None and len(given) != 1:
            yield error(
                "RPD317",
                f"{engine.path}.placement_group_config",
                "It holds both `bundles` and `bundle_per_worker`."
                if given
                else "It holds neither `bundles` nor `bundle_per_worker`.",
                "One of them: `bundle_per_worker` for the same bundle on every device.",
            )


def no_model_in_engine_kwargs(subject: Subject) -> Iterator[Finding]:
    for engine in subject.engines:
        places = {"model": "model_source", "served_model_name": "model_id"}
        for key, place in places.items():
            if key in engine.kwargs:
                yield error(
                    "RPD318",
                    f"{engine.path}.engine_kwargs.{key}",
                    "Ray Serve LLM sets it itself and refuses it here.",
                    f"`{engine.path}.model_loading_config.{place}`.",
                )


def executor_backend(subject: Subject) -> Iterator[Finding]:
    for engine in subject.engines:
        backend = engine.kwargs.get("distributed_executor_backend")
        if backend not in (None, "ray") and _hardware(engine) != "cpu":
            yield error(
                "RPD319",
                f"{engine.path}.engine_kwargs.distributed_executor_backend",
                f"`{backend}` is not allowed: on GPUs Ray Serve LLM runs vLLM over Ray.",
                "`ray`, or nothing.",
            )


def metrics_need_log_stats(subject: Subject) -> Iterator[Finding]:
    for engine in subject.engines:
        if engine.kwargs.get("disable_log_stats") and engine.config.get("log_engine_metrics", True):
            yield error(
                "RPD320",
                f"{engine.path}.engine_kwargs.disable_log_stats",
                "The engine's metrics are on, and they need the statistics that this turns off.",
                "`false`, or `log_engine_metrics: false` as well.",
            )


def accelerator_matches_bundles(subject: Subject) -> Iterator[Finding]:
    for engine in subject.engines:
        kind = engine.config.get("accelerator_type")
        if not isinstance(kind, str):
            continue
        wanted = "tpu" if kind.startswith("TPU") else "gpu"
        hardware = _hardware(engine) or wanted
        if hardware != wanted:
            yield error(
                "RPD321",
                f"{engine.path}.accelerator_type",
                f"`{kind}` is a {wanted.upper()}, and the placement bundles ask for "
                f"{'no device' if hardware == 'cpu' else hardware.upper()}.",
                f"{wanted.upper()} in the bundles, or no accelerator_type.",
            )


def deprecated_proxy(subject: Subject) -> Iterator[Finding]:
    known = subject.contract.ray["$defs"]["PDServingArgs"]["properties"]
    for path, application in subject.applications:
        for key in filter(known.__contains__, _DEPRECATED_PROXY):  # unknown since Ray 2.59
            if mapping(application.get("args")).get(key) is not None:
                yield warning(
                    "RPD322",
                    f"{path}.args.{key}",
                    "There is no proxy deployment any more; it is accepted and ignored.",
                    "Take it out. `ingress_cls_config` and `ingress_deployment_config` shape the "
                    "ingress, `decode_config.deployment_config` the deployment behind it.",
                )


def renamed_router_replicas(subject: Subject) -> Iterator[Finding]:
    for engine in subject.engines:
        if _RENAMED_EXPERIMENTAL in mapping(engine.config.get("experimental_configs")):
            yield error(
                "RPD323",
                f"{engine.path}.experimental_configs.{_RENAMED_EXPERIMENTAL}",
                "It has been renamed, and Ray Serve LLM refuses the old name.",
                "`num_ingress_replicas`.",
            )


def deprecated_autoscaling(subject: Subject) -> Iterator[Finding]:
    for path, options in _deployments(subject):
        for key, instead in _DEPRECATED_SCALING.items():
            if key in mapping(options.get("autoscaling_config")):
                yield warning(
                    "RPD324",
                    f"{path}.autoscaling_config.{key}",
                    "Deprecated in Ray Serve, to be removed.",
                    f"Use {instead}.",
                )


def direct_streaming_has_no_ingress(subject: Subject) -> Iterator[Finding]:
    on = subject.direct_streaming
    for path, application in subject.applications if on else []:
        for key in ("ingress_cls_config", "ingress_deployment_config"):
            if mapping(application.get("args")).get(key):
                yield error(
                    "RPD325",
                    f"{path}.args.{key}",
                    f"{DIRECT_STREAMING}=1 (at {on[0]}) makes the engine's server the ingress, and "
                    "Ray Serve LLM then refuses an ingress of its own.",
                    "Take it out, or the variable; `deployment_config` has the replicas.",
                )


def variables_known(subject: Subject) -> Iterator[Finding]:
    for path, env in subject.environments:
        for name in env:
            for part, prefix in (("vllm", "VLLM_"), ("ray", "RAY_SERVE_")):
                known = getattr(subject.contract, part)["environment"]
                if name.startswith(prefix) and name not in known and name not in DEAD_VARIABLES:
                    version = f"{NAMES[part]} {subject.contract.version_of(part)}"
                    history = known_elsewhere(
                        subject.contract,
                        part,
                        lambda c, part=part, name=name: name in getattr(c, part)["environment"],
                    )
                    near = [k for k in known if k.startswith(name[: len(prefix) + 4])]
                    yield warning(
                        "RPD326",
                        f"{path}[{name}]",
                        f"{version} knows no such variable and ignores it.{history}",
                        nearest_key(name, near),
                    )


def loaders_known(subject: Subject) -> Iterator[Finding]:
    loaders = load("loaders.yaml")
    for engine in subject.engines:
        name, path = engine.kwargs.get("load_format"), f"{engine.path}.engine_kwargs.load_format"
        if not isinstance(name, str):
            continue
        if name not in loaders:
            yield warning(
                "RPD309",
                path,
                f"vLLM has no loader `{name}`, and the engine ends at its start unless a plugin of the image"
                " brings it.",
                nearest_key(name, list(loaders)),
            )
        elif loaders[name].get("package") and not loaders[name].get("inImage"):
            extra = loaders[name].get("with")
            yield warning(
                "RPD309",
                path,
                f"The loader `{name}` needs the package {loaders[name]['package']}, which vLLM does not"
                " bring, and the default image does not have.",
                f"An image with {f'vllm[{extra}]' if extra else loaders[name]['package']};"
                " `fastsafetensors` is there, and `auto` needs nothing.",
            )


def queue_limit(subject: Subject) -> Iterator[Finding]:
    for path, options in _deployments(subject):
        limit = options.get("max_queued_requests")
        if isinstance(limit, int) and limit < 1 and limit != -1:
            yield error(
                "RPD327",
                f"{path}.max_queued_requests",
                f"{limit} is no limit.",
                "-1 for none, or a positive number.",
            )


def models_differ(subject: Subject) -> Iterator[Finding]:
    for path, application in subject.applications:
        seen: set[str] = set()
        for i, config in enumerate(sequence(mapping(application.get("args")).get("llm_configs"))):
            model = mapping(mapping(config).get("model_loading_config")).get("model_id")
            if isinstance(model, str) and model in seen:
                yield error(
                    "RPD328",
                    f"{path}.args.llm_configs[{i}].model_loading_config.model_id",
                    f"`{model}` is served twice by this application.",
                    "A model_id of its own for each model.",
                )
            seen.add(str(model))


def remote_lora_path(subject: Subject) -> Iterator[Finding]:
    schemes = ("s3://", "gs://", "abfss://", "azure://")
    for engine in subject.engines:
        path = mapping(engine.config.get("lora_config")).get("dynamic_lora_loading_path")
        if isinstance(path, str) and not path.startswith(schemes):
            yield error(
                "RPD329",
                f"{engine.path}.lora_config.dynamic_lora_loading_path",
                f"`{path}` is no address that Ray Serve LLM can load adapters from.",
                f"One that begins with {', '.join(schemes)}.",
            )


CHECKS: list[Check] = [
    outer_contract,
    builder_contract,
    engine_contract,
    builder_known,
    host_and_port,
    applications_differ,
    deployments_exist,
    replicas_or_autoscaling,
    autoscaling_bounds,
    no_placement_in_deployment,
    one_form_of_bundles,
    no_model_in_engine_kwargs,
    executor_backend,
    metrics_need_log_stats,
    accelerator_matches_bundles,
    deprecated_proxy,
    renamed_router_replicas,
    deprecated_autoscaling,
    direct_streaming_has_no_ingress,
    variables_known,
    loaders_known,
    queue_limit,
    models_differ,
    remote_lora_path,
]


def unknown_builders(subject: Subject) -> list[str]:
    """Import paths whose arguments no contract describes, for the list of what was not checked."""
    return [
        str(application.get("import_path"))
        for _, application in subject.applications
        if _builder(subject, application) is None
    ]


def _builder(subject: Subject, application: dict[str, Any]) -> str | None:
    return subject.contract.builder_arguments(application.get("import_path"))


def _hardware(engine: Engine) -> str | None:
    """gpu, tpu or cpu by the bundles, None where there are none (Ray then assumes a GPU)."""
    config = mapping(engine.config.get("placement_group_config"))
    if not config:
        return None
    bundles = [
        mapping(config.get("bundle_per_worker")),
        *map(mapping, sequence(config.get("bundles"))),
    ]
    for device in ("TPU", "GPU"):
        if any(bundle.get(device) for bundle in bundles):
            return device.lower()
    return "cpu"


def _deployments(subject: Subject) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, options) of every deployment that the serve config shapes."""
    for engine in subject.engines:
        yield f"{engine.path}.deployment_config", mapping(engine.config.get("deployment_config"))
    for path, application in subject.applications:
        ingress = mapping(mapping(application.get("args")).get("ingress_deployment_config"))
        yield f"{path}.args.ingress_deployment_config", ingress
        for i, deployment in enumerate(map(mapping, sequence(application.get("deployments")))):
            yield f"{path}.deployments[{i}]", deployment
