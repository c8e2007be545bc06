"""The shipped eksctl files against eksctl itself: its JSON schema, its loader, its plugins."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from raypd import yaml_text
from raypd.data import load
from raypd.toolchain import go
from raypd.toolchain.programs import pins

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "eksctl").glob("*.yaml"))
INSTANCES = yaml_text.load((ROOT / "charts/ray-pd-llm/files/instances.yaml").read_text())
LOADER = Path(__file__).parent / "loader/main.go"

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@pytest.fixture(scope="session")
def sources() -> Path:
    """eksctl's own sources, of the version that the toolchain pins."""
    pin = pins()["eksctl"]
    return go.module(pin["module"], pin["version"])


@pytest.fixture(scope="session")
def schema(sources: Path) -> jsonschema.protocols.Validator:
    text = (sources / "pkg/apis/eksctl.io/v1alpha5/assets/schema.json").read_text()
    document = json.loads(text)
    return jsonschema.validators.validator_for(document)(document)


@pytest.fixture(scope="session")
def loader() -> Path:
    """loader/main.go built against eksctl; a changed source is another program in the cache."""
    pin, source = pins()["eksctl"], LOADER.read_text()
    name = f"eksctl-loader-{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    return go.build(pin["module"], name, pin["version"], files={"main.go": source})


