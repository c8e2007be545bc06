"""Who serves: the roles of a deployment, with their engines, nodes and replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raypd.plan.cost import nodes_for
from raypd.plan.engine import Card, Engine, batch_defaults, card_of
from raypd.plan.wire import efa_rate, tcp_rate

DISAGGREGATED, AGGREGATED, MULTINODE = "disaggregated", "aggregated", "multinode"


@dataclass(frozen=True)
class Role:
    """Engines of one kind: `name` is prefill, decode, or engine. `facts` are those of `instance` in the
    chart's instances.yaml, and `interfaces` the EFA interfaces of a pod (0 without EFA).
    """

    name: str
    engine: Engine
    instance: str
    facts: Mapping[str, Any]
    replicas: int = 1
    pods: int = 1
    interfaces: int = 0

    @property
    def wire(self) -> float:
        """Bytes a second that one engine's pod sends or takes: EFA where it has interfaces, else TCP."""
        if self.interfaces:
            return efa_rate(
                self.facts["networkGbps"], self.facts["efa"]["interfaces"], self.interfaces
            )
        return tcp_rate(self.facts["networkGbps"])

    @property
    def nodes(self) -> int:
        per_pod = -(-self.engine.cards // self.pods)
        return nodes_for(self.replicas * self.pods, per_pod, self.facts["gpu"]["count"])


@dataclass(frozen=True)
class Deployment:
    """A model's roles and what they share."""

    mode: str
    roles: tuple[Role, ...]
    max_context: int
    fabric: str
    head: str

    def role(self, name: str) -> Role:
        return next(role for role in self.roles if role.name == name)

    @property
    def nodes(self) -> dict[str, int]:
        """Nodes by instance type, the head's included; roles of P/D do not share any."""
        count: dict[str, int] = {}
        for role in self.roles:
            count[role.instance] = count.get(role.instance, 0) + role.nodes
        if self.head:
            count[self.head] = count.get(self.head, 0) + 1
        return count


def of_values(
    values: Mapping[str, Any], instances: Mapping[str, Any]
) -> tuple[Deployment | None, list[str]]:
    """The deployment that merged values describe, and what of it cannot be known.

    None when the values name no card that can be computed with; the list says why.
    """
    mode = values["topology"]["mode"]
    unknown: list[str] = []
    if values["runtime"]["device"] == "cpu":
        return None, [
            "memory, rates and cost: runtime.device is cpu, and only GPUs are planned for"
        ]
    roles = []
    for name in ("prefill", "decode") if mode == DISAGGREGATED else ("engine",):
        block = values[name]
        facts = instances.get(block["instanceType"])
        card = card_of(facts["gpu"]) if facts and facts["gpu"]["count"] else None
        if facts is None or card is None:
            kind = block["instanceType"] or "empty"
            unknown.append(f"{name}: its instanceType is {kind}, so its card is not known")
            continue
        roles.append(_role(name, block, values, facts, card))
        if block["autoscaling"]["enabled"]:
            unknown.append(f"{name}: autoscaling is counted at maxReplicas")
    if len(roles) != (2 if mode == DISAGGREGATED else 1):
        return None, unknown
    head = values["head"]["instanceType"]
    return (
        Deployment(
            mode,
            tuple(roles),
            values["model"]["maxModelLen"],
            values["transport"]["fabric"],
            head,
        ),
        unknown,
    )


def _role(
    name: str,
    block: Mapping[str, Any],
    values: Mapping[str, Any],
    facts: Mapping[str, Any],
    card: Card,
) -> Role:
    tokens, seqs = batch_defaults(card)
    arguments = {**values["model"]["engineArgs"], **block["engineArgs"]}
    engine = Engine(
        card,
        tensor=block["parallelism"]["tensor"],
        pipeline=block["parallelism"]["pipeline"],
        utilization=block["gpuMemoryUtilization"],
        max_seqs=block["maxNumSeqs"] or arguments.get("max_num_seqs") or seqs,
        batched_tokens=block["maxNumBatchedTokens"]
        or arguments.get("max_num_batched_tokens")
        or tokens,
        kv_bytes=kv_bytes(values["model"]["kvCacheDtype"], values["model"]["dtype"]),
    )
    efa = values["transport"]["fabric"] == "efa" and values["topology"]["mode"] != AGGREGATED
    interfaces = block["efaInterfaces"] or values["transport"]["efa"]["interfacesPerPod"]
    auto = block["autoscaling"]
    return Role(
        name,
        engine,
        block["instanceType"],
        facts,
        replicas=auto["maxReplicas"] if auto["enabled"] else block["replicas"],
        pods=block["parallelism"]["nodes"],
        interfaces=interfaces if efa else 0,
    )


def kv_bytes(cache_dtype: str, dtype: str) -> float:
    """Bytes of one number in the KV cache."""
    if cache_dtype == "auto":
        return 4 if dtype == "float32" else 2
    return 1 if cache_dtype.startswith(("fp8", "int8")) else 2


def proposed(
    instance: str,
    facts: Mapping[str, Any],
    engine: Engine,
    max_context: int,
    head: str,
    replicas: tuple[int, int] = (1, 1),
) -> Deployment:
    """Prefill and decode on nodes of one type, each pod with its share of the node's EFA."""
    pods = max(1, facts["gpu"]["count"] // engine.cards)
    available = facts["efa"]["interfaces"]
    interfaces = max(1, available // pods) if available else 0
    roles = tuple(
        Role(name, engine, instance, facts, replicas=count, interfaces=interfaces)
        for name, count in zip(("prefill", "decode"), replicas, strict=True)
    )
    return Deployment(DISAGGREGATED, roles, max_context, "efa" if available else "tcp", head)
