"""`raypd plan`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from raypd.plan import assess, candidates, findings
from raypd.plan.catalog import find_config, with_values
from raypd.plan.cost import Prices, read_prices
from raypd.plan.deployment import Deployment, of_values, proposed
from raypd.plan.engine import Engine, assumed, batch_defaults, card_of
from raypd.plan.plot import check_path, draw
from raypd.plan.shape import ModelShape, shape_of
from raypd.plan.sheet import Section, model, sections
from raypd.plan.traffic import Traffic, ratio
from raypd.plan.verdict import Verdict, judge
from raypd.render import RenderRefused, default_chart, render
from raypd.render.chart import tables
from raypd.render.helm import ValueArguments, merged_values
from raypd.report import Finding, Output, Report, UsageError

# What the arithmetic leaves out, said with every plan.
_NOT_COUNTED = [
    "whether AWS has the instances: quota, capacity, zone",
    "prefix caching, speculative decoding, LoRA: each makes more of the same cards",
    "the profile run of a vision encoder, which takes memory for its largest picture",
]
_HEAD = "m7i.xlarge"  # the chart's own head node


@dataclass(frozen=True)
class Question:
    """What is asked beside the values: the model, the cards, the traffic. Targets are seconds."""

    model: str | None = None
    instance: str | None = None
    max_context: int | None = None
    input: int | None = None
    output: int | None = None
    rate: float | None = None
    ttft: float | None = None
    itl: float | None = None

    def traffic(self, max_context: int | None) -> Traffic:
        """The traffic, as asked for or else the one that is planned for by default."""
        usual = assumed("traffic")
        limit = max_context or 2**31
        answer = self.output or min(usual["output"], max(1, limit // 8))
        prompt = self.input or max(1, min(usual["input"], limit - answer))
        return Traffic(prompt, answer, self.rate, self.ttft, self.itl)


@dataclass
class Plan:
    """Everything that is printed."""

    title: str
    subtitle: str = ""
    notes: list[str] = field(default_factory=list)
    candidates: list[candidates.Candidate] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    verdict: Verdict | None = None
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    traffic: Traffic | None = None
    drawable: tuple[ModelShape, assess.Assessment, int] | None = None


def run(
    chart: Path | None,
    arguments: ValueArguments,
    question: Question,
    prices: Path | None,
    explain: bool,
    plot: Path | None,
    output: Output,
) -> int:
    """Prints a plan and returns the exit code."""
    if plot is not None:
        check_path(plot)
    plan = make(chart or default_chart(), arguments, question, read_prices(prices))
    if plot is not None:
        if plan.drawable is None:
            raise UsageError(
                "--plot draws one deployment, and there is none here. Give --instance or values."
            )
        draw(plot, *plan.drawable)
    if output == "json":
        print(json.dumps(as_json(plan), indent=2))
    else:
        from raypd.plan.show import show

        show(plan, explain)
    return Report(findings=plan.findings).exit_code


def make(chart: Path, arguments: ValueArguments, question: Question, prices: Prices) -> Plan:
    """The plan: of a model alone when one is named without values, else of the values."""
    if not chart.exists():
        raise UsageError(f"--chart {chart}: there is no such chart. Give a folder or a .tgz.")
    if question.model is not None and not arguments.command_line():
        return _of_model(chart, question, prices)
    given = [
        option
        for option, value in (
            ("--instance", question.instance),
            ("--max-model-len", question.max_context),
        )
        if value is not None
    ]
    if given:
        raise UsageError(
            f"{' and '.join(given)} ask about a model alone, and here values say it. Give a model "
            "without values, or set instanceType and model.maxModelLen in the values."
        )
    return _of_values(chart, arguments, question, prices)


def _of_model(chart: Path, question: Question, prices: Prices) -> Plan:
    """What a model needs: on the instance type that is named, else on all of them."""
    known = tables(chart, "instances", "models")
    instances = known["instances"]
    config = find_config(str(question.model), known["models"])
    shape = shape_of(config, str(question.model))
    traffic = question.traffic(question.max_context)
    context = question.max_context or traffic.tokens
    if context > shape.max_context:
        raise UsageError(
            f"{context:,} tokens are more than the {shape.max_context:,} of {shape.name}. "
            "Give a shorter --max-model-len, --input-tokens or --output-tokens."
        )
    if question.instance is not None:
        facts = instances.get(question.instance)
        if facts is None or not facts["gpu"]["count"]:
            raise UsageError(
                f"--instance {question.instance} is no GPU type of the chart's files/instances.yaml. "
                "Leave it out to see all that hold the model."
            )
        best = candidates.best_on(shape, question.instance, facts, context, traffic, prices)
        # What does not fit is shown on all cards, so that a finding can say what is missing.
        engine = best.numbers.role.engine if best else _whole_node(facts)
        deployment = proposed(question.instance, facts, engine, context, _HEAD)
        counts = _replicas(shape, deployment, traffic)
        deployment = proposed(question.instance, facts, engine, context, _HEAD, counts)
        return _plan(shape, deployment, traffic, instances, prices, [])
    plan = Plan(
        title=shape.name,
        subtitle=f"{context:,} tokens of context; {traffic.input:,} in, {traffic.output:,} out",
        notes=list(shape.notes),
        traffic=traffic,
        candidates=candidates.candidates(shape, context, traffic, instances, prices),
        sections=[Section("Model", model(shape))],
        checked=[f"{len(instances)} instance types, engines that do prefill and decode alike"],
        not_checked=["P/D and the wire: --instance asks about one type", *_NOT_COUNTED],
    )
    if not plan.candidates:
        plan.findings.append(
            Finding(
                code="RPD701",
                severity="error",
                path=shape.name,
                message=f"No instance type holds its {shape.weight_bytes / 1e9:,.0f} GB of weights and "
                f"a request of {context:,} tokens on one node.",
                remedy="a quantized checkpoint, or several nodes (topology.mode: multinode)",
            )
        )
    return plan


def _replicas(shape: ModelShape, deployment: Deployment, traffic: Traffic) -> tuple[int, int]:
    """Prefill and decode engines for the traffic's rate; without one, the smallest balanced number."""
    numbers = assess.assess(shape, deployment, traffic)
    if not numbers.decode.batch:
        return 1, 1
    if traffic.rate is None:
        return ratio(numbers.prefill_share, numbers.decode_share)
    return numbers.needed["prefill"] or 1, numbers.needed["decode"] or 1


