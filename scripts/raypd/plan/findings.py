"""What does not fit: the values against the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from raypd.lint.subject import error, warning
from raypd.plan.assess import Assessment, RoleNumbers
from raypd.plan.deployment import DISAGGREGATED, Deployment
from raypd.plan.engine import GIGA
from raypd.plan.shape import ModelShape
from raypd.plan.traffic import Traffic
from raypd.report import Finding


def check(
    shape: ModelShape, deployment: Deployment, numbers: Assessment, traffic: Traffic
) -> list[Finding]:
    """Every finding, memory first."""
    found: list[Finding] = []
    for role in numbers.roles:
        found += _memory(shape, role, deployment)
    if not found or all(finding.severity == "warning" for finding in found):
        found += _wire(deployment, numbers)
        found += _traffic(deployment, numbers, traffic)
    return found


def _memory(shape: ModelShape, numbers: RoleNumbers, deployment: Deployment) -> Iterator[Finding]:
    name, engine = numbers.role.name, numbers.role.engine
    cards = f"{engine.cards} x {engine.card.model}"
    if numbers.room <= 0:
        yield error(
            "RPD701",
            f"{name}.parallelism",
            f"On {cards} each card has to hold {_gb(numbers.weights)} of weights and a reserve of about "
            f"{_gb(numbers.reserve)}, and vLLM may take {_gb(numbers.budget)}. Nothing is left for KV.",
            f"a larger tensor parallel size, a card with more memory for {name}.instanceType, or a "
            "quantized checkpoint",
        )
    elif numbers.full == 0:
        if numbers.largest:
            remedy = f"{numbers.largest} or less, more cards for {name}, or fewer {name}.maxNumSeqs"
        else:
            remedy = f"more cards for {name}: not even the state of one request fits"
        yield error(
            "RPD702",
            "model.maxModelLen",
            f"A request of {deployment.max_context:,} tokens needs {_gb(numbers.full_bytes)} of KV on "
            f"each card of {name} ({cards}), and about {_gb(numbers.room)} are left beside weights and "
            "reserve.",
            remedy,
        )
    elif numbers.full == 1:
        yield warning(
            "RPD703",
            "model.maxModelLen",
            f"{name} holds one request of {deployment.max_context:,} tokens at a time: all others wait.",
            f"{numbers.largest // 2} or less, or more cards for {name}",
        )


def _wire(deployment: Deployment, numbers: Assessment) -> Iterator[Finding]:
    if deployment.mode != DISAGGREGATED:
        return
    if deployment.fabric == "tcp":
        yield warning(
            "RPD711",
            "transport.fabric",
            f"KV moves over TCP at about {numbers.wire / GIGA:.1f} GB/s: a prompt's takes "
            f"{numbers.transfer:.2f} s, and prefill computes it in {numbers.prefill.prompt:.2f} s.",
            "efa on a type that has it, or topology.mode: aggregated",
        )
    elif numbers.prefill.prompt_rate > numbers.carried:
        yield warning(
            "RPD712",
            "transport.efa.interfacesPerPod",
            f"A prefill engine makes about {numbers.prefill.prompt_rate:,.0f} tokens/s and the wire "
            f"carries the KV of {numbers.carried:,.0f}.",
            "more EFA interfaces, a type with a faster network, or topology.mode: aggregated",
        )


def _traffic(deployment: Deployment, numbers: Assessment, traffic: Traffic) -> Iterator[Finding]:
    last = numbers.decode
    if traffic.itl is not None and last.batch == 0 and last.full > 0:
        yield error(
            "RPD715",
            last.role.name,
            f"Even one request alone gets its tokens more than {traffic.itl * 1e3:.0f} ms apart: reading "
            f"the weights of {last.role.engine.card.model} cards takes longer.",
            "a larger tensor parallel size, a card with more memory bandwidth, or a longer --itl",
        )
    idle = numbers.prefill.prompt + numbers.transfer + last.step
    reachable = traffic.ttft is None or idle <= traffic.ttft
    if not reachable:
        yield error(
            "RPD714",
            numbers.prefill.role.name,
            f"The first token takes about {idle * 1e3:.0f} ms on idle engines: prompt "
            f"{numbers.prefill.prompt * 1e3:.0f}, transfer {numbers.transfer * 1e3:.0f}, first step "
            f"{last.step * 1e3:.0f}. Asked for are {(traffic.ttft or 0) * 1e3:.0f}.",
            "a larger tensor parallel size or a faster card for it, shorter prompts, or a longer --ttft",
        )
    for role in deployment.roles:
        needed = numbers.needed.get(role.name)
        if needed is not None and needed > role.replicas:
            yield error(
                "RPD713",
                f"{role.name}.replicas",
                f"{traffic.rate:g} requests/s need about {needed} engines, and there are "
                f"{role.replicas}.",
                f"{needed}, or fewer requests",
            )


def longer_than_context(traffic: Traffic, max_context: int) -> Finding:
    """The finding for a traffic whose requests the values do not allow."""
    return error(
        "RPD716",
        "model.maxModelLen",
        f"Requests of {traffic.input:,} tokens in and {traffic.output:,} out are longer than "
        f"{max_context:,}, and vLLM refuses them.",
        f"{traffic.tokens} or more, or smaller --input-tokens and --output-tokens",
    )


def _gb(size: float) -> str:
    return f"{size / GIGA:.1f} GB"
