"""What the verbs of `raypd local` do: load, act, report."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from raypd import gpus
from raypd.evidence import unseen_prompt
from raypd.local import chat, cluster, evidence, serve, source, state
from raypd.local.plan import Plan, plan
from raypd.local.state import State
from raypd.render import RenderRefused, ValueArguments
from raypd.report import Report, UsageError

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OUT = Console(soft_wrap=True)
_ERR = Console(stderr=True, soft_wrap=True)


@dataclass
class Stages:
    """Seconds of each stage, shown while they pass."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[Any]:
        """Times the block; yields a status line whose text can be updated."""
        begin = time.monotonic()
        with _ERR.status(f"{name} ...") as line:
            yield line
        self.seconds[name] = round(time.monotonic() - begin, 1)
        _ERR.print(
            f"  [green]✓[/green] {name} [dim]{self.seconds[name]:.1f} s[/dim]", highlight=False
        )


def run_up(
    chart: Path | None,
    values: list[Path],
    set_: list[str],
    set_string: list[str],
    manifest: Path | None,
    name: str,
    wait: int,
    output: str,
) -> int:
    """Starts a run and leaves it up; 0 when it serves, 1 when the engine failed."""
    if manifest is not None and (chart is not None or values or set_ or set_string):
        raise UsageError("--manifest is rendered already: give it without chart and values.")
    stages = Stages()
    with interruptible():
        try:
            arguments = ValueArguments(values, set_, set_string)
            run = start(chart, arguments, name, wait, stages, manifest)
        except RenderRefused as refused:
            return _print_refusal(refused, output)
        except serve.EngineFailed as failed:
            return _print_failure(failed, output)
    if output == "json":
        _print_json({"state": run.model_dump(mode="json"), "seconds": stages.seconds})
    else:
        _OUT.print(f"Serving {run.model_id} at {run.endpoint}")
        _OUT.print(f"Dashboard {run.dashboard}")
        suffix = "" if name == "default" else f" --name {name}"
        _OUT.print(f"Next: raypd local chat{suffix} · status{suffix} · down{suffix}")
    return 0


def run_status(name: str, output: str) -> int:
    """Prints how a run stands; 0 when it serves, 1 when not."""
    run = state.need(name)
    try:
        now = serve.standing(run)
        nodes = cluster.node_names(run)
    except httpx.HTTPError as error:
        raise UsageError(
            f"the run {name!r} has processes, but its dashboard {run.dashboard} does not answer"
            f" ({error}). End it: raypd local down --name {name}"
        ) from error
    replicas = placed(run, now, nodes)
    if output == "json":
        _print_json(
            {
                "status": now.status,
                "message": now.message,
                "endpoint": run.endpoint,
                "replicas": replicas,
                "processes": len(run.processes()),
            }
        )
    else:
        _OUT.print(f"{run.model_id}: {now.status} at {run.endpoint}")
        _print_replicas(replicas)
        if error := serve.first_error(now, run.folder):
            _OUT.print(error, highlight=False, markup=False)
    return int(now.status != "RUNNING")


def run_chat(prompt: str, stream: bool, max_tokens: int, name: str, output: str) -> int:
    """Sends one request and prints the answer and what the counters say about it."""
    run = state.need(name)
    before = evidence.settled(run)
    answer = chat.ask(run, prompt, max_tokens, stream)
    found = evidence.after_request(run, before, answer.prompt_tokens)
    if output == "json":
        _print_json({"answer": asdict(answer), "evidence": _as_dict(found)})
    else:
        _print_answer(answer)
        _print_evidence(run, found)
    return 0


def run_down(name: str, output: str) -> int:
    """Ends a run; 0 also when only files of it were left."""
    run = state.find(name)
    if run is None:
        raise UsageError(f"there is no local run named {name!r} to end.")
    ended = state.end(run)
    if output == "json":
        _print_json({"ended_processes": ended})
    else:
        _OUT.print(f"{ended} processes of {name!r} ended, none is left.")
    return 0


