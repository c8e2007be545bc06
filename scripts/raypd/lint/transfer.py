"""How the KV cache moves between the roles (RPD330 to RPD369).

Rules of vLLM 0.26's KVTransferConfig and NixlConnector and of Ray 2.58's P/D builder. Unknown keys
of `kv_connector_extra_config` are ignored by vLLM without a word, so that a slip of the pen means
KV over TCP; that is why they are errors here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from raypd.lint.history import known_elsewhere
from raypd.lint.subject import Check, Engine, Subject, error, mapping, warning, whole
from raypd.report import Finding
from raypd.schema import nearest_key, shown

NIXL = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")
ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}

DEAD_VARIABLES = {"VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "kv_connector_extra_config.kv_lease_duration"}
SIDE_CHANNEL = ("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT")
CONV_LAYOUT = "VLLM_SSM_CONV_STATE_LAYOUT"
PORT_BASE = "NIXL_SIDE_CHANNEL_PORT_BASE"
DEFAULT_PORTS = {"prefill": 20000, "decode": 22000}  # Ray 2.58, prefill_decode/builder.py


def transfer_on_both_sides(subject: Subject) -> Iterator[Finding]:
    for engine in subject.pair or ():
        if not engine.transfer:
            yield error(
                "RPD330",
                engine.transfer_path,
                f"The {engine.role} role has no kv_transfer_config, so the application does not start.",
                f"kv_connector NixlConnector with kv_role {ROLES[engine.role]} and its backends.",
            )


def connector_named(subject: Subject) -> Iterator[Finding]:
    for engine in _with_transfer(subject):
        if not engine.transfer.get("kv_connector"):
            yield error(
                "RPD331",
                f"{engine.transfer_path}.kv_connector",
                "No connector is named.",
                "`NixlConnector`.",
            )


def connector_exists(subject: Subject) -> Iterator[Finding]:
    known = subject.contract.vllm["kv_connectors"]
    for engine in _with_transfer(subject):
        connector = engine.transfer.get("kv_connector")
        if (
            isinstance(connector, str)
            and connector
            and connector not in known
            and not engine.transfer.get("kv_connector_module_path")
        ):
            yield error(
                "RPD332",
                f"{engine.transfer_path}.kv_connector",
                f"vLLM has no connector `{connector}`."
                + known_elsewhere(
                    subject.contract,
                    "vllm",
                    lambda c, name=connector: name in c.vllm["kv_connectors"],
                ),
                nearest_key(connector, known),
            )


def connectors_agree(subject: Subject) -> Iterator[Finding]:
    yield from _unequal(subject, "RPD333", "kv_connector", lambda e: e.transfer.get("kv_connector"))


def role_given(subject: Subject) -> Iterator[Finding]:
    for engine in _with_transfer(subject):
        if engine.transfer.get("kv_role") is None:
            yield error(
                "RPD334",
                f"{engine.transfer_path}.kv_role",
                "There is no kv_role, and vLLM refuses a connector without one.",
                f"`{ROLES.get(engine.role, 'kv_producer')}`.",
            )


def role_kv_both(subject: Subject) -> Iterator[Finding]:
    for engine in _with_nixl(subject):
        if engine.transfer.get("kv_role") == "kv_both":
            yield warning(
                "RPD335",
                f"{engine.transfer_path}.kv_role",
                "`kv_both` is deprecated for NIXL and will be removed.",
                f"`{ROLES.get(engine.role, 'kv_producer')}`.",
            )


def role_right_way_round(subject: Subject) -> Iterator[Finding]:
    for engine in subject.pair or ():
        written = engine.transfer.get("kv_role")
        if written in ROLES.values() and written != ROLES[engine.role]:
            yield error(
                "RPD336",
                f"{engine.transfer_path}.kv_role",
                f"{engine.role} is `{written}`: the roles are the wrong way round.",
                f"`{ROLES[engine.role]}`.",
            )


def backends_given(subject: Subject) -> Iterator[Finding]:
    for engine in _with_nixl(subject):
        if not engine.extra.get("backends"):
            yield error(
                "RPD337",
                f"{engine.transfer_path}.kv_connector_extra_config.backends",
                "No NIXL backend is named, and NIXL then takes UCX without a word: over TCP where "
                "EFA was meant.",
                "`[LIBFABRIC]` for EFA, or `[UCX]` where TCP is what you want.",
            )


def backends_agree(subject: Subject) -> Iterator[Finding]:
    yield from _unequal(
        subject, "RPD338", "kv_connector_extra_config.backends", lambda e: e.extra.get("backends")
    )


def backends_exist(subject: Subject) -> Iterator[Finding]:
    known = subject.contract.nixl["backends"]
    for engine in _with_nixl(subject):
        backends = engine.extra.get("backends")
        path = f"{engine.transfer_path}.kv_connector_extra_config.backends"
        for backend in backends if isinstance(backends, list) else ():
            if backend not in known:
                yield error(
                    "RPD339",
                    path,
                    f"NIXL {subject.contract.nixl['source']['nixl']} has no backend `{backend}`; "
                    "names are in capitals."
                    + known_elsewhere(
                        subject.contract,
                        "nixl",
                        lambda c, name=backend: name in c.nixl["backends"],
                    ),
                    nearest_key(str(backend), known),
                )


def extra_keys_known(subject: Subject) -> Iterator[Finding]:
    known = subject.contract.vllm["nixl_extra_config"]
    fields = subject.contract.vllm["$defs"]["KVTransferConfig"]["properties"]
    for engine in _with_nixl(subject):
        for key in engine.extra:
            path = f"{engine.transfer_path}.kv_connector_extra_config.{key}"
            if key in fields:
                yield error(
                    "RPD341",
                    path,
                    "It is no key of the extra config and is ignored there.",
                    f"`{engine.transfer_path}.{key}`, one level higher.",
                )
            elif key not in known:
                yield error(
                    "RPD340",
                    path,
                    f"The NIXL connector reads no key `{key}` and ignores it without a word."
                    + known_elsewhere(
                        subject.contract,
                        "vllm",
                        lambda c, key=key: key in c.vllm["nixl_extra_config"],
                    ),
                    nearest_key(key, known),
                )


def extra_keys_in_place(subject: Subject) -> Iterator[Finding]:
    for engine in _with_transfer(subject):
        for key in subject.contract.vllm["nixl_extra_config"]:
            if key in engine.transfer:
                yield error(
                    "RPD341",
                    f"{engine.transfer_path}.{key}",
                    "It belongs into the connector's extra config; here vLLM refuses it.",
                    f"`{engine.transfer_path}.kv_connector_extra_config.{key}`.",
                )


def buffer_device(subject: Subject) -> Iterator[Finding]:
    devices = sorted(
        {d for ds in subject.contract.vllm["nixl_buffer_devices"].values() for d in ds}
    )
    for engine in _with_nixl(subject):
        device = engine.transfer.get("kv_buffer_device")
        if device is not None and device not in devices:
            yield error(
                "RPD342",
                f"{engine.transfer_path}.kv_buffer_device",
                f"NIXL registers no buffers on `{device}`.",
                f"One of {', '.join(devices)}.",
            )


def extra_values(subject: Subject) -> Iterator[Finding]:
    """Types that the connector takes for granted (nixl/base_worker.py, base_scheduler.py)."""
    positive = (
        "kv_lease_duration",
        "num_threads",
        "engine_ttl",
        "decoder_kv_blocks_ttl",
        "push_registration_timeout",
    )
    flags = ("enforce_handshake_compat", "bidirectional_kv_xfer")
    for engine in _with_nixl(subject):
        for key, value in engine.extra.items():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            wanted = None
            if (
                key == "backends"
                and value
                and not (isinstance(value, list) and all(isinstance(item, str) for item in value))
            ):
                wanted = "A list of names, such as `[LIBFABRIC]`."
            elif key in positive and not (is_number and value > 0):
                wanted = "A positive number."
            elif key in flags and not isinstance(value, bool):
                wanted = "true or false."
            elif key == "kv_recompute_threshold" and not (is_number and value >= 0):
                wanted = "A number of tokens, 0 or more."
            if wanted:
                yield error(
                    "RPD343",
                    f"{engine.transfer_path}.kv_connector_extra_config.{key}",
                    f"{shown(value)} is nothing that the NIXL connector can use.",
                    wanted,
                )


def dead_variables(subject: Subject) -> Iterator[Finding]:
    for path, env in subject.environments:
        for name, instead in DEAD_VARIABLES.items():
            if name in env:
                yield warning(
                    "RPD345",
                    f"{path}[{name}]",
                    "vLLM does not read this variable any more; it does nothing.",
                    f"`kv_transfer_config.{instead}`, in seconds.",
                )


def side_channel_not_global(subject: Subject) -> Iterator[Finding]:
    for path, env in subject.environments:
        for name in SIDE_CHANNEL:
            if name in env:
                yield error(
                    "RPD346",
                    f"{path}[{name}]",
                    "Ray sets it for each replica and keeps a value that is already there, so every "
                    "replica would use the same one.",
                    f"Take it out; `experimental_configs.{PORT_BASE}` moves the ports.",
                )


def side_channel_ports(subject: Subject) -> Iterator[Finding]:
    ranges: list[tuple[Engine, int, int]] = []
    for engine in subject.pair or ():
        base = mapping(engine.config.get("experimental_configs")).get(
            PORT_BASE, DEFAULT_PORTS[engine.role]
        )
        path = f"{engine.path}.experimental_configs.{PORT_BASE}"
        last = whole(base, -1) + engine.devices * max(engine.replicas[1], 1) - 1
        if whole(base, -1) < 1024 or last > 65535:
            yield error(
                "RPD347",
                path,
                f"{shown(base)} leaves no room for {engine.replicas[1]} replica(s) of "
                f"{engine.devices} device(s): ports go from 1024 to 65535.",
                f"{DEFAULT_PORTS[engine.role]}.",
            )
            continue
        for other, first, end in ranges:
            if base <= end and first <= last:
                yield error(
                    "RPD347",
                    path,
                    f"Ports {base} to {last} ({engine.role}: base + rank x devices) overlap with "
                    f"{first} to {end} ({other.role}).",
                    f"A base of {end + 1} or more, or one below {first - (last - base)}.",
                )
        ranges.append((engine, base, last))


class _Agreement(NamedTuple):
    """Something that the NIXL handshake or the application demands to be equal on both roles."""

    code: str
    place: str
    key: str
    default: Any
    why: str


_HASHED = "the NIXL handshake compares it and refuses to move KV"
AGREEMENTS = (
    _Agreement("RPD350", "model_loading_config", "model_id", None, "Ray refuses the application"),
    _Agreement("RPD351", "model_loading_config", "model_source", None, _HASHED),
    _Agreement("RPD352", "engine_kwargs", "revision", None, "the weights may differ"),
    _Agreement("RPD353", "engine_kwargs", "dtype", "auto", _HASHED),
    _Agreement("RPD354", "engine_kwargs", "kv_cache_dtype", "auto", _HASHED),
    _Agreement("RPD356", "engine_kwargs", "attention_backend", None, _HASHED),
    _Agreement("RPD357", "engine_kwargs", "disable_hybrid_kv_cache_manager", False, _HASHED),
)


def roles_agree(subject: Subject) -> Iterator[Finding]:
    """Both roles hold the same model in the same form."""
    for rule in AGREEMENTS:
        yield from _unequal(
            subject,
            rule.code,
            f"{rule.place}.{rule.key}",
            lambda engine, rule=rule: _or_default(
                mapping(engine.config.get(rule.place)).get(rule.key), rule.default
            ),
            rule.why,
            in_transfer=False,
        )


def block_sizes_agree(subject: Subject) -> Iterator[Finding]:
    if not subject.pair:
        return
    prefill, decode = (engine.kwargs.get("block_size") for engine in subject.pair)
    if prefill == decode:
        return
    path = f"{subject.pair[1].path}.engine_kwargs.block_size"
    remedy = f"{shown(prefill)}, as on prefill." if prefill else "The same on both roles."
    multiple = isinstance(prefill, int) and isinstance(decode, int) and decode % prefill == 0
    if multiple and not _hybrid(subject):
        yield warning(
            "RPD355",
            path,
            f"Blocks hold {decode} tokens on decode and {prefill} on prefill. vLLM then splits "
            "every block on its way.",
            remedy,
        )
    else:
        yield error(
            "RPD355",
            path,
            f"Blocks hold {shown(decode)} tokens on decode and {shown(prefill)} on prefill, and the "
            "handshake fails unless decode's is a multiple (for a hybrid model: the same).",
            remedy,
        )


def lengths_agree(subject: Subject) -> Iterator[Finding]:
    if not subject.pair:
        return
    prefill, decode = (engine.kwargs.get("max_model_len") for engine in subject.pair)
    if isinstance(prefill, int) and isinstance(decode, int) and prefill != decode:
        shorter = min(prefill, decode)
        yield warning(
            "RPD358",
            f"{subject.pair[1].path}.engine_kwargs.max_model_len",
            f"prefill takes {prefill} tokens and decode {decode}; a longer request than {shorter} "
            "is refused by one of the two only, in the middle of it.",
            "The same length on both roles.",
        )


def tensor_parallel_divides(subject: Subject) -> Iterator[Finding]:
    if not subject.pair:
        return
    prefill, decode = (whole(e.kwargs.get("tensor_parallel_size"), 1) for e in subject.pair)
    if min(prefill, decode) > 0 and max(prefill, decode) % min(prefill, decode):
        yield error(
            "RPD359",
            f"{subject.pair[1].path}.engine_kwargs.tensor_parallel_size",
            f"{decode} on decode and {prefill} on prefill: KV heads can only be split when one size "
            "divides the other.",
            f"{prefill}, a divisor or a multiple of it.",
        )


def pipeline_parallel_on_decode(subject: Subject) -> Iterator[Finding]:
    for engine in subject.pair or ():
        stages = whole(engine.kwargs.get("pipeline_parallel_size"), 1)
        if stages <= 1 or engine.transfer.get("kv_connector") not in NIXL:
            continue
        if engine.role == "decode" or _hybrid(subject):
            yield error(
                "RPD360",
                f"{engine.path}.engine_kwargs.pipeline_parallel_size",
                f"{stages} pipeline stages on {engine.role}: the NIXL connector supports none on "
                "decode, and for hybrid models on neither side.",
                "1; use tensor parallelism instead.",
            )


def hybrid_conv_layout(subject: Subject) -> Iterator[Finding]:
    if not (_hybrid(subject) and subject.pair):
        return
    for group in subject.workers:
        if group.env.get(CONV_LAYOUT, {}).get("value") != "DS" and not _in_runtime_env(subject):
            yield error(
                "RPD361",
                f"{group.env_path}[{CONV_LAYOUT}]",
                "The state of a hybrid model can only be moved in the layout `DS`; the engine stops "
                "at start without it.",
                f"`{CONV_LAYOUT}=DS` on both roles.",
            )


def hybrid_cache_manager(subject: Subject) -> Iterator[Finding]:
    for engine in subject.pair or ():
        if _hybrid(subject) and engine.kwargs.get("disable_hybrid_kv_cache_manager") is True:
            yield error(
                "RPD362",
                f"{engine.path}.engine_kwargs.disable_hybrid_kv_cache_manager",
                "A hybrid model needs the hybrid KV cache manager to move its state.",
                "`false`, or nothing.",
            )


def hybrid_buffer(subject: Subject) -> Iterator[Finding]:
    for engine in subject.pair or ():
        on_gpu = any(bundle.get("GPU") for bundle in engine.bundles)
        if _hybrid(subject) and on_gpu and engine.transfer.get("kv_buffer_device") == "cpu":
            yield error(
                "RPD363",
                f"{engine.transfer_path}.kv_buffer_device",
                "The NIXL connector cannot copy a hybrid model's state through host memory.",
                "`cuda`, or nothing.",
            )


CHECKS: list[Check] = [
    transfer_on_both_sides,
    connector_named,
    connector_exists,
    connectors_agree,
    role_given,
    role_kv_both,
    role_right_way_round,
    backends_given,
    backends_agree,
    backends_exist,
    extra_keys_known,
    extra_keys_in_place,
    buffer_device,
    extra_values,
    dead_variables,
    side_channel_not_global,
    side_channel_ports,
    roles_agree,
    block_sizes_agree,
    lengths_agree,
    tensor_parallel_divides,
    pipeline_parallel_on_decode,
    hybrid_conv_layout,
    hybrid_cache_manager,
    hybrid_buffer,
]


def _or_default(value: Any, default: Any) -> Any:
    return default if value is None else value


def _with_transfer(subject: Subject) -> list[Engine]:
    return [engine for engine in subject.engines if engine.transfer]


def _with_nixl(subject: Subject) -> list[Engine]:
    return [e for e in subject.engines if e.transfer.get("kv_connector") in NIXL]


def _hybrid(subject: Subject) -> bool:
    return (subject.model or {}).get("kind") == "hybrid"


def _in_runtime_env(subject: Subject) -> bool:
    return any(
        path.endswith("env_vars") and env.get(CONV_LAYOUT) == "DS"
        for path, env in subject.environments
    )


def _unequal(
    subject: Subject,
    code: str,
    key: str,
    value_of: Any,
    why: str = "KV cannot move between them",
    in_transfer: bool = True,
) -> Iterator[Finding]:
    """An error at decode's value when both roles have one and they differ."""
    if not subject.pair or (in_transfer and not all(e.transfer for e in subject.pair)):
        return
    prefill, decode = map(value_of, subject.pair)
    if prefill != decode:
        start = subject.pair[1].transfer_path if in_transfer else subject.pair[1].path
        yield error(
            code,
            f"{start}.{key}",
            f"decode has {shown(decode)} and prefill {shown(prefill)}: {why}.",
            "The same on both roles.",
        )
