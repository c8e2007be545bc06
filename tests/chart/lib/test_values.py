"""Values that are missing, as after `--reuse-values` from an older release."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from chart.rendering import CHART, Refused, run_helm
from raypd import yaml_text


@pytest.fixture(scope="module")
def bare_chart(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with hardly any default values: what `--reuse-values` leaves of new blocks."""
    folder = tmp_path_factory.mktemp("bare")
    with tarfile.open(package) as archive:
        archive.extractall(folder, filter="data")
    chart = folder / "ray-pd-llm"
    (chart / "values.yaml").write_text("model: {maxModelLen: 4096}\n")
    return chart


def test_missing_blocks_act_as_the_defaults(bare_chart, each_helm, render):
    text = run_helm(each_helm, "template", "llm", str(bare_chart), "-n", "inference")
    (service,) = [m for m in yaml_text.load_all(text) if m and m["kind"] == "RayService"]
    bare, full = (
        yaml_text.load(spec["serveConfigV2"]) for spec in (service["spec"], render.rayservice())
    )
    assert bare == full


@pytest.mark.parametrize("table", ["instances", "models"])
def test_each_entry_of_a_table_is_found_on_a_line_of_its_own(table):
    """As templates/lib/_values.tpl looks for it, without reading the rest."""
    text = (CHART / "files" / f"{table}.yaml").read_text()
    entries = yaml_text.load(text)
    for key, entry in entries.items():
        (line,) = re.findall(rf"\n{re.escape(key)}: .*", text)
        assert yaml_text.load(line) == {key: entry}


def test_numbers_survive_unchanged(render):
    values = {"model": {"maxModelLen": 10_000_000, "source": "acme/new", "kind": "dense"}}
    values["prefill"] = {"maxNumBatchedTokens": 1_048_576, "engineArgs": {"x": 12345678, "y": 0.1}}
    values["decode"] = {"env": {"BIG": 1_048_576, "FRACTION": 0.25, "YES": True, "ZERO": "007"}}
    args = render.serve_args(values)["prefill_config"]["engine_kwargs"]
    assert args["max_model_len"] == 10_000_000
    assert args["max_num_batched_tokens"] == 1_048_576
    assert (args["x"], args["y"]) == (12345678, 0.1)
    env = render.env(values)["decode"]
    assert [env[k] for k in ("BIG", "FRACTION", "YES", "ZERO")] == [
        "1048576",
        "0.25",
        "true",
        "007",
    ]


def test_a_version_that_looks_like_a_number_stays_text(render):
    pod = render.pods({"image": {"tag": "2.10"}})["head"]
    assert pod["containers"][0]["image"].endswith(":2.10")
    with pytest.raises(Refused, match="tag"):
        render.text({"image": {"tag": 2.10}})