def run_quickstart(
    chart: Path | None,
    values: list[Path],
    set_: list[str],
    set_string: list[str],
    keep: bool,
    name: str,
    wait: int,
    output: str,
) -> int:
    """Up, two requests, proof, down; 1 when the counters do not prove the topology."""
    stages = Stages()
    begin = time.monotonic()
    arguments = ValueArguments(values, set_, set_string)
    with interruptible():
        run = None
        try:
            run = start(chart, arguments, name, wait, stages)
            with stages.stage("Reading the counters before"):
                before = evidence.settled(run)
            with stages.stage("Chat request"):
                answer = chat.ask(run, unseen_prompt())
            with stages.stage("Reading the counters after"):
                found = evidence.after_request(run, before, answer.prompt_tokens)
            with stages.stage("Streamed chat request"):
                streamed = chat.ask(run, unseen_prompt(), stream=True)
            replicas = placed(run, serve.standing(run), cluster.node_names(run))
        except RenderRefused as refused:
            return _print_refusal(refused, output)
        except serve.EngineFailed as failed:
            return _print_failure(failed, output)
        finally:
            if run is not None and (not keep or sys.exc_info()[0] is not None):
                with stages.stage("Stopping"):
                    end(run)
    faults = found.faults(run.disaggregated, bool(run.nixl_metrics)) + misplaced(run, replicas)
    total = round(time.monotonic() - begin, 1)
    if output == "json":
        _print_json(
            {
                "seconds": {**stages.seconds, "all": total},
                "answer": asdict(answer),
                "streamed": asdict(streamed),
                "evidence": _as_dict(found),
                "replicas": replicas,
                "faults": faults,
                "endpoint": run.endpoint if keep else None,
            }
        )
    else:
        _OUT.print()
        _print_answer(answer)
        _OUT.print(
            f"Streamed: first token after {streamed.first_seconds:.2f} s,"
            f" {streamed.completion_tokens} tokens in {streamed.seconds:.2f} s",
            highlight=False,
        )
        _print_evidence(run, found)
        _print_replicas(replicas)
        for fault in faults:
            _OUT.print(f"[red]not proven[/red]: {fault}", highlight=False)
        _OUT.print(f"All in {total:.0f} s.", highlight=False)
        if keep:
            _OUT.print(f"Still serving at {run.endpoint}; end it: raypd local down --name {name}")
    return int(bool(faults))


def placed(run: State, now: serve.Standing, nodes: dict[str, str]) -> list[dict[str, str]]:
    """Each replica with the node and the worker group that it runs on."""
    return [
        {
            "deployment": r.deployment,
            "replica": r.replica_id,
            "state": r.state,
            "node": nodes.get(r.node_id, ""),
            "group": run.groups.get(nodes.get(r.node_id, ""), ""),
        }
        for r in now.replicas
    ]


def misplaced(run: State, replicas: list[dict[str, str]]) -> list[str]:
    """Engines that are not on a node of their own group."""
    wanted = {"Prefill": "prefill", "Decode": "decode", "LLMServer": "engine"}
    found = []
    for replica in replicas:
        role = replica["deployment"].split(":")[0]
        if role in wanted and replica["group"] != wanted[role]:
            found.append(f"{replica['deployment']} runs on a node of group {replica['group']!r}")
    return found


def start(
    chart: Path | None,
    arguments: ValueArguments,
    name: str,
    wait: int,
    stages: Stages,
    manifest: Path | None = None,
    volume: Path | None = None,
) -> State:
    """Everything up to a serving endpoint; on any failure nothing is left running. A `manifest` is
    taken in place of a render, and the folder `volume` in place of raypd's own for what engines keep."""
    _refuse_if_up(name)
    with stages.stage("Rendering the chart, making what it needs"):
        rendered = source.from_file(manifest) if manifest else source.load(chart, arguments, volume)
        what = plan(
            rendered.rayservice,
            rendered.serve_config,
            rendered.manifests,
            os.environ,
            len(gpus.names()),
        )
        ports = cluster.ports_for(what)
        run = _new_state(name, what, ports)
    for line in what.replaced:
        _ERR.print(f"    [dim]{line}[/dim]", highlight=False)
    run.save()
    try:
        nodes: list[cluster.RayNode] = []
        with stages.stage(f"Starting Ray: {', '.join(node.name for node in what.nodes)}"):
            for node in cluster.start(what, ports, run):
                nodes.append(node)
        # As soon as the head is there, as KubeRay does; the application waits for its nodes.
        with stages.stage("Deploying the serve config"):
            serve.deploy(run, what.serve_config)
        with stages.stage("Loading the engines") as line:
            cluster.wait_until_all_joined(nodes, run)
            serve.wait_until_running(
                run,
                wait,
                check=lambda: [node.check() for node in nodes] and None,
                show=lambda now: line.update(_progress(now)),
            )
    except BaseException as error:
        failed = isinstance(error, serve.EngineFailed | UsageError)
        end(run, keep_logs=failed)
        if failed:
            _ERR.print(f"Ray's and the engines' logs are kept below {run.folder}", highlight=False)
        raise
    return run


