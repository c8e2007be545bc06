"""Writes the contracts: what Ray Serve, Ray Serve LLM, vLLM and NIXL really accept, as JSON Schema.

Runs in an environment that holds ray[llm], vLLM and nixl of the versions to describe, and needs
nothing else of this project:

    PYTHON_OF_THAT_ENVIRONMENT scripts/raypd/data/extract.py scripts/raypd/data/contracts

Only names, types, choices and bounds are kept. Where a program reads free-form mappings by hand, its
source is searched for the keys it reads.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import typing
import warnings
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

Schema = dict[str, Any]

# A type that YAML cannot write (a class, a callable): taken out of unions later.
_UNWRITABLE = {"x-unwritable": True}


class _Generator(GenerateJsonSchema):
    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Schema:
        return dict(_UNWRITABLE)

    def encode_default(self, dft: Any) -> Any:
        return None


def schema_of(annotation: Any) -> Schema:
    """JSON Schema of a type, without titles, prose and defaults; `$defs` of its own may remain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            generated = TypeAdapter(annotation).json_schema(schema_generator=_Generator)
        except Exception:  # a type pydantic cannot describe says nothing about YAML either
            return {}
    tidied = _tidy(generated)
    return {} if tidied == _UNWRITABLE else tidied


# Prose, and what Ray notes for itself beside a field. That a description begins with "deprecated" is
# kept as the keyword of that name.
_DEPRECATED = re.compile(r"\W*deprecated", re.IGNORECASE)
_LEFT_OUT = (
    "default",
    "deprecated",
    "description",
    "discriminator",
    "examples",
    "title",
    "update_type",
)


def _tidy(node: Any) -> Any:
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept: Schema = {}
    if _DEPRECATED.match(str(node.get("description", ""))):
        kept["deprecated"] = True
    for key, value in node.items():
        if key in _LEFT_OUT:
            continue
        named = key in ("properties", "$defs", "patternProperties")
        kept[key] = {k: _tidy(v) for k, v in value.items()} if named else _tidy(value)
    if "anyOf" in kept:
        forms = [form for form in kept.pop("anyOf") if form != _UNWRITABLE]
        kept |= forms[0] if len(forms) == 1 else {"anyOf": forms}
    return kept


def closed(schema: Schema) -> Schema:
    """The same mapping with unknown keys refused."""
    return {**schema, "additionalProperties": False}


def collect(definitions: Schema, name: str, schema: Schema) -> Schema:
    """Moves `schema` and the `$defs` inside it into `definitions`; returns a reference to it."""
    for inner, value in schema.pop("$defs", {}).items():
        definitions.setdefault(inner, value)
    definitions[name] = schema
    return {"$ref": f"#/$defs/{name}"}


def keys_read(source: str, mapping: str) -> list[str]:
    """String keys that `source` reads from `mapping` by .get("key") or ["key"]."""
    pattern = rf"{mapping}(?:\.get\(|\[)\s*[\"'](\w+)[\"']"
    return sorted(set(re.findall(pattern, source)))


