"""Values as a YAML file, with a comment over what needs a decision."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes equal blocks out instead of referring from one to the other."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text(values: dict[str, Any], comments: dict[str, str], head: list[str]) -> str:
    """The file: `head` as its first comment, then the values in their order."""
    lines = [f"# {line}".rstrip() for line in head]
    _block(values, comments, "", "", lines)
    return "\n".join(lines) + "\n"


def _block(
    values: dict[str, Any], comments: dict[str, str], path: str, indent: str, lines: list[str]
) -> None:
    for key, value in values.items():
        place = f"{path}.{key}" if path else str(key)
        if place in comments:
            lines.append(f"{indent}# {comments[place]}")
        inside = any(comment.startswith(f"{place}.") for comment in comments)
        if isinstance(value, dict) and value and (inside or indent == ""):
            lines.append(f"{indent}{_dumped(key)}:")
            _block(value, comments, place, f"{indent}  ", lines)
            continue
        dumped = yaml.dump(
            {key: value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
        )
        lines += [f"{indent}{line}".rstrip() for line in dumped.splitlines()]


def _dumped(key: Any) -> str:
    return yaml.dump({key: 0}, Dumper=_Dumper).rpartition(":")[0]