def _new_state(name: str, what: Plan, ports: dict[str, dict[str, int]]) -> State:
    head = ports["head"]
    workers = [node.name for node in what.nodes[1:]]
    return State(
        name=name,
        run_id=state.new_run_id(name),
        folder=state.new_folder(),
        model_id=what.model_id,
        model_source=what.model_source,
        max_model_len=what.max_model_len,
        caches=what.caches,
        disaggregated=what.disaggregated,
        backends=what.backends,
        gcs_port=head["port"],
        dashboard_port=head["dashboard-port"],
        http_port=head["http-port"],
        metrics={node: options["metrics-export-port"] for node, options in ports.items()},
        # One port for a node's NIXL: with several engine processes on it only one could have it.
        nixl_metrics={n: ports[n]["nixl-port"] for n in workers} if what.one_worker_per_pod else {},
        groups={node.name: node.group for node in what.nodes},
    )


def end(run: State, keep_logs: bool = False) -> None:
    """Ends the run; a second Ctrl-C does not cut the clean-up short."""
    old = {number: signal.signal(number, signal.SIG_IGN) for number in _INTERRUPTS}
    try:
        state.end(run, keep_logs)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _refuse_if_up(name: str) -> None:
    if (old := state.find(name)) is None:
        return
    if old.processes():
        raise UsageError(
            f"a local run named {name!r} is already up at {old.endpoint}. End it with"
            f" `raypd local down --name {name}`, or give another --name."
        )
    state.end(old)  # only files of a run that was killed from outside


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end the work as Ctrl-C does: through the clean-up. SIGINT is set as well,
    because a shell starts background jobs with it ignored."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    old = {number: signal.signal(number, interrupt) for number in _INTERRUPTS}
    try:
        yield
    except KeyboardInterrupt:
        print("Interrupted; nothing is left running.", file=sys.stderr)
        sys.exit(130)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _progress(now: serve.Standing) -> str:
    parts = [f"{name} {status.lower()}" for name, (status, _) in now.deployments.items()]
    return f"Loading the engines: {', '.join(parts) or now.status.lower()} ..."


def _print_answer(answer: chat.Answer) -> None:
    _OUT.print(f"Answer: {answer.text!r}", highlight=False, markup=False)
    _OUT.print(
        f"        {answer.prompt_tokens} prompt tokens, {answer.completion_tokens} answer tokens in"
        f" {answer.seconds:.2f} s, finish_reason {answer.finish_reason}",
        highlight=False,
    )


def _print_evidence(run: State, found: evidence.Evidence) -> None:
    for words, tokens in (
        ("Prompt computed by", found.computed),
        ("Prompt found in a local cache by", found.cached),
        ("Prompt's KV received by", found.received),
    ):
        if tokens:
            by = ", ".join(f"{group} ({count} tokens)" for group, count in tokens.items())
            _OUT.print(f"{words} {by}", highlight=False)
    if not run.disaggregated:
        _OUT.print("KV moved: none; one engine does both, as this mode means", highlight=False)
    elif run.nixl_metrics:
        _OUT.print(
            f"KV moved: {found.kv_bytes:,} bytes in {found.kv_reads} read, {found.kv_seconds:.4f} s,"
            f" {found.gigabytes_per_second:.3f} GB/s",
            highlight=False,
        )
    if run.disaggregated:
        _OUT.print(
            f"Fabric: {', '.join(run.backends)} on this machine. LIBFABRIC, which EFA needs, was not"
            " exercised here.",
            highlight=False,
        )


def _print_replicas(replicas: list[dict[str, str]]) -> None:
    table = Table("deployment", "replica", "state", "node", "group")
    for replica in replicas:
        table.add_row(*replica.values())
    _OUT.print(table)


def _print_refusal(refused: RenderRefused, output: str) -> int:
    report = Report(findings=refused.findings)
    report.print("json" if output == "json" else "human")
    return report.exit_code


def _print_failure(failed: serve.EngineFailed, output: str) -> int:
    if output == "json":
        _print_json({"error": str(failed)})
    else:
        _OUT.print("The engine failed. Its first error:", style="red")
        _OUT.print(str(failed), highlight=False, markup=False)
    return 1


def _as_dict(found: evidence.Evidence) -> dict[str, Any]:
    return {**asdict(found), "gigabytes_per_second": found.gigabytes_per_second}


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2))