def ray_contract() -> Schema:
    """Ray Serve's application schema and Ray Serve LLM's arguments below it."""
    from ray import serve
    from ray.llm._internal.common.placement import PlacementGroupConfig
    from ray.llm._internal.serve.core.configs import accelerators, llm_config
    from ray.llm._internal.serve.core.ingress.builder import IngressClsConfig, LLMServingArgs
    from ray.llm._internal.serve.engines.vllm.kv_transfer.factory import BUILTIN_BACKENDS
    from ray.llm._internal.serve.serving_patterns.prefill_decode.builder import PDServingArgs
    from ray.serve._private.config import DeploymentConfig
    from ray.serve.config import AutoscalingConfig
    from ray.serve.schema import RayActorOptionsSchema, ServeDeploySchema

    definitions: Schema = {}

    autoscaling = schema_of(AutoscalingConfig)
    collect(definitions, "AutoscalingConfig", closed(autoscaling))
    actor = closed(schema_of(RayActorOptionsSchema))
    collect(definitions, "RayActorOptions", actor)

    # Options of @serve.deployment: the names from its signature, the types from DeploymentConfig.
    types = schema_of(DeploymentConfig)
    definitions.update({k: v for k, v in types["$defs"].items() if k not in definitions})
    options = {
        name: types["properties"].get(name, {})
        for name in inspect.signature(serve.deployment).parameters
        if not name.startswith("_")
    }
    options["name"] = {"type": "string"}
    options["num_replicas"] = {
        "anyOf": [{"type": "integer", "minimum": 0}, {"const": "auto"}, {"type": "null"}]
    }
    options["ray_actor_options"] = {"$ref": "#/$defs/RayActorOptions"}
    options["autoscaling_config"] = {
        "anyOf": [{"$ref": "#/$defs/AutoscalingConfig"}, {"type": "null"}]
    }
    definitions["DeploymentOptions"] = closed({"type": "object", "properties": options})

    llm = schema_of(llm_config.LLMConfig)
    places = {
        "model_loading_config": llm_config.ModelLoadingConfig,
        "lora_config": llm_config.LoraConfig,
        "placement_group_config": PlacementGroupConfig,
    }
    for key, model in places.items():
        reference = collect(definitions, model.__name__, schema_of(model))
        optional = key not in llm["required"]
        llm["properties"][key] = {"anyOf": [reference, {"type": "null"}]} if optional else reference
    llm["properties"]["deployment_config"] = {"$ref": "#/$defs/DeploymentOptions"}
    llm["properties"]["engine_kwargs"] = {"type": "object"}  # vLLM's own contract describes it
    llm["properties"]["llm_engine"] = {"enum": [engine.value for engine in llm_config.LLMEngine]}
    accelerator_types = sorted({kind.value for kind in accelerators.AcceleratorType} | {"A10"})
    llm["properties"]["accelerator_type"] = {"enum": [*accelerator_types, None]}
    llm["properties"]["experimental_configs"] = closed(
        {"type": "object", "properties": {key: {} for key in _experimental_keys()}}
    )
    reference = collect(definitions, "LLMConfig", llm)
    ingress = collect(definitions, "IngressClsConfig", schema_of(IngressClsConfig))

    pd = schema_of(PDServingArgs)
    pd["properties"]["prefill_config"] = pd["properties"]["decode_config"] = reference
    one = schema_of(LLMServingArgs)
    one["properties"]["llm_configs"] = {"type": "array", "minItems": 1, "items": reference}
    for arguments in (pd, one):
        arguments["properties"]["ingress_cls_config"] = ingress
        arguments["properties"]["ingress_deployment_config"] = {"$ref": "#/$defs/DeploymentOptions"}
    collect(definitions, "PDServingArgs", pd)
    collect(definitions, "LLMServingArgs", one)

    deploy = schema_of(ServeDeploySchema)
    inner = deploy["$defs"]
    application = inner["ServeApplicationSchema"]
    application["properties"]["args"] = {"type": "object"}
    for name in ("ServeApplicationSchema", "HTTPOptionsSchema", "gRPCOptionsSchema"):
        inner[name] = closed(inner[name])
    inner["DeploymentSchema"] = closed(inner["DeploymentSchema"])
    collect(definitions, "ServeDeploySchema", closed(deploy))

    return {
        "source": {"ray": version("ray")},
        "builders": {
            "ray.serve.llm:build_pd_openai_app": "PDServingArgs",
            "ray.serve.llm:build_openai_app": "LLMServingArgs",
        },
        "kv_connectors": sorted(BUILTIN_BACKENDS),
        "environment": _ray_serve_variables(),
        "$defs": _reachable(definitions, ["ServeDeploySchema", "PDServingArgs", "LLMServingArgs"]),
    }


def _experimental_keys() -> list[str]:
    """Every key that Ray Serve LLM reads from `experimental_configs`, found in its sources."""
    import ray.llm._internal.serve as package

    root = Path(package.__file__).parent
    keys: set[str] = set()
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        keys.update(keys_read(source, "experimental_configs"))
        keys.update(re.findall(r'experimental_configs\.setdefault\(\s*"(\w+)"', source))
        # Keys kept in a constant that is named after what it is.
        keys.update(re.findall(r'^[A-Z_]+_KEY = "([A-Z][A-Z_]+)"$', source, re.MULTILINE))
        # Keys that LLMConfig's own description lists as supported.
        keys.update(re.findall(r'"- `(\w+)`: ', source))
    return sorted(keys)


def _ray_serve_variables() -> list[str]:
    """Every variable that Ray Serve and Ray Serve LLM read: they are written as whole words."""
    import ray.llm
    import ray.serve

    return sorted(
        {
            name
            for package in (ray.serve, ray.llm)
            for path in Path(package.__file__).parent.rglob("*.py")
            for name in re.findall(r"[\"'](RAY_SERVE_\w+)[\"']", path.read_text(encoding="utf-8"))
        }
    )


def vllm_contract() -> Schema:
    """Arguments of vLLM's engine and front end as `engine_kwargs` takes them, and the connectors'."""
    # The very classes that Ray hands engine_kwargs to: vLLM moves them between its modules.
    from ray.llm._internal.serve.engines.vllm.vllm_models import AsyncEngineArgs, FrontendArgs
    from vllm.config import KVTransferConfig
    from vllm.distributed.kv_transfer.kv_connector import factory
    from vllm.distributed.kv_transfer.kv_connector.v1 import nixl
    from vllm.distributed.kv_transfer.kv_connector.v1.nixl import utils

    definitions: Schema = {}
    transfer = schema_of(KVTransferConfig)
    collect(definitions, "KVTransferConfig", closed(transfer))

    arguments: Schema = {}
    for holder in (AsyncEngineArgs, FrontendArgs):
        for field in dataclasses.fields(holder):
            if not field.name.startswith("_"):
                arguments[field.name] = _argument(holder, field)
    arguments["kv_transfer_config"] = {
        "anyOf": [{"$ref": "#/$defs/KVTransferConfig"}, {"type": "null"}]
    }
    definitions["EngineKwargs"] = closed({"type": "object", "properties": arguments})

    folder = Path(nixl.__file__).parent
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    extra = set(re.findall(r'get_from_extra_config\(\s*"(\w+)"', source))
    extra.update(keys_read(source, "extra_config"))
    return {
        "source": {"vllm": _vllm_version()},
        "kv_connectors": sorted(factory.KVConnectorFactory._registry),
        "nixl_extra_config": sorted(extra),
        "nixl_buffer_devices": {
            k: list(v) for k, v in sorted(utils._NIXL_SUPPORTED_DEVICE.items())
        },
        "environment": sorted(_environment_variables()),
        "deprecated_environment": _deprecated_variables(arguments),
        "$defs": _reachable(definitions, ["EngineKwargs", "KVTransferConfig"]),
    }


