"""The KubeRay operator of a cluster: finding it, knowing its version, and installing it where none is."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raypd import yaml_text
from raypd.data import load
from raypd.lint.subject import mapping, sequence
from raypd.render.chart import as_folder
from raypd.report import UsageError
from raypd.toolchain.programs import pins

if TYPE_CHECKING:
    from raypd.live.cluster import Cluster
    from raypd.live.release import Helm

Json = dict[str, Any]

DEPLOYMENTS = "/apis/apps/v1/deployments"
# `app.kubernetes.io/name` by KubeRay's kustomization and by its Helm chart; where somebody gave it
# another one, the image tells.
_NAMES = ("kuberay", "kuberay-operator")
_IMAGE = re.compile(r"kuberay[-/]operator\b")
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+)\b")
_PAUSE = 2.0  # seconds between two looks at its start


def find(deployments: list[Json]) -> Json | None:
    """The operator among Deployments, one that runs before one that does not; None if it is not
    among them."""
    return max(filter(_is_operator, deployments), key=is_running, default=None)


def _is_operator(deployment: Json) -> bool:
    name = mapping(deployment["metadata"].get("labels")).get("app.kubernetes.io/name")
    # KubeRay's API server and dashboard may share the first label.
    labelled = name in _NAMES and "operator" in deployment["metadata"]["name"]
    return labelled or bool(_IMAGE.search(str(_container(deployment).get("image") or "")))


def is_running(deployment: Json) -> bool:
    """At least one of its pods is ready."""
    return int(mapping(deployment.get("status")).get("readyReplicas") or 0) > 0


def version_of(deployment: Json) -> str | None:
    """ "1.6.2", by the image's tag, else by the labels of its chart; None when nothing tells."""
    labels = mapping(deployment["metadata"].get("labels"))
    image = str(_container(deployment).get("image") or "").partition("@")[0]
    tag = image.rpartition("/")[2].partition(":")[2]
    for text in (tag, labels.get("app.kubernetes.io/version"), labels.get("helm.sh/chart")):
        if found := _VERSION.search(str(text or "")):
            return found[1]
    return None


def watched(deployment: Json) -> list[str] | None:
    """The namespaces that it is told to look at; None means all of them."""
    container = _container(deployment)
    words = [
        str(w) for w in [*sequence(container.get("command")), *sequence(container.get("args"))]
    ]
    for at, word in enumerate(words):
        option, given, value = word.lstrip("-").partition("=")
        if word.startswith("-") and option == "watch-namespace":
            names = value if given else "".join(words[at + 1 : at + 2])
            return [name.strip() for name in names.split(",") if name.strip()] or None
    return None


def wanted_version() -> str:
    """The version that is installed where there is none, as "1.6.2"."""
    return str(pins()["kuberay"]["version"]).removeprefix("v")


def install(
    cluster: Cluster, helm: Helm, chart: str | None, seconds: float, say: Callable[[str], None]
) -> None:
    """Installs CRDs and operator and waits until it runs; only to be called where there is none.

    `chart` is a folder, a package or a reference that Helm understands; None takes KubeRay's
    published chart in the wanted version. The CRDs are those in the chart, applied by the server,
    because they are too large for the annotation that client-side apply makes. `say` gets one line
    for each step. Raises UsageError when the chart cannot be had, and when the operator does not
    run after `seconds`.
    """
    known = load("operator.yaml")
    namespace = known["namespace"]
    with _chart(helm, chart) as folder:
        metadata = yaml_text.load((folder / "Chart.yaml").read_text(encoding="utf-8"))
        for file in sorted(folder.glob("crds/*.yaml")):
            for crd in yaml_text.load_all(file.read_text(encoding="utf-8")):
                if isinstance(crd, dict):
                    cluster.apply(crd)
                    say(f"CRD {crd['metadata']['name']} applied")
        helm.upgrade(known["release"], folder, namespace, extra=("--skip-crds",))
    say(f"{metadata['name']} {metadata['version']} installed in namespace {namespace}")

    def runs() -> bool:
        found = find(cluster.list(f"/apis/apps/v1/namespaces/{namespace}/deployments"))
        return found is not None and is_running(found)

    if not cluster.wait(runs, seconds, _PAUSE):
        why = "; ".join(_waiting(cluster.list(f"/api/v1/namespaces/{namespace}/pods")))
        raise UsageError(
            f"The KubeRay operator was installed in namespace {namespace} and does not run after "
            f"{seconds:.0f} s: {why or 'it has no pods'}. Repair that and run the same command "
            f"again, or remove it: helm uninstall {known['release']} -n {namespace}"
        )
    say("KubeRay operator runs")


@contextmanager
def _chart(helm: Helm, given: str | None) -> Iterator[Path]:
    """The operator's chart as a folder, fetched for as long as the context lasts if it is not here."""
    if given is not None and Path(given).exists():
        with as_folder(Path(given)) as folder:
            if not (folder / "Chart.yaml").is_file():
                raise UsageError(f"--operator-chart {given} is no chart: it has no Chart.yaml.")
            yield folder
        return
    known = load("operator.yaml")
    version = wanted_version()
    try:
        if given is None:
            fetched = helm.pull(known["chart"], known["repository"], version)
        else:
            fetched = helm.pull(given, None, None)
    except UsageError as error:
        source = given or f"{known['chart']} {version} of {known['repository']}"
        raise UsageError(
            f"The KubeRay operator's chart {source} cannot be had: {error}\n"
            f"Where this machine has no way there, fetch it on another one with `helm pull "
            f"{known['chart']} --repo {known['repository']} --version {version}` and give the "
            "file with --operator-chart."
        ) from error
    try:
        yield next(fetched.glob("*/Chart.yaml")).parent
    finally:
        shutil.rmtree(fetched, ignore_errors=True)


def _waiting(pods: list[Json]) -> list[str]:
    """Per pod what it waits for, in the words of the kubelet or of the scheduler."""
    lines = []
    for pod in pods:
        status = mapping(pod.get("status"))
        states = [mapping(c.get("state")) for c in sequence(status.get("containerStatuses"))]
        words = [w for s in states for w in _words(s.get("waiting") or s.get("terminated"))]
        words += [
            f"{c.get('reason')}: {c.get('message')}"
            for c in sequence(status.get("conditions"))
            if c.get("type") == "PodScheduled" and c.get("status") != "True"
        ]
        lines.append(f"pod {pod['metadata']['name']}: {', '.join(words) or status.get('phase')}")
    return lines


def _words(state: Any) -> list[str]:
    state = mapping(state)
    return [": ".join(filter(None, (state.get("reason"), state.get("message"))))] if state else []


def _container(deployment: Json) -> Json:
    pod = mapping(mapping(mapping(deployment.get("spec")).get("template")).get("spec"))
    containers = sequence(pod.get("containers"))
    return mapping(containers[0]) if containers else {}
