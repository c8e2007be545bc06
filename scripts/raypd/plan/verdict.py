"""Which shape serves the model best: aggregated, P/D, tensor or pipeline parallel, a bigger card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from raypd.data import load
from raypd.plan import memory
from raypd.plan.assess import Assessment
from raypd.plan.cost import Prices
from raypd.plan.deployment import DISAGGREGATED, Deployment
from raypd.plan.engine import assumed, batch_defaults, card_of
from raypd.plan.shape import ModelShape
from raypd.plan.traffic import Traffic, ratio


@dataclass(frozen=True)
class Reason:
    """Why, and the key in data/plan/measurements.yaml of the measurement it rests on, if on one."""

    text: str
    measurement: str | None = None

    @property
    def basis(self) -> str:
        """What was measured, and by whom."""
        if self.measurement is None:
            return ""
        entry = load("plan/measurements.yaml")[self.measurement]
        return f"{entry['text']} ({entry['source']})"


@dataclass(frozen=True)
class Verdict:
    """`choice` is aggregated, disaggregated, multinode, or bigger-card; `advice` says it in a sentence."""

    choice: str
    advice: str
    reasons: list[Reason] = field(default_factory=list)


def judge(
    shape: ModelShape,
    deployment: Deployment,
    numbers: Assessment,
    traffic: Traffic,
    instances: Mapping[str, Any],
    prices: Prices,
) -> Verdict:
    """The verdict on serving `shape` on the cards of the deployment's last role."""
    role = deployment.roles[-1]
    one_card = replace(role.engine, tensor=1, pipeline=1)
    node_cards = role.facts["gpu"]["count"]
    tensor = memory.smallest_tensor(shape, one_card, deployment.max_context, node_cards)
    if tensor is None:
        return _beyond_a_node(shape, deployment, instances, prices)
    reasons = [_width(deployment, numbers, tensor)]
    against = _against(numbers, deployment, traffic)
    widths = {r.name: max(tensor, r.engine.tensor) for r in deployment.roles}
    wide = max(widths.values())
    parallel = f", tensor parallel {wide}" if wide > 1 else ""
    if against:
        return Verdict(
            "aggregated", f"aggregated{parallel}: P/D does not pay here", reasons + against
        )
    pair = ratio(numbers.prefill_share, numbers.decode_share)
    pro = _in_favour(numbers, traffic)
    if not role.facts["efa"]["gpudirect"]:
        pro.append(
            Reason(
                f"{role.instance} has no GPUDirect: KV is copied over host memory on both sides, which "
                "costs time that is not counted here; measure it against aggregated"
            )
        )
    if len(set(widths.values())) > 1:
        parallel = f", tensor parallel {' and '.join(map(str, widths.values()))}"
    advice = f"prefill and decode apart, {pair[0]} prefill : {pair[1]} decode engines{parallel}"
    return Verdict(DISAGGREGATED, advice, reasons + pro)


def _width(deployment: Deployment, numbers: Assessment, tensor: int) -> Reason:
    role = deployment.roles[-1]
    cards, card = role.facts["gpu"]["count"], role.engine.card.model
    holds = f"{tensor} of the {cards} cards" if cards > 1 else f"the {card}"
    text = f"{holds} of a {role.instance} can hold the model and a request of full length"
    if role.engine.cards > tensor:
        text += (
            f"; {role.engine.cards} hold {numbers.decode.full:,} such requests at once and read the "
            "weights faster"
        )
    elif tensor == 1:
        text += ", so tensor parallelism is not needed for room"
    return Reason(text)


def _against(numbers: Assessment, deployment: Deployment, traffic: Traffic) -> list[Reason]:
    """Every reason why P/D is the wrong choice; empty when there is none."""
    role = deployment.roles[-1]
    limits = assumed("verdict")
    found: list[Reason] = []
    if deployment.fabric != "efa" or not role.facts["efa"]["interfaces"]:
        found.append(
            Reason(
                "there is no EFA between the nodes, and over TCP the KV cache is the limit",
                "fabric",
            )
        )
    elif deployment.mode == DISAGGREGATED and numbers.prefill.prompt_rate > numbers.carried:
        found.append(
            Reason(
                f"prefill makes {numbers.prefill.prompt_rate:,.0f} tokens/s and the wire carries the KV "
                f"of {numbers.carried:,.0f}",
                "fabric",
            )
        )
    if traffic.input < limits["shortPrompt"]:
        found.append(
            Reason(f"prompts of {traffic.input} tokens hold nobody up for long", "prompts")
        )
    elif traffic.input < limits["inputPerOutput"] * traffic.output:
        found.append(
            Reason(
                f"{traffic.input} tokens in for {traffic.output} out: decode does most of the work",
                "prompts",
            )
        )
    if traffic.rate is not None:
        busy = traffic.rate * (numbers.prefill_share + numbers.decode_share)
        if busy < 1:
            found.append(
                Reason(
                    f"{traffic.rate:g} requests/s keep one engine busy for {busy:.0%} of the time",
                    "load",
                )
            )
    both = numbers.decode.step + numbers.decode.chunk
    if traffic.itl is None or both <= traffic.itl or not numbers.decode.batch:
        found += _idle_half(numbers, deployment)
    if traffic.itl is not None and numbers.decode.batch and both <= traffic.itl:
        found.append(
            Reason(
                f"even while a prompt is computed on the same card, a token takes about "
                f"{both * 1e3:.0f} ms, within the {traffic.itl * 1e3:.0f} ms that are asked for",
                "throughput",
            )
        )
    return found


