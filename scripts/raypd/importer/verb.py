"""`raypd import`."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from raypd import yaml_text
from raypd.importer import compare, write
from raypd.importer.draft import Draft, cut, merged, plain, pruned
from raypd.importer.objects import objects
from raypd.importer.pods import pods
from raypd.importer.read import Original, original, read
from raypd.importer.rights import head_devices, rights
from raypd.importer.secret import hub, scrub
from raypd.importer.serve import serve
from raypd.render import Rendered, RenderRefused, ValueArguments, default_chart, render
from raypd.render.chart import as_folder, tables
from raypd.report import Output, Report, UsageError
from raypd.schema import dotted, resolved


@dataclass(frozen=True)
class Imported:
    """`values` are those that differ from the chart's defaults, `text` the same as a file."""

    values: dict[str, Any]
    text: str
    report: Report


def run(file: str, to: Path | None, force: bool, chart: Path | None, output: Output) -> int:
    """Writes the values and prints the report; returns the exit code.

    The file is written even when something could not be carried over, or when the chart refuses the
    values: the findings say what to change in it.
    """
    if to is not None and to.exists() and not force:
        raise UsageError(f"{to} is there already. Give another file, or --force to overwrite it.")
    imported = imported_from(read(file), chart or default_chart(), file, str(to or "THIS_FILE"))
    if to is not None:
        try:
            to.write_text(imported.text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{to} cannot be written: {error}") from error
    report = imported.report
    if output == "json":
        print(json.dumps({"values": plain(imported.values), **report.model_dump()}, indent=2))
    elif to is None:
        print(imported.text, end="")
        report.print(output, file=sys.stderr)
    else:
        report.print(output)
        print(f"Wrote {to}.")
    return report.exit_code


def imported_from(
    source: Original, chart: Path, origin: str, to: str = "THIS_FILE", helm: Path | None = None
) -> Imported:
    """The chart's values for a RayService, and the report on what they carry over. `origin` and
    `to` are the files' names, for the comment at the top.
    """
    facts = Facts.of(chart)
    draft = drafted(source, facts)
    report = Report(not_checked=list(_NOT_CHECKED))
    first: Original | None = None
    try:
        first = original(_rendered(draft, chart, source, helm), "the render")
        _finished(draft, source, first, facts)
        second = original(_rendered(draft, chart, source, helm), "the render")
        compare.differences(draft, source, second)
        report.checked.append("the chart's render with these values against the manifest")
    except RenderRefused as refused:
        if first is None:
            _finished(draft, source, None, facts)
        draft.findings += refused.findings
        report.not_checked.insert(
            0, "the render against the manifest: the chart refuses the values"
        )
    report.checked.insert(0, "the chart's schema and rules")
    report.findings = sorted(draft.findings, key=lambda f: f.severity)  # errors first
    values = pruned(draft.values, facts.defaults)
    head = [
        f"Written by `raypd import {origin}`: values that differ from the chart's defaults.",
        f"check    raypd lint -f {to} -n {source.namespace}",
        f"install  helm install {source.release} charts/ray-pd-llm -n {source.namespace} -f {to}",
    ]
    return Imported(values, write.text(values, draft.comments, head), report)


_NOT_CHECKED = [
    "whether the values are good ones: `raypd lint -f` and `raypd plan -f` say it",
    "what is in the image, in Secrets and on volumes, which the values only name",
]


@dataclass(frozen=True)
class Facts:
    """What the chart brings along: its defaults, its schema, and tables of its files/."""

    defaults: dict[str, Any]
    schema: dict[str, Any]
    models: dict[str, Any]
    instances: dict[str, Any]
    owned: dict[str, Any]
    versions: dict[str, Any]

    @classmethod
    def of(cls, chart: Path) -> Facts:
        with as_folder(chart) as folder:
            return cls(
                defaults=yaml_text.load((folder / "values.yaml").read_text(encoding="utf-8")),
                # Resolved: the validator looks up every `$ref` again whenever it comes upon one.
                schema=resolved(
                    json.loads((folder / "values.schema.json").read_text(encoding="utf-8"))
                ),
                **tables(folder, "models", "instances", "owned", "versions"),
            )


def drafted(source: Original, facts: Facts) -> Draft:
    """What has a value of its own, as far as the chart's schema takes it; Helm is not asked."""
    draft = Draft()
    serve(draft, source, facts.models)
    pods(draft, source, facts.defaults, facts.instances)
    rights(draft, source)
    head_devices(draft, source)
    hub(draft, source)
    objects(draft, source)
    known = facts.versions["ray"].get(draft.get("image.rayVersion"))
    if known:
        draft.put("image.vllmVersion", known["vllm"][-1])
    scrub(draft)
    accepted(draft, facts)
    return draft


def _finished(draft: Draft, source: Original, render: Original | None, facts: Facts) -> None:
    """Fills the escapes with what the render lacks."""
    compare.escape(draft, source, render, facts.owned)
    scrub(draft)
    accepted(draft, facts)


def _rendered(draft: Draft, chart: Path, source: Original, helm: Path | None) -> Rendered:
    with tempfile.TemporaryDirectory(prefix="raypd-import-") as scratch:
        path = Path(scratch) / "values.yaml"
        path.write_text(yaml.safe_dump(draft.values, sort_keys=False), encoding="utf-8")
        return render(chart, ValueArguments([path]), source.release, source.namespace, helm)


def accepted(draft: Draft, facts: Facts) -> None:
    """Takes out what the chart's schema refuses, a finding for each."""
    validator = jsonschema.validators.validator_for(facts.schema)(facts.schema)
    for _ in range(50):  # each round takes out one value; a manifest with more is no manifest
        whole = merged(facts.defaults, draft.values)
        error = next(iter(validator.iter_errors(whole)), None)
        if error is None:
            return
        path = tuple(error.absolute_path)
        if "propertyNames" in error.absolute_schema_path:
            path = (*path, error.instance)
        elif error.validator == "additionalProperties":
            known = error.schema.get("properties", {})
            path = (*path, next(key for key in error.instance if key not in known))
        try:
            cut(draft.values, path)
        except (KeyError, IndexError, TypeError):
            return  # what is refused is not the draft's: Helm says the same, and the report tells it
        draft.lost(
            "RPD759",
            dotted(path),
            "The chart does not take what the manifest has here, and the value was left out"
            + (f" ({error.validator})." if error.validator else "."),
            "A value that docs/values.md allows, written into the file by hand.",
        )
