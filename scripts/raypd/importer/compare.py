"""The chart's render against the original: what goes to the escapes, and what there is to tell."""

from __future__ import annotations

import json
from typing import Any

from raypd.importer.draft import Draft, plain
from raypd.importer.meaning import Fact, Key, meaning
from raypd.importer.read import Original
from raypd.lint.secrets import is_secret
from raypd.lint.subject import CLUSTER
from raypd.lint.transfer import DEAD_VARIABLES, SIDE_CHANNEL
from raypd.schema import shown

# What the chart decides by itself, and says otherwise than many manifests: no loss.
_RIGHTS = ("securityContext", "automountServiceAccountToken", "serviceAccountName")
_CACHES = ("HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
_CACHES += ("FLASHINFER_WORKSPACE_BASE", "HF_HUB_CACHE", "TRANSFORMERS_CACHE")
_TOLD_WITH_VALUE = ("engine argument", "KV transfer", "deployment", "experimental", "endpoint")
_REMEDIES = {
    "runtime_env": "Build it into the image, or mount it with `volumes` and `volumeMounts`.",
    "application": "Leave it out, or stay with your own manifest.",
    "serve config": "Ray's own default; the chart serves on port 8000 of every engine pod.",
    "engine argument": "`model.engineArgs`, or the value that the rule of the chart names.",
    "group": "Leave it out: the chart has a group for each role and no more.",
    "container": "The image, or a sidecar (`sidecars`) that does the same.",
    "ray start": "The chart fixes Ray's ports and the head's CPUs; leave it out.",
}
_DEAD_FIELDS = ("serviceUnhealthySecondThreshold", "deploymentUnhealthySecondThreshold")
_STAY = "Leave it out, or stay with your own manifest for it."


def escape(
    draft: Draft, original: Original, render: Original | None, owned: dict[str, Any]
) -> None:
    """Puts what the first render lacks into `env`, `engineArgs`, labels, annotations and the name.
    Without a render it is all that the chart does not own."""
    ours, theirs = meaning(render) if render else {}, meaning(original)
    variables: dict[str, dict[str, Any]] = {"head": {}, **{role: {} for role in original.homes}}
    arguments: dict[str, dict[str, Any]] = {role: {} for role in original.homes}
    for key, fact in theirs.items():
        if ours.get(key, Fact(None, "")).value == fact.value:
            continue
        area, block, name = key[0], key[1], key[-1]
        if area == "variable":
            unseen = render is None and name in owned["env"]
            if not unseen and not _told_variable(draft, block, name, fact, owned["env"]):
                variables[block][name] = fact.value
        elif area == "engine argument" and name not in owned["engineArgs"]:
            arguments[block][name] = fact.value
        elif area in ("labels", "annotations"):
            draft.put(
                f"common{area.capitalize()}",
                {**(draft.get(f"common{area.capitalize()}") or {}), name: fact.value},
            )
        elif area == "name":
            draft.put("fullnameOverride", fact.value)
    if variables["head"]:
        draft.put("head.env", variables.pop("head"))
    for found, block_key in ((variables, "env"), (arguments, "engineArgs")):
        roles = [found[role] for role in original.homes]
        both = {k: v for k, v in roles[0].items() if all(k in r and r[k] == v for r in roles)}
        if both:
            draft.put(f"model.{block_key}", both)
        for role in original.homes:
            if own := {k: v for k, v in found[role].items() if k not in both}:
                draft.put(f"{role}.{block_key}", own)


def _told_variable(
    draft: Draft, block: str, name: str, fact: Fact, owned: dict[str, dict[str, str]]
) -> bool:
    """A variable that is no matter of the escapes; says why."""
    if draft.knows(fact.path):
        return True
    if isinstance(fact.value, str) and is_secret(name, fact.value):
        draft.lost(
            "RPD754",
            fact.path,
            f"The value of {name} looks like a secret in clear text and was left out.",
            f"A Secret, and `model.env.{name}` with `valueFrom.secretKeyRef`.",
        )
    elif name in SIDE_CHANNEL or name in DEAD_VARIABLES:
        draft.changed("RPD753", fact.path, _sentence(owned[name]["why"]), _instead(owned[name]))
    elif name in _CACHES and block != "head":
        draft.changed(
            "RPD757",
            fact.path,
            f"{name} is {shown(fact.value)}; in the chart every cache has a folder of its own below "
            "`cache.mountPath`, so what is there now is loaded or compiled once more.",
            "Move it there on the volume, or let the first start do it.",
        )
    elif name in owned:
        draft.changed(
            "RPD760",
            fact.path,
            f"{name} is the chart's own: {owned[name]['why']}.",
            _instead(owned[name]),
        )
    else:
        return False
    return True


def _upper(words: str) -> str:
    return words if words.startswith("vLLM") else words[0].upper() + words[1:]


def _sentence(words: str) -> str:
    return f"{_upper(words)}."


def _instead(rule: dict[str, str]) -> str:
    """The remedy of files/owned.yaml: "set transport.ports" as "Set `transport.ports`."."""
    verb, _, value = rule["instead"].partition(" ")
    return _sentence(f"{verb} `{value}`" if verb == "set" else rule["instead"])


def differences(draft: Draft, original: Original, render: Original) -> None:
    """Tells of everything that the second render still says otherwise."""
    ours, theirs = meaning(render), meaning(original)
    for key, fact in theirs.items():
        if draft.knows(fact.path):
            continue
        if key not in ours:
            _missing(draft, key, fact)
        elif ours[key].value != fact.value:
            _otherwise(draft, key, fact, ours[key].value)
    places = {role: group.path for role, group in original.homes.items()}
    _added(draft, theirs, ours)
    _books(draft, original, render)
    if original.guessed:
        draft.changed(
            "RPD772",
            f"{CLUSTER}.workerGroupSpecs",
            "Nothing says which group is whose; the order was taken: "
            + ", ".join(f"{role} from {path.rpartition('.')[2]}" for role, path in places.items())
            + ".",
            "Exchange the blocks `prefill` and `decode` where it is the other way round.",
        )


def _added(draft: Draft, theirs: dict[Key, Fact], ours: dict[Key, Fact]) -> None:
    """One finding for all that the chart sets beyond the manifest, by area."""
    areas: dict[str, dict[str, None]] = {}
    for key, fact in ours.items():
        if key not in theirs:
            own = f"{key[-1]} {shown(fact.value)}" if key[0] in _TOLD_WITH_VALUE else key[-1]
            areas.setdefault(key[0], {})[own] = None
    if areas:
        draft.changed(
            "RPD758",
            "spec",
            "The chart sets what the manifest leaves open. "
            + " ".join(f"{_upper(area)}: {', '.join(names)}." for area, names in areas.items()),
            "Nothing to do; docs/values.md says which value each follows from.",
        )


def _missing(draft: Draft, key: Key, fact: Fact) -> None:
    area, name = key[0], key[-1]
    if name in _RIGHTS:
        return _rights(draft, fact)
    if name == "lifecycle" and "ray" in str(fact.value) and "stop" in str(fact.value):
        return draft.changed(
            "RPD753",
            fact.path,
            "`ray stop` before the end is not needed any more.",
            "Nothing to do.",
        )
    if name in _DEAD_FIELDS:
        return draft.changed(
            "RPD753", fact.path, "KubeRay does not use it any more.", "Nothing to do."
        )
    if name == "accelerator_type":
        return draft.changed(
            "RPD752",
            fact.path,
            f"The chart pins engines by the role's own resource, not by {shown(fact.value)}.",
            "`prefill.instanceType` and `decode.instanceType` choose the card.",
        )
    return draft.lost(
        "RPD750",
        fact.path,
        f"The chart has no place for this {area}: {_shown(name, fact.value)}.",
        _REMEDIES.get(area, _STAY),
    )


def _otherwise(draft: Draft, key: Key, fact: Fact, value: Any) -> None:
    area, block, name = key[0], key[1], key[-1]
    if name in _RIGHTS:
        return _rights(draft, fact)
    if area in ("model", "engine argument", "KV transfer") and block == "decode":
        return draft.lost(
            "RPD755",
            fact.path,
            f"decode has {_shown(name, fact.value)}, and the chart writes "
            f"{_shown(name, value)} for both roles.",
            "The same on both roles; or `decode.engineArgs` where the chart lets it differ.",
        )
    if area == "mount":
        return draft.changed(
            "RPD757",
            fact.path,
            f"Another volume is mounted at {name}: the chart's is {_short(value)}, "
            f"the manifest's {_short(fact.value)}.",
            "`cache` and `sharedMemory`.",
        )
    return draft.lost(
        "RPD770",
        fact.path,
        f"{_upper(area)} {name} is {_shown(name, fact.value)} here and {_shown(name, value)} "
        "in the render.",
        _REMEDIES.get(area, _STAY),
    )


def _rights(draft: Draft, fact: Fact) -> None:
    draft.changed(
        "RPD771",
        fact.path,
        "The chart gives every pod the least rights that it works with: IPC_LOCK for EFA and no "
        "more, and no access to the API server.",
        "`securityContext`, `transport.efa.privileged` and `serviceAccount` for what must differ.",
    )


def _shown(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(plain(value))
    return "a secret" if is_secret(name, text) else _short(text)


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."


def _books(draft: Draft, original: Original, render: Original) -> None:
    """Placement, groups and pods, which are compared as a whole."""
    for role, engine in original.engines.items():
        path = f"{engine.path}.placement_group_config"
        parts = [bundle.get("GPU", 0) for bundle in engine.bundles]
        if any(part != int(part) for part in parts):
            draft.lost(
                "RPD752",
                path,
                f"An engine takes {sum(parts):g} of a GPU here, so that engines share one; the chart "
                "gives every engine GPUs of its own.",
                "As many GPUs as engines x tensor x pipeline, or fewer `replicas`.",
            )
        elif original.disaggregated and engine.bundles != render.engines[role].bundles:
            draft.changed(
                "RPD752",
                path,
                f"The chart pins the {role} engines to their group by a custom resource, `{role}`, "
                "and asks for one CPU and one GPU in a bundle.",
                "Nothing to do.",
            )
    if original.shared:
        group = original.homes["prefill"]
        draft.changed(
            "RPD751",
            group.path,
            f"Group {group.name} serves both roles; the chart makes a group for each of them, with "
            "the same pods.",
            "Nothing to do; `prefill` and `decode` may now differ.",
        )
    for group in original.idle:
        draft.lost(
            "RPD750",
            group.path,
            f"No engine of the serve config runs on group {group.name}.",
            "Leave it out, or a release of its own.",
        )
    pods = {group.path: group.pods for group in original.homes.values()}
    scaled = original.subject.cluster.get("enableInTreeAutoscaling") is True
    at = 1 if scaled else 0
    theirs = sum(count[at] for count in pods.values())
    ours = sum(group.pods[at] for group in render.homes.values())
    if theirs != ours and original.subject.workers:
        draft.changed(
            "RPD763",
            next(iter(original.homes.values())).path,
            f"{theirs} pod(s) become {ours}: the chart makes one for each engine, as many as the "
            "serve config has replicas.",
            "`replicas` of the roles.",
        )