def _idle_half(numbers: Assessment, deployment: Deployment) -> list[Reason]:
    """Too few engines to split: the busier role is the limit while the other one waits."""
    if not numbers.decode.decode_rate:
        return []
    total = sum(role.replicas for role in deployment.roles)
    best = numbers.capacity if deployment.mode == DISAGGREGATED else 0.0
    if deployment.roles[0].engine == deployment.roles[-1].engine:
        shares = numbers.prefill_share, numbers.decode_share
        best = assumed("busy") * max(
            (min(count / shares[0], (total - count) / shares[1]) for count in range(1, total)),
            default=0.0,
        )
    if best >= numbers.capacity_aggregated * (1 - assumed("verdict", "splitLoss")):
        return []
    pair = ratio(numbers.prefill_share, numbers.decode_share)
    return [
        Reason(
            f"{total} engine{'s' if total > 1 else ''} cannot be split {pair[0]} : {pair[1]}, which this traffic wants: apart they "
            f"serve about {best:.2g} requests/s at best, and "
            f"{numbers.capacity_aggregated:.2g} if each does both",
            "balance",
        )
    ]


def _in_favour(numbers: Assessment, traffic: Traffic) -> list[Reason]:
    both = (numbers.decode.step + numbers.decode.chunk) * 1e3
    alone = numbers.decode.step * 1e3
    text = (
        f"on one card a prompt stretches the time between tokens from {alone:.0f} to {both:.0f} ms"
    )
    if traffic.itl is not None:
        text += f", and {traffic.itl * 1e3:.0f} ms are asked for"
    text += "; a smaller maxNumBatchedTokens shortens that and makes prompts slower"
    found = [
        Reason(text, "balance"),
        Reason(
            f"{traffic.input} tokens in for {traffic.output} out: prompts are the load", "prompts"
        ),
    ]
    load_known = (
        "at this load" if traffic.rate is not None else "at high load; at low load it loses"
    )
    found.append(Reason(f"the gain to expect {load_known}: some, not much", "load"))
    return found


def _beyond_a_node(
    shape: ModelShape, deployment: Deployment, instances: Mapping[str, Any], prices: Prices
) -> Verdict:
    """No node of this type holds the model: several of them, or a bigger card."""
    role = deployment.roles[-1]
    cards = role.facts["gpu"]["count"]
    reasons = [
        Reason(
            f"{'no card' if cards == 1 else f'not even all {cards} cards'} of a {role.instance} can hold "
            f"the model and one request of {deployment.max_context:,} tokens"
        )
    ]
    stages = next(
        (
            n
            for n in (2, 3, 4, 6, 8)
            if n <= shape.layers
            and memory.concurrency(
                shape, replace(role.engine, tensor=cards, pipeline=n), deployment.max_context
            )
        ),
        None,
    )
    several = prices.per_hour.get(role.instance, float("inf")) * (stages or 0)
    if stages:
        reasons.append(
            Reason(
                f"{stages} nodes as pipeline stages do"
                + (f", for {several:.2f} $/h" if several < float("inf") else "")
                + "; a stage hands on one activation per token, where tensor parallelism would cross the "
                "network twice in every layer"
            )
        )
    bigger = cheapest_fit(shape, deployment, instances, prices)
    if bigger is not None:
        name, tensor, price = bigger
        reasons.append(Reason(f"{name} holds it on {tensor} of its cards, for {price:.2f} $/h"))
        if not stages or price <= several * 1.5:
            return Verdict(
                "bigger-card", f"a bigger card: {name}, tensor parallel {tensor}", reasons
            )
    if stages:
        return Verdict(
            "multinode", f"one engine over {stages} nodes, pipeline parallel {stages}", reasons
        )
    return Verdict(
        "bigger-card", "no type that is known holds it: quantize, or shorten the context", reasons
    )


def cheapest_fit(
    shape: ModelShape, deployment: Deployment, instances: Mapping[str, Any], prices: Prices
) -> tuple[str, int, float] | None:
    """The cheapest instance type whose cards hold the model: name, tensor parallel size, dollars an hour."""
    found: list[tuple[float, str, int]] = []
    role = deployment.roles[-1]
    for name, facts in instances.items():
        card = card_of(facts["gpu"]) if facts["gpu"]["count"] else None
        if card is None or name not in prices.per_hour:
            continue
        tokens, seqs = batch_defaults(card)
        engine = replace(
            role.engine, card=card, tensor=1, pipeline=1, batched_tokens=tokens, max_seqs=seqs
        )
        tensor = memory.smallest_tensor(
            shape, engine, deployment.max_context, facts["gpu"]["count"]
        )
        if tensor is not None:
            found.append((prices.per_hour[name], name, tensor))
    if not found:
        return None
    price, name, tensor = min(found)
    return name, tensor, price