def _whole_node(facts: dict[str, Any]) -> Engine:
    card = card_of(facts["gpu"])
    if card is None:
        raise UsageError(f"The figures of a {facts['gpu']['model']} are not known.")
    tokens, seqs = batch_defaults(card)
    return Engine(card, tensor=facts["gpu"]["count"], max_seqs=seqs, batched_tokens=tokens)


def _of_values(chart: Path, arguments: ValueArguments, question: Question, prices: Prices) -> Plan:
    """Whether what the values say fits."""
    try:
        render(chart, arguments)
    except RenderRefused as refusal:
        return Plan(
            title="The values do not render",
            findings=refusal.findings,
            checked=["the chart's schema and rules"],
            not_checked=["everything behind them: repair the findings first"],
        )
    known = tables(chart, "defaults", "instances", "models")
    values = _filled(merged_values(chart, arguments), known["defaults"])
    instances = known["instances"]
    deployment, unknown = of_values(values, instances)
    if deployment is None:
        return Plan(title=values["model"]["source"], not_checked=[*unknown, *_NOT_COUNTED])
    block = values["model"]
    config = find_config(question.model or block["source"], known["models"])
    shape = shape_of(
        with_values(config, block["dtype"], block["quantization"]),
        question.model or block["source"],
    )
    traffic = question.traffic(deployment.max_context)
    if traffic.tokens > deployment.max_context:
        return Plan(
            title=shape.name,
            findings=[findings.longer_than_context(traffic, deployment.max_context)],
            not_checked=["everything else: the traffic cannot be served"],
        )
    return _plan(shape, deployment, traffic, instances, prices, unknown)


def _plan(
    shape: ModelShape,
    deployment: Deployment,
    traffic: Traffic,
    instances: dict[str, Any],
    prices: Prices,
    unknown: list[str],
) -> Plan:
    numbers = assess.assess(shape, deployment, traffic)
    asked = f", {traffic.rate:g} requests/s" if traffic.rate is not None else ""
    targets = [
        f"{name} within {value * 1e3:g} ms"
        for name, value in (("first token", traffic.ttft), ("next tokens", traffic.itl))
        if value is not None
    ]
    engines = " + ".join(f"{role.replicas} {role.name}" for role in deployment.roles)
    verdict = judge(shape, deployment, numbers, traffic, instances, prices)
    missing = [name for name in deployment.nodes if name not in prices.per_hour]
    return Plan(
        title=f"{shape.name}, {shape.attention}: {deployment.mode}, {engines}",
        subtitle=f"{deployment.max_context:,} tokens of context; {traffic.input:,} in, "
        + ", ".join([f"{traffic.output:,} out{asked}", *targets]),
        notes=list(shape.notes),
        sections=sections(shape, deployment, numbers, traffic, prices, instances),
        verdict=verdict,
        findings=findings.check(shape, deployment, numbers, traffic),
        checked=["memory of each card", "rates, wire and traffic, as estimates"],
        not_checked=[
            *unknown,
            *(f"cost: {prices.region} has no on-demand price for {name}" for name in missing),
            *_NOT_COUNTED,
        ],
        drawable=(shape, numbers, deployment.max_context),
    )


def _filled(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Values in which what is missing or null is the default, as the chart's templates do it."""
    filled = dict(values)
    for key, default in defaults.items():
        if filled.get(key) is None:
            filled[key] = default
        elif isinstance(default, dict) and isinstance(filled[key], dict):
            filled[key] = _filled(filled[key], default)
    return filled


def as_json(plan: Plan) -> dict[str, Any]:
    """The plan for programs; what is infinite or not a number is null."""
    verdict = plan.verdict
    return {
        "title": plan.title,
        "subtitle": plan.subtitle,
        "notes": plan.notes,
        "candidates": [
            {
                "instanceType": one.numbers.role.instance,
                "tensor": one.numbers.role.engine.tensor,
                "concurrency": one.numbers.full,
                "promptSeconds": _finite(one.numbers.prompt),
                "decodeTokensPerSecond": _finite(one.numbers.decode_rate),
                "dollarsPerHour": one.dollars,
                "dollarsPerMillionTokens": _finite(one.per_million),
                "keepsTargets": one.keeps,
            }
            for one in plan.candidates
        ],
        "sections": [
            {
                "title": section.title,
                "numbers": [
                    {**asdict(number), "value": _finite(number.value)} for number in section.numbers
                ],
            }
            for section in plan.sections
        ],
        "verdict": verdict
        and {
            "choice": verdict.choice,
            "advice": verdict.advice,
            "reasons": [
                {"text": reason.text, "measured": reason.basis or None}
                for reason in verdict.reasons
            ],
        },
        "findings": [finding.model_dump() for finding in plan.findings],
        "checked": plan.checked,
        "not_checked": plan.not_checked,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
