"""A render for another Ray than the chart's default: what it uses and is different there (RPD307);
and, for any Ray, variables that its vLLM gives up (RPD308).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from raypd.lint.changes import Change, changes, uses
from raypd.lint.contract import NAMES, PARTS, Contract, contract_for, default_version
from raypd.lint.subject import Check, Subject, warning
from raypd.report import Finding
from raypd.schema import shown

# For the list of what was not checked.
NOT_COMPARED = (
    "what {versions} do otherwise than the chart's default versions beside names, types and choices of "
    "arguments: the chart's own tests run the default ones"
)


def deprecated_variables(subject: Subject) -> Iterator[Finding]:
    deprecated = subject.contract.vllm["deprecated_environment"]
    for path, env in subject.environments:
        for name in filter(deprecated.__contains__, env):
            instead = [f"`engine_kwargs.{key}`" for key in deprecated[name]["instead"]]
            yield warning(
                "RPD308",
                f"{path}[{name}]",
                f"vLLM {subject.contract.version_of('vllm')} warns that it is deprecated, and has "
                f"announced its end for {deprecated[name]['until']}.",
                f"{' or '.join(instead)} in its place." if instead else "Take it out.",
            )


CHECKS: list[Check] = [deprecated_variables]


def is_default(contract: Contract) -> bool:
    """The contract is that of the chart's default image, or of a patch release that changed nothing."""
    default = contract_for(default_version())
    return all(getattr(contract, part) == getattr(default, part) for part in PARTS)


def differences(subject: Subject, told: Collection[str]) -> tuple[list[Finding], str]:
    """What the render uses and is different from the chart's default versions, and a line that says
    what was compared. `told` are the paths that findings have told of already.
    """
    new, old = subject.contract, contract_for(default_version())
    used = uses(subject.rendered, new)
    every = changes(old, new)
    here = [change for change in every if change.thing in used]
    findings = [
        warning("RPD307", use.path, _reason(change, new, old), _remedy(change))
        for change in here
        for use in used[change.thing]
        if change.concerns(use.value) and use.path not in told
    ]
    return findings, (
        f"these versions against the chart's default ones ({old.versions}): {len(every)} differences in "
        f"what they take, {len(here)} of them in what this render uses"
    )


def _reason(change: Change, new: Contract, old: Contract) -> str:
    version, before = (
        f"{NAMES[change.part]} {contract.version_of(change.part)}" for contract in (new, old)
    )
    match change.kind:
        case "removed":
            return f"{version} does not know it, and {before} does."
        case "deprecated":
            return f"It is deprecated in {version}, and was not in {before}."
        case "retyped":
            return f"{version} takes {change.new}, and {before} {change.old}."
    return f"{version} does not take {', '.join(map(shown, change.choices))}, and {before} does."


def _remedy(change: Change) -> str:
    if change.kind == "retyped":
        return f"A value that is {change.new}."
    return "Another setting, or an image of the chart's default versions."
