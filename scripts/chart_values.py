"""Makes everything that is derived from charts/ray-pd-llm/values.schema.yaml.

    python scripts/chart_values.py           write the files
    python scripts/chart_values.py --check   exit 1 and name the files that differ

The schema source is the only place where a value's name, type, bounds, default and description are
written. Out of it come

    values.schema.json    JSON Schema draft-07, strict at every level; Helm compiles it for each render,
                          so what is said once in the source is said once there
    values.yaml           the defaults, with the descriptions as comments
    files/defaults.json   what templates fall back to for a block that is null or missing
    docs/values.md        the reference for people
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from raypd import yaml_text
from raypd.schema import resolved

Schema = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "ray-pd-llm"
SOURCE = CHART / "values.schema.yaml"
GENERATED = f"Generated from {SOURCE.relative_to(ROOT)} by scripts/chart_values.py; edit there."
DEFINITIONS = "#/definitions/"
OR_NULL = "OrNull"  # ends the name of a definition that takes null as well
ROLE_TWINS = (
    "decode",
    "engine",
)  # blocks with the keys of `prefill`: their comments are not repeated


def is_block(schema: Schema) -> bool:
    """True for an object whose keys the chart names, false for a map whose keys are the user's."""
    return "properties" in schema


def nullable(schema: Schema) -> Schema:
    """Lets a value also be null."""
    if "$ref" in schema:
        return schema | {"$ref": schema["$ref"] + OR_NULL}
    if "oneOf" in schema:
        return schema | {"oneOf": [*schema["oneOf"], {"type": "null"}]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    schema = schema | {"type": [*kinds, "null"]}
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    return schema


def strict(schema: Schema, *, in_list: bool = False) -> Schema:
    """Closes every object that names its keys, and lets keys that are not required be null.

    Inside a list there are no defaults to fall back to, so null stays refused there.
    """
    schema = {k: v for k, v in schema.items() if k not in ("nullMeans", "definitions")}
    if "items" in schema:
        schema["items"] = strict(schema["items"], in_list=True)
    if is_block(schema):
        schema.setdefault("additionalProperties", False)
        required = schema.get("required", [])
        schema["properties"] = {
            key: child if in_list or key in required else nullable(child)
            for key, child in (
                (key, strict(value, in_list=in_list)) for key, value in schema["properties"].items()
            )
        }
    return schema


def default(schema: Schema) -> Any:
    """The default of a value; that of a block is made of its keys' defaults."""
    if "default" in schema:
        return copy.deepcopy(schema["default"])
    if is_block(schema):
        return {key: default(value) for key, value in schema["properties"].items()}
    raise SystemExit(f"no default: {schema}")


def fallback(schema: Schema) -> Any:
    """What null means: the default, but nothing at all for the user's own maps and tolerations."""
    if is_block(schema) and "default" not in schema:
        return {key: fallback(value) for key, value in schema["properties"].items()}
    if schema["type"] == "object":
        return {}
    return [] if schema.get("nullMeans") == "empty" else default(schema)


def definition(name: str, written: Schema) -> Schema:
    """One definition of values.schema.json; that without null is what stands inside lists."""
    plain = name.removesuffix(OR_NULL)
    if plain == name:
        return strict(written[name], in_list=True)
    return nullable(strict(written[plain]))


def references(node: Any) -> Iterator[str]:
    """The names of the definitions that a schema refers to."""
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    elif isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].removeprefix(DEFINITIONS)
        for value in node.values():
            yield from references(value)