def _argument(holder: type, field: dataclasses.Field) -> Schema:
    """One argument's schema. A default of None stands for "not given", so null is allowed then."""
    schema = _shallow(schema_of(_hint(holder, field)))
    if "attn_backend" in field.name or field.name == "attention_backend":
        # An enumeration of class paths that vLLM looks up by name, in any case.
        schema = {"type": "string"}
    if schema and field.default is None and {"type": "null"} not in schema.get("anyOf", []):
        schema = {"anyOf": [schema, {"type": "null"}]}
    return schema


def _hint(holder: type, field: dataclasses.Field) -> Any:
    """The field's type; Any where it names a type that exists for type checkers alone."""
    owner = next(c for c in holder.__mro__ if field.name in inspect.get_annotations(c))
    names = vars(sys.modules[owner.__module__])
    try:
        return typing.get_type_hints(
            type("Single", (), {"__annotations__": {field.name: field.type}}), names, None, True
        )[field.name]
    except NameError:
        return Any


def _vllm_version() -> str:
    """The version without the build's suffix (the CPU build is vLLM of the same number)."""
    import vllm

    return re.match(r"\d+(\.\d+)*", vllm.__version__)[0]


def _environment_variables() -> list[str]:
    from vllm import envs

    return [name for name in envs.environment_variables if name.startswith("VLLM_")]


def _deprecated_variables(arguments: Schema) -> Schema:
    """Variables that vLLM warns of when they are set: until which version it reads them, and the
    arguments to use instead, as far as its warning names any.
    """
    import vllm

    call = re.compile(r'deprecated_env\w*\(\s*"(VLLM_\w+)",\s*"v([\d.]+)",\s*"([^"]*)"')
    found: Schema = {}
    for path in sorted(Path(vllm.__file__).parent.rglob("*.py")):
        for name, until, advice in call.findall(path.read_text(encoding="utf-8")):
            words = re.findall(r"[\w-]+", advice)
            names = [word.lstrip("-").replace("-", "_") for word in words]
            found[name] = {"until": until, "instead": [n for n in names if n in arguments]}
    return found


def _shallow(schema: Schema) -> Schema:
    """An argument's schema with nested configurations as plain mappings of known names.

    What lies deeper belongs to the many sub-configurations of vLLM, which it checks by itself.
    """
    nested = schema.pop("$defs", {})

    def plain(node: Schema) -> Schema:
        if "$ref" in node:
            return plain(nested[node["$ref"].rsplit("/", 1)[1]])
        if "anyOf" in node:
            forms: list[Schema] = []
            for form in map(plain, node["anyOf"]):
                if form not in forms:
                    forms.append(form)
            return {} if {} in forms else (forms[0] if len(forms) == 1 else {"anyOf": forms})
        if node.get("type") == "object":
            return {"type": "object"}
        if node.get("type") == "array":
            return {"type": "array"}
        return node

    return plain(schema)


def nixl_contract() -> Schema:
    """The transports that NIXL's wheel carries, by the plugin files in it."""
    for name in ("nixl-cu13", "nixl-cu12"):
        try:
            files = distribution(name).files or []
        except Exception:
            continue
        plugins = {
            match[1] for file in files if (match := re.search(r"libplugin_(\w+)\.so", str(file)))
        }
        return {"source": {"nixl": version("nixl")}, "backends": sorted(plugins)}
    raise SystemExit("Neither nixl-cu13 nor nixl-cu12 is installed in this environment.")


def _reachable(definitions: Schema, roots: list[str]) -> Schema:
    """The definitions that the roots refer to, directly or not, in a stable order."""
    seen: set[str] = set()
    queue = list(roots)
    while queue:
        name = queue.pop()
        if name not in seen:
            seen.add(name)
            queue += re.findall(r'"#/\$defs/([^"]+)"', json.dumps(definitions[name]))
    return {name: definitions[name] for name in sorted(seen)}


def contracts() -> dict[str, Schema]:
    """File name -> contract, for the versions installed here."""
    found: dict[str, Schema] = {}
    for contract in (ray_contract(), vllm_contract(), nixl_contract()):
        ((name, number),) = contract["source"].items()
        found[f"{name}-{number}.json"] = contract
    return found


def written(contract: Schema) -> str:
    """The text of a contract's file."""
    return json.dumps(contract, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, contract in contracts().items():
        (folder / name).write_text(written(contract), encoding="utf-8")
        print(folder / name)