def run_loader(loader: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([loader, *files], capture_output=True, text=True, timeout=60)


def config_of(file: Path) -> dict[str, Any]:
    return yaml_text.load(file.read_text())


def gpu_group(config: dict[str, Any]) -> dict[str, Any]:
    return next(group for group in config["managedNodeGroups"] if group["name"] == "gpu")


# --- what eksctl makes of them -----------------------------------------------------------------


def test_there_is_a_file_for_each_infrastructure() -> None:
    assert [file.stem for file in FILES] == ["g5-tcp", "g6", "g6e", "p5"]


@each_file
def test_the_schema_of_eksctl_accepts_it(file: Path, schema: jsonschema.Validator) -> None:
    assert [error.message for error in schema.iter_errors(config_of(file))] == []


def test_the_schema_of_eksctl_refuses_a_misspelt_key(schema: jsonschema.Validator) -> None:
    config = config_of(FILES[0])
    gpu_group(config)["efaEnable"] = True
    assert not schema.is_valid(config)


def test_the_loader_of_eksctl_accepts_all(loader: Path) -> None:
    answer = run_loader(loader, *FILES)
    assert answer.returncode == 0, answer.stderr
    for file, groups in json.loads(answer.stdout).items():
        by_name = {group["name"]: group for group in groups}
        assert set(by_name) == {"system", "gpu"}, file
        assert all(group["amiFamily"] == "AmazonLinux2023" for group in groups)
        # What the node gets is what nodeadm reads; eksctl drops keys that it does not know.
        user_data = by_name["gpu"]["userData"]
        assert "Content-Type: application/node.eks.aws" in user_data
        assert re.search(r"localStorage:\s+strategy: RAID0\b", user_data)
        assert by_name["system"]["userData"] == ""


@pytest.mark.parametrize(
    ("bend", "complaint"),
    [
        (
            {"availabilityZones": ["us-west-2a", "us-west-2b"]},
            "only one subnet or one availability",
        ),
        ({"efaEnable": True}, 'unknown field "efaEnable"'),
        (
            {"instanceMarketOptions": {"marketType": "capacity-block"}},
            "without capacityReservation",
        ),
        ({"labels": {"kubernetes.io/role": "gpu"}}, "disallowed"),
    ],
)
def test_the_loader_of_eksctl_refuses(
    loader: Path, tmp_path: Path, bend: dict[str, Any], complaint: str
) -> None:
    config = config_of(ROOT / "eksctl/g6.yaml")
    gpu_group(config).update(bend)
    broken = tmp_path / "broken.yaml"
    broken.write_text(yaml.safe_dump(config))
    answer = run_loader(loader, broken)
    assert answer.returncode == 1
    assert complaint in answer.stderr


# --- what our data says of eksctl --------------------------------------------------------------


def daemon_set(sources: Path, name: str) -> dict[str, Any]:
    return yaml_text.load((sources / f"pkg/addons/assets/{name}.yaml").read_text())["spec"][
        "template"
    ]["spec"]


def tolerated(pod: dict[str, Any]) -> set[tuple[str, str | None]]:
    assert all(toleration["operator"] == "Exists" for toleration in pod["tolerations"])
    return {(toleration["key"], toleration.get("effect")) for toleration in pod["tolerations"]}


@pytest.mark.parametrize(
    ("manifest", "plugin"),
    [("efa-device-plugin", "efaPlugin"), ("nvidia-device-plugin", "nvidiaPlugin")],
)
def test_the_plugins_tolerate_what_our_data_says(sources: Path, manifest: str, plugin: str) -> None:
    known = load("eksctl.yaml")[plugin]["toleratedTaints"]
    assert tolerated(daemon_set(sources, manifest)) == {
        (taint["key"], taint.get("effect")) for taint in known
    }


def test_the_efa_plugin_runs_on_the_types_that_our_data_names(sources: Path) -> None:
    affinity = daemon_set(sources, "efa-device-plugin")["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    expressions = {e["key"]: e for e in term["matchExpressions"]}
    bound = set(expressions["node.kubernetes.io/instance-type"]["values"])
    assert set(load("eksctl.yaml")["efaPlugin"]["instanceTypes"]) == bound & set(INSTANCES)


# --- what a reader is told ---------------------------------------------------------------------


def header(file: Path) -> str:
    lines = file.read_text().splitlines()
    return "\n".join(line for line in lines[: lines.index("apiVersion: eksctl.io/v1alpha5")])


@each_file
def test_the_header_names_the_quota_of_the_group(file: Path) -> None:
    group = gpu_group(config_of(file))
    shape = INSTANCES[group["instanceType"]]
    needed = re.search(r"# Quota: (\d+) vCPUs of .* \((L-\w+)\)", header(file))
    assert needed, 'the header must say: # Quota: N vCPUs of "..." (L-...)'
    assert int(needed[1]) == shape["vcpu"] * group["maxSize"]
    assert needed[2] == shape["quota"]
    assert f"--quota-code {shape['quota']}" in header(file)


@each_file
def test_the_header_has_cost_and_commands(file: Path) -> None:
    text = header(file)
    assert "# Cost: " in text and "# Commands" in text
    for command in ("eksctl create cluster", "eksctl delete cluster"):
        assert f"{command} -f eksctl/{file.name}" in text
    assert re.search(rf"raypd lint -f values/\S+ --eksctl eksctl/{file.name}", text)
    assert re.search(r"helm install llm charts/ray-pd-llm -n inference -f values/\S+", text)


@each_file
def test_commands_in_the_header_name_the_cluster_of_the_file(file: Path) -> None:
    metadata = config_of(file)["metadata"]
    text = header(file)
    assert set(re.findall(r"--cluster (\S+)", text)) <= {metadata["name"]}
    assert set(re.findall(r"--region (\S+)", text)) <= {metadata["region"]}


@pytest.mark.parametrize("page", [*FILES, ROOT / "docs/eks.md"], ids=lambda page: page.name)
def test_every_file_and_section_that_is_named_exists(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"\b(?:values|eksctl|charts|docs|scripts)/[\w./-]*\w", text))
    assert named
    assert sorted(path for path in named if not (ROOT / path).exists()) == []
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs/eks.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}
    links = set(re.findall(r"(?:docs/eks\.md|\()#([\w-]+)", text))
    assert sorted(links - anchors) == []


def test_the_guide_uses_each_file() -> None:
    text = (ROOT / "docs/eks.md").read_text()
    assert [file.name for file in FILES if f"eksctl/{file.name}" not in text] == []
