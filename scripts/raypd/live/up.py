"""`raypd up`: checked, put onto the cluster by Helm, and watched until it serves."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from raypd.lint.subject import error, mapping
from raypd.lint.verb import of_values
from raypd.live.applications import spare_pods
from raypd.live.cluster import Cluster
from raypd.live.diagnosis import diagnose
from raypd.live.install import operator, preconditions
from raypd.live.install.facts import RAY_API, gather
from raypd.live.install.preconditions import REPAIRED, Case
from raypd.live.install.watch import Verdict, View, Watch, view
from raypd.live.interrupt import INTERRUPTED, Interrupted, Interrupts
from raypd.live.progress import endpoint
from raypd.live.release import Helm, is_locked
from raypd.live.snapshot import take
from raypd.render import Rendered, ValueArguments, default_chart, render
from raypd.render.chart import tables
from raypd.report import Finding, Output, Report, UsageError
from raypd.upgrade.change import describe, resize, shrinking

Json = dict[str, Any]

_ERR = Console(stderr=True, soft_wrap=True)
_LOOK_SECONDS = 3.0  # between two looks
_SILENT_SECONDS = 120.0  # for which the API server may be away, as in its own upgrade
_OPERATOR_SECONDS = 300.0  # for the operator's start, its image included
_SHRINK_SECONDS = 180.0  # for engines to finish their requests and end
_TRIES = 3  # of a write that someone else's write got ahead of


@dataclass
class Result:
    """What `raypd up` came to; its fields are the keys of the JSON object, times in seconds."""

    running: bool = False
    interrupted: bool = False
    revision: int | None = None
    endpoint: str | None = None
    upgrade: list[str] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    def as_json(self) -> str:
        """One JSON object."""
        findings = [finding.model_dump() for finding in self.findings]
        return json.dumps({**vars(self), "findings": findings}, indent=2)


def run(
    chart: Path | None,
    arguments: ValueArguments,
    release: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    with_operator: bool,
    operator_chart: str | None,
    timeout: int,
    output: Output,
) -> int:
    """Does it and prints what came of it: 0 it serves, 1 findings or no time left, 130 interrupted.

    Raises UsageError for what is wrong with the call or the way to the cluster.
    """
    if operator_chart is not None and not with_operator:
        raise UsageError("--operator-chart says what --with-operator installs. Give that as well.")
    options = (("--kubeconfig", kubeconfig), ("--context", context))
    with Interrupts() as interrupts:
        work = Up(
            chart=chart or default_chart(),
            arguments=arguments,
            release=release,
            namespace=namespace,
            cluster=Cluster(kubeconfig, context),
            helm=Helm(kubeconfig, context, shield=interrupts.held),
            operator_chart=operator_chart,
            with_operator=with_operator,
            timeout=timeout,
            where="".join(f" {option} {given}" for option, given in options if given),
        )
        try:
            work.go(interrupts)
        except Interrupted:
            work.result.interrupted = True
    return _tell(work, output)


@dataclass
class Up:
    """One call of the verb. `where` are the options that choose the cluster, as they were typed. `say`
    gets a line for each step, `now` gives the time in seconds, `pause` waits, `show` makes the view."""

    chart: Path
    arguments: ValueArguments
    release: str
    namespace: str
    cluster: Cluster
    helm: Helm
    operator_chart: str | None = None
    with_operator: bool = False
    timeout: float = 1800
    where: str = ""
    result: Result = field(default_factory=Result)
    say: Callable[[str], None] = lambda line: _ERR.print(line, highlight=False, markup=False)
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    show: Callable[[], View] = view

    def go(self, interrupts: Interrupts) -> None:
        """All steps; ends early where findings forbid to go on."""
        begin = self.now()
        try:
            offline = of_values(self.chart, self.arguments, self.release, self.namespace)
            if offline.exit_code == 0:
                offline.not_checked = []  # the cluster is next, and the rest shows when it runs
            if not self._goes_on(offline):
                return
            rendered = render(self.chart, self.arguments, self.release, self.namespace)
            case = self._prepare(rendered)
            if case is None:
                return
            if case.change is not None:
                self.result.upgrade = describe(case.change, rendered.rayservice)
                self.say("The release is there. What this upgrade does:")
                for line in self.result.upgrade:
                    self.say(f"  {line}")
            with interrupts.held():
                self._install(case)
            self._shrink(case)
            self._watch(case)
        finally:
            self.result.seconds = round(self.now() - begin, 1)

    def _goes_on(self, report: Report) -> bool:
        """Takes a report in, says its warnings, and whether it has no error."""
        self.result.findings += report.findings
        self.result.checked += report.checked
        self.result.not_checked += report.not_checked
        if report.exit_code == 0:
            for finding in report.findings:
                self.say(f"{finding.code} warning  {finding.path}: {finding.message}")
        return report.exit_code == 0

    def _prepare(self, rendered: Rendered) -> Case | None:
        """The cluster as it has to be, the operator installed if that was asked for; None when
        findings forbid to go on."""
        self.cluster.get("/version")  # first, so that its failure is plain
        if is_locked(status := self.helm.status(self.release, self.namespace)):
            raise UsageError(
                f"The release {self.release} in namespace {self.namespace} is {status}: another Helm "
                "is at work on it, or was killed. Wait for the one; after the other `helm rollback "
                f"{self.release} -n {self.namespace}` unlocks it, or, when it never was deployed, "
                f"`{self.command('down')}`."
            )
        case = self._look_round(rendered)
        if self.with_operator:
            case = self._with_operator(case)
        return case if case and self._goes_on(preconditions.check(case)) else None

    def _with_operator(self, case: Case) -> Case | None:
        """Installs the operator where there is none, and nothing else forbids to go on."""
        facts = case.facts
        if facts.operator is not None:
            self.say("A KubeRay operator is there, and stays as it is.")
            return case
        if "KubeRay's operator" in facts.unseen:
            raise UsageError(
                "Whether there is a KubeRay operator cannot be seen, so none is installed. "
                + facts.unseen["KubeRay's operator"]
            )
        report = preconditions.check(case)
        report.findings = [f for f in report.findings if f.code not in REPAIRED]
        if report.exit_code:
            self._goes_on(report)
            return None
        seconds = min(_OPERATOR_SECONDS, self.timeout)
        operator.install(self.cluster, self.helm, self.operator_chart, seconds, self.say)
        return self._look_round(case.rendered)

    def _look_round(self, rendered: Rendered) -> Case:
        versions = tables(self.chart, "versions")["versions"]
        facts = gather(self.cluster, rendered, self.namespace)
        return Case(rendered, self.release, self.namespace, versions, facts)

    def _install(self, case: Case) -> None:
        begin = self.now()
        result = self.result
        result.revision = self.helm.upgrade(
            self.release, self.chart, self.namespace, self.arguments
        )
        changed = case.change
        if changed is not None and changed.resized and not changed.new_cluster:
            self._resize(case)
        result.stages["installed"] = round(self.now() - begin, 1)
        self.say(
            f"{self.release} revision {result.revision} is installed in namespace {self.namespace}"
        )

    def _shrink(self, case: Case) -> None:
        """Lets go of pods, once Ray Serve has ended the engines that are too many: which ones is its
        choice, and the pods of the others stay."""
        changed = case.change
        fewer = (
            shrinking(changed.resized) if changed is not None and not changed.new_cluster else {}
        )
        if not fewer:
            return
        wanted = {engine.group: engine.replicas[0] for engine in case.subject.engines}
        # Where an engine takes several pods, those without a replica may be part of one.
        spare: dict[str, list[str]] = {g: [] for g, pods in fewer.items() if wanted.get(g) != pods}
        self.say(f"Ray Serve ends the engines that are too many of {', '.join(fewer)}")
        begin = self.now()
        while len(spare) < len(fewer) and self.now() - begin < _SHRINK_SECONDS:
            with suppress(UsageError):  # the API server may be away for a while
                snapshot = take(self.cluster, self.release, self.namespace)
                for group in fewer.keys() - spare.keys():
                    found = spare_pods(snapshot, group, wanted[group])
                    if found is not None:
                        spare[group] = found
            if len(spare) < len(fewer):
                self.pause(_LOOK_SECONDS)
        for group in fewer.keys() - spare.keys():
            self.say(f"Which pods of {group} hold no engine cannot be seen; KubeRay chooses")
            spare[group] = []
        self._resize(case, spare)

    def _resize(self, case: Case, spare: dict[str, list[str]] | None = None) -> None:
        """Gives the running cluster its new numbers of replicas; `spare` as in `resize`."""
        metadata = (case.facts.raycluster or {})["metadata"]
        path = f"/apis/{RAY_API}/namespaces/{self.namespace}/rayclusters/{metadata['name']}"
        config = mapping(mapping(case.rendered.rayservice["spec"]).get("rayClusterConfig"))
        for attempt in range(1, _TRIES + 1):
            manifest = resize(config, self.cluster.get(path), spare)
            try:
                if manifest is not None:
                    self.cluster.apply(manifest)
                return
            except UsageError:
                # As a rule the operator or the autoscaler has written meanwhile.
                if attempt == _TRIES:
                    raise
                self.pause(1)

    def _watch(self, case: Case) -> None:
        """Looks until it serves, fails, or time is up."""
        changed = case.change
        watch = Watch(
            upgraded=changed is not None,
            engines_start=changed is None or changed.new_cluster,
        )
        begin = seen = self.now()
        shown = self.show()
        try:
            while True:
                verdict, note = Verdict.WAIT, ""
                try:
                    snapshot = take(self.cluster, self.release, self.namespace)
                    verdict = watch.look(snapshot, diagnose(snapshot), self.now() - begin)
                    seen = self.now()
                except UsageError as absence:
                    if self.now() - seen > _SILENT_SECONDS:
                        raise
                    note = str(absence)
                shown.show(watch, self.now() - begin, note)
                if verdict is not Verdict.WAIT or self.now() - begin > self.timeout:
                    break
                self.pause(_LOOK_SECONDS)
        finally:
            shown.close()
            self.result.stages.update(watch.seconds)
        if verdict is Verdict.SERVES:
            self.result.running = True
            self.result.endpoint = f"{endpoint(case.rendered.rayservice)}/v1"
        else:
            self.result.findings += watch.failures or [*watch.findings, self._late(watch)]

    def _late(self, watch: Watch) -> Finding:
        unfinished = [stage for stage in watch.stages if not stage.complete]
        where = "; ".join(
            f"{stage.name} {stage.done} of {stage.total}"
            + (f" ({stage.detail})" if stage.detail else "")
            for stage in unfinished
        )
        return error(
            "RPD674",
            f"release {self.release}",
            f"It does not serve after {self.timeout:.0f} s. What is not done: {where or 'nothing could be seen'}.",
            f"If it only is slow, watch on: {self.command('status')}, or give a longer --timeout. "
            f"Else see why: {self.command('doctor')}",
        )

    def command(self, verb: str) -> str:
        """A verb of raypd for this release, as a person types it."""
        return f"raypd {verb} --release {self.release} -n {self.namespace}{self.where}"


def _tell(work: Up, output: Output) -> int:
    """Prints the result and gives the exit code."""
    result = work.result
    code = INTERRUPTED if result.interrupted else int(not result.running)
    if output == "json":
        print(result.as_json())
    elif result.interrupted:
        print(_interrupted(work), file=sys.stderr)
    elif result.running:
        print(f"Serving after {result.seconds:.0f} s, inside the cluster at {result.endpoint}")
        print(f"Next: {work.command('verify')}")
    else:
        Report(
            findings=result.findings, checked=result.checked, not_checked=result.not_checked
        ).print()
        if result.revision is not None:
            print(f"It stays installed. To remove it: {work.command('down')}", file=sys.stderr)
    return code


def _interrupted(work: Up) -> str:
    if work.result.revision is None:
        return "Interrupted; nothing of the release was installed."
    return (
        "Interrupted; the install goes on without being watched.\n"
        f"  watch on:  {work.command('status')}\n"
        f"  remove it: {work.command('down')}"
    )