def json_schema(source: Schema) -> str:
    document = strict(source)
    # Helm puts these two into the values of a subchart.
    document["properties"] = {
        "global": {
            "type": ["object", "null"],
            "description": "Values that Helm shares with subcharts; not read by this chart.",
            "additionalProperties": True,
        },
        "enabled": {
            "type": ["boolean", "null"],
            "description": "Condition of a parent chart; not read by this chart.",
        },
    } | document["properties"]
    definitions: Schema = {}
    unread = [document]
    while unread:
        for name in references(unread.pop()):
            if name not in definitions:
                definitions[name] = definition(name, source["definitions"])
                unread.append(definitions[name])
    document["definitions"] = dict(sorted(definitions.items()))
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def inline(value: Any) -> str:
    """A value as one line of YAML, strings quoted where they must be."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    text = yaml.safe_dump(
        value, default_flow_style=True, width=10**6, sort_keys=False, allow_unicode=True
    )
    return text.strip().removesuffix("\n...").strip()


def comment(text: str, indent: str) -> list[str]:
    width = 100 - len(indent) - 2
    return [f"{indent}# {line}" for line in textwrap.wrap(text, width)]


def values_lines(schema: Schema, indent: str = "", *, comments: bool = True) -> list[str]:
    lines: list[str] = []
    for key, child in schema["properties"].items():
        if not indent:
            lines.append("")
        if comments or not indent:
            lines += comment(child["description"], indent)
            if "enum" in child:
                lines += comment("One of: " + ", ".join(map(str, child["enum"])) + ".", indent)
        if is_block(child) and "default" not in child:
            twin = not indent and key in ROLE_TWINS
            if twin:
                lines += comment("Same keys as `prefill`.", indent)
            lines.append(f"{indent}{key}:")
            lines += values_lines(child, indent + "  ", comments=comments and not twin)
        elif isinstance(child["default"], list) and child["default"]:
            lines.append(f"{indent}{key}:")
            lines += [f"{indent}  - {inline(item)}" for item in child["default"]]
        elif isinstance(child["default"], dict) and child["default"]:
            lines.append(f"{indent}{key}:")
            lines += [f"{indent}  {k}: {inline(v)}" for k, v in child["default"].items()]
        else:
            lines.append(f"{indent}{key}: {inline(child['default'])}")
    return lines


def values_yaml(schema: Schema) -> str:
    head = [
        f"# {GENERATED}",
        "#",
        "# These defaults alone are the reference deployment: Qwen3.5-9B on two g6.8xlarge nodes,",
        "# prefill on one and decode on the other, KV cache over EFA.",
    ]
    return "\n".join(head + values_lines(schema)) + "\n"


def kind_of(schema: Schema) -> str:
    kind = " or ".join([schema["type"]] if isinstance(schema["type"], str) else schema["type"])
    if "enum" in schema:
        return " \\| ".join(f"`{v}`" for v in schema["enum"])
    bounds = [
        f"{sign} {schema[key]}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
        if key in schema
    ]
    return " ".join([kind, ", ".join(bounds)]).strip()


def reference_rows(schema: Schema, prefix: str) -> list[str]:
    rows: list[str] = []
    for key, child in schema["properties"].items():
        path = f"{prefix}{key}"
        text = child["description"].replace("|", "\\|")
        if child.get("examples"):
            text += f" Example: `{inline(child['examples'][0])}`."
        if is_block(child) and "default" not in child:
            rows.append(f"| **`{path}`** | | | {text} |")
            rows += reference_rows(child, path + ".")
        else:
            shown = inline(child["default"]).replace("|", "\\|")
            rows.append(f"| `{path}` | {kind_of(child)} | `{shown}` | {text} |")
    return rows


def reference(schema: Schema) -> str:
    lines = [
        "# Values",
        "",
        f"<!-- {GENERATED} -->",
        "",
        "Every value of the chart. A key that is not listed here is refused at every level. Null",
        "means the default, and nothing at all for maps and tolerations that are the user's own.",
    ]
    head = ["", "| value | type | default | meaning |", "| --- | --- | --- | --- |"]
    flat: list[str] = []
    for key, child in schema["properties"].items():
        if not is_block(child):
            flat += reference_rows({"properties": {key: child}}, "")
            continue
        lines += ["", f"## `{key}`", "", child["description"]]
        if key in ROLE_TWINS:
            lines += ["", "Same keys and defaults as [`prefill`](#prefill)."]
        else:
            lines += [*head, *reference_rows(child, f"{key}.")]
    return "\n".join([*lines, "", "## Names and objects", *head, *flat]) + "\n"


def outputs() -> dict[Path, str]:
    """The text of every generated file by its path."""
    source = yaml_text.load(SOURCE.read_text())
    schema = resolved(source)
    return {
        CHART / "values.schema.json": json_schema(source),
        CHART / "values.yaml": values_yaml(schema),
        CHART / "files" / "defaults.json": json.dumps(fallback(schema), indent=1) + "\n",
        ROOT / "docs" / "values.md": reference(schema),
    }


def stale() -> list[Path]:
    """The generated files that differ from what the source says."""
    return [
        path for path, text in outputs().items() if not path.exists() or path.read_text() != text
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    if parser.parse_args().check:
        for path in (late := stale()):
            print(f"{path.relative_to(ROOT)} is not what the schema says", file=sys.stderr)
        return int(bool(late))
    for path, text in outputs().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
