"""What the pods say: image, resources, nodes, volumes, the cache among them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from raypd.importer.draft import Draft, merged, plain
from raypd.importer.quantity import amount, as_bytes, as_cpu
from raypd.importer.read import Original
from raypd.importer.serve import asks_for
from raypd.lint.eksctl.placement import TYPE_LABEL, ZONE_LABEL
from raypd.lint.subject import EFA, Group, mapping, sequence

ZONE_ID_LABEL = "topology.k8s.aws/zone-id"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OWN_VOLUMES = ("tmp", "shm", "cache", "guard", "api-keys")  # names that the chart takes
GUARD_FOLDER = "/opt/ray-pd-llm"  # where the chart mounts its guard, and the guard's keys
OWN_LABELS = tuple(f"app.kubernetes.io/{key}" for key in ("name", "instance", "component"))
# Where caches are said to be; the first one that lies under a mount decides.
_CACHE_VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "TRANSFORMERS_CACHE", "VLLM_CACHE_ROOT")
_CACHE_WORDS = ("cache", "hf", "hugging", "model", "weight")


@dataclass
class Mounts:
    """A group's mounts: the one that the chart's cache becomes, and those that stay the user's."""

    cache: dict[str, Any] | None = None
    cache_path: str = ""
    cache_volume: dict[str, Any] = field(default_factory=dict)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)


def pods(
    draft: Draft, original: Original, defaults: dict[str, Any], shapes: dict[str, Any]
) -> None:
    """Fills image, head, roles, placement and cache."""
    _image(draft, original)
    settings = {"head": original.subject.head, **original.homes}
    for block, group in settings.items():
        _sizes(draft, block, group, defaults[block])
        _nodes(draft, block, group, defaults[block], shapes)
    _zone(draft, original)
    _efa(draft, original)
    _placement(draft, original)
    found = {role: _mounts(group, original, role) for role, group in original.homes.items()}
    _cache(draft, original, found, defaults["cache"])
    found["head"] = _mounts(original.subject.head, original, "head")
    for block, mounts in found.items():
        _volumes(draft, block, settings[block], mounts)


def _image(draft: Draft, original: Original) -> None:
    group = next(iter(original.homes.values()))
    written = group.ray_container.get("image")
    if isinstance(written, str) and written:
        name, _, digest = written.partition("@")
        folder, _, last = name.rpartition("/")
        last, _, tag = last.partition(":")
        draft.put("image.repository", f"{folder}/{last}" if folder else last)
        draft.put("image.tag", tag or ("" if digest else "latest"))
        if digest:
            draft.put("image.digest", digest)
    if policy := group.ray_container.get("imagePullPolicy"):
        draft.put("image.pullPolicy", policy)
    secrets = [mapping(entry).get("name") for entry in sequence(group.pod.get("imagePullSecrets"))]
    if secrets:
        draft.put("image.pullSecrets", secrets)
    version = original.subject.cluster.get("rayVersion")
    if version:
        draft.put("image.rayVersion", str(version))


def _sizes(draft: Draft, block: str, group: Group, defaults: dict[str, Any]) -> None:
    resources = mapping(group.ray_container.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    path = f"{group.pod_path}.containers[0].resources"
    for resource, key, convert in (("cpu", "cpu", as_cpu), ("memory", "memory", as_bytes)):
        asked, limit = requests.get(resource), limits.get(resource)
        chosen = (limit or asked) if resource == "memory" else (asked or limit)
        if value := convert(chosen):
            draft.put(f"{block}.resources.{key}", value)
        elif group.ray_container:
            draft.changed(
                "RPD761",
                f"{path}.requests.{resource}",
                f"The {block} pod asks for no {resource}, so that its node may be overcommitted; the "
                f"chart asks for {defaults['resources'][key]}.",
                f"`{block}.resources.{key}`: what it needs.",
            )
        given = {"limits": limit, "requests": asked}
        if resource == "cpu" and limit is not None:
            message = (
                "CPU is requested without a limit by the chart: a limit throttles host threads."
            )
        elif resource == "memory" and asked is not None and amount(asked) != amount(limit or asked):
            message = "Request and limit are the same in the chart; the limit is taken."
        elif given["limits"] is None and asked is not None and resource == "memory":
            message = "Memory is a limit as well in the chart."
        else:
            continue
        draft.changed("RPD764", f"{path}.limits.{resource}", message, f"`{block}.resources.{key}`.")
        draft.told.add(f"{path}.requests.{resource}")
    storage = as_bytes(limits.get("ephemeral-storage") or requests.get("ephemeral-storage"))
    if storage:
        draft.put(f"{block}.resources.ephemeralStorage", storage)
    _memory_of_ray(draft, block, group, defaults)
    for key in ("priorityClassName", "terminationGracePeriodSeconds"):
        if group.pod.get(key) is not None and not (block == "head" and key[0] == "t"):
            draft.put(f"{block}.{key}", group.pod[key])
    metadata = mapping(mapping(group.spec.get("template")).get("metadata"))
    labels = {k: v for k, v in mapping(metadata.get("labels")).items() if k not in OWN_LABELS}
    if labels:
        draft.put(f"{block}.podLabels", labels)
    if mapping(metadata.get("annotations")):
        draft.put(f"{block}.podAnnotations", metadata["annotations"])


def _memory_of_ray(draft: Draft, block: str, group: Group, defaults: dict[str, Any]) -> None:
    """/dev/shm and the object store; where the manifest has none, sizes that go with the memory."""
    memory = amount(draft.get(f"{block}.resources.memory", defaults["resources"]["memory"])) or 0
    shared = None
    for mount in map(mapping, sequence(group.ray_container.get("volumeMounts"))):
        if mount.get("mountPath") == "/dev/shm":
            volume = _volume(group, mount.get("name"))
            shared = as_bytes(mapping(volume.get("emptyDir")).get("sizeLimit"))
    if shared is None:
        half = min(amount(defaults["sharedMemory"]) or 0, memory // 2)
        shared = as_bytes(int(half) // 2**20 * 2**20)
    if shared:
        draft.put(f"{block}.sharedMemory", shared)
    store = as_bytes(group.start_params.get("object-store-memory"))
    if store is None:
        half = min(amount(defaults["objectStoreMemory"]) or 0, (amount(shared) or 0) // 2)
        store = as_bytes(int(half) // 2**20 * 2**20)
    if store:
        draft.put(f"{block}.objectStoreMemory", store)


def _nodes(
    draft: Draft, block: str, group: Group, defaults: dict[str, Any], shapes: dict[str, Any]
) -> None:
    selector = dict(mapping(group.pod.get("nodeSelector")))
    kind = selector.get(TYPE_LABEL)
    if block != "head":
        if isinstance(kind, str) and kind in shapes:
            del selector[TYPE_LABEL]
            draft.put(f"{block}.instanceType", kind)
        else:
            draft.put(f"{block}.instanceType", "", "the nodes' type, for the chart to check them")
    elif (
        kind
        or merged(defaults["resources"], draft.get("head.resources", {})) != defaults["resources"]
    ):
        draft.put("head.instanceType", kind if isinstance(kind, str) else "")
    draft.put(f"{block}.nodeSelector", _with_nulls(selector, defaults["nodeSelector"]))
    draft.put(f"{block}.tolerations", sequence(group.pod.get("tolerations")))


def _with_nulls(own: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """A map that takes the default's keys away where it does not have them."""
    return {**{key: None for key in defaults if key not in own}, **own}


def _zone(draft: Draft, original: Original) -> None:
    for label in (ZONE_LABEL, ZONE_ID_LABEL):
        zones = {draft.get(f"{role}.nodeSelector").get(label) for role in original.homes}
        zone = zones.pop() if len(zones) == 1 else None
        if isinstance(zone, str) and ("-az" in zone) == (label == ZONE_ID_LABEL):
            draft.put("placement.zone", zone)
            for role in original.homes:
                del draft.get(f"{role}.nodeSelector")[label]


def _efa(draft: Draft, original: Original) -> None:
    asked = asks_for(original, EFA)
    most = max(asked.values())
    if not most:
        return
    draft.put("transport.efa.interfacesPerPod", most)
    for role, count in asked.items():
        if count and count != most:
            draft.put(f"{role}.efaInterfaces", count)
    group = next(iter(original.homes.values()))
    limits = mapping(mapping(group.ray_container.get("resources")).get("limits"))
    if pages := as_bytes(limits.get("hugepages-2Mi")):
        draft.put("transport.efa.hugepages2Mi", pages)
    for name, value in mapping(group.ray_container.get("securityContext")).items():
        if name == "privileged" and value is True:
            draft.put("transport.efa.privileged", True)


def _placement(draft: Draft, original: Original) -> None:
    seen: set[str] = set()
    for block, group in {"head": original.subject.head, **original.homes}.items():
        affinity = plain(mapping(group.pod.get("affinity")))
        for kind in ("podAffinity", "podAntiAffinity"):
            rules = mapping(affinity.get(kind))
            kept = []
            for i, term in enumerate(sequence(rules.get(REQUIRED))):
                text = json.dumps(term)
                if "ray.io/" not in text and not all(label in text for label in OWN_LABELS):
                    kept.append(term)
                    continue
                seen.add(f"{kind} {mapping(term).get('topologyKey')}")
                if "ray.io/" in text:
                    draft.changed(
                        "RPD773",
                        f"{group.pod_path}.affinity.{kind}.{REQUIRED}[{i}]",
                        "The rule names KubeRay's labels, and groups are called otherwise in the "
                        "chart; `placement` keeps roles in one zone and off each other's nodes.",
                        "`placement.sameZone` and `placement.rolesApart`, or an affinity by labels "
                        "of your own.",
                    )
            if kept:
                rules[REQUIRED] = kept
            elif rules.pop(REQUIRED, None) and not rules:
                affinity.pop(kind)
        if affinity:
            draft.put(f"{block}.affinity", affinity)
    efa = draft.get("transport.fabric") != "tcp"
    if draft.get("topology.mode") != "aggregated":
        draft.put("placement.sameZone", efa or f"podAffinity {ZONE_LABEL}" in seen)
    if original.disaggregated:
        env = {name: e.get("value") for g in original.homes.values() for name, e in g.env.items()}
        apart = "podAntiAffinity kubernetes.io/hostname" in seen
        safe = env.get("FI_EFA_ENABLE_SHM_TRANSFER") == "0"
        draft.put("placement.rolesApart", apart or (efa and not safe))


def _volume(group: Group, name: Any) -> dict[str, Any]:
    volumes = map(mapping, sequence(group.pod.get("volumes")))
    return next((volume for volume in volumes if volume.get("name") == name), {})


def _mounts(group: Group, original: Original, block: str) -> Mounts:
    found = Mounts()
    written = [mapping(mount) for mount in sequence(group.ray_container.get("volumeMounts"))]
    if block != "head":
        found.cache = _cache_mount(group, original, block, written)
    for i, mount in enumerate(written):
        name, volume = mount.get("name"), _volume(group, mount.get("name"))
        if mount is found.cache:
            found.cache_path = f"{group.pod_path}.containers[0].volumeMounts[{i}]"
            found.cache_volume = volume
            found.renamed[str(name)] = "cache"
        elif mount.get("mountPath") == "/dev/shm":
            found.renamed[str(name)] = "shm"
        elif mount.get("mountPath") == "/tmp" and "emptyDir" in volume:
            found.renamed[str(name)] = "tmp"
        elif mount.get("mountPath") == f"{GUARD_FOLDER}/endpoint_guard":
            found.renamed[str(name)] = "guard"
        elif mount.get("mountPath") == f"{GUARD_FOLDER}/api-keys" and "secret" in volume:
            found.renamed[str(name)] = "api-keys"
        else:
            found.mounts.append(dict(mount))
    for volume in map(mapping, sequence(group.pod.get("volumes"))):
        name = str(volume.get("name"))
        if name in found.renamed:
            continue
        if name in OWN_VOLUMES:
            found.renamed[name] = f"own-{name}"
        found.volumes.append({**volume, "name": found.renamed.get(name, name)})
    for mount in found.mounts:
        mount["name"] = found.renamed.get(str(mount.get("name")), mount.get("name"))
    return found


def _cache_mount(
    group: Group, original: Original, role: str, mounts: list[dict[str, Any]]
) -> dict[str, Any] | None:
    free = [m for m in mounts if str(m.get("mountPath")) not in ("/tmp", "/dev/shm")]
    env = {name: entry.get("value") for name, entry in group.env.items()}
    env |= {name: value for name, (_, value) in original.runtime_variables(role).items()}
    kwargs = original.engines[role].kwargs
    wanted = [*(env.get(name) for name in _CACHE_VARIABLES), kwargs.get("download_dir")]
    for path in (str(path) for path in wanted if path):
        over = [m for m in free if f"{path}/".startswith(f"{str(m.get('mountPath')).rstrip('/')}/")]
        if over:
            return max(over, key=lambda mount: len(str(mount["mountPath"])))
    for mount in free:
        if any(
            word in f"{mount.get('name')} {mount.get('mountPath')}".lower() for word in _CACHE_WORDS
        ):
            return mount
    return None


def _cache(
    draft: Draft, original: Original, found: dict[str, Mounts], defaults: dict[str, Any]
) -> None:
    role, mounts = next(iter(found.items()))
    group = original.homes[role]
    volume, mount = mounts.cache_volume, mounts.cache
    place = f"{group.pod_path}.volumes"
    if mount is None:
        draft.put("cache.type", "emptyDir", "the manifest mounts no cache: weights go with the pod")
        draft.changed(
            "RPD757",
            place,
            "No volume of the engine pods is meant for weights and compile caches, so each start "
            "loads and compiles everything again.",
            "`cache.type`: hostPath on the nodes' NVMe, or persistentVolumeClaim.",
        )
        return
    draft.put("cache.mountPath", str(mount["mountPath"]).rstrip("/"))
    if "hostPath" in volume:
        host = mapping(volume["hostPath"])
        path, below = str(host.get("path")).rstrip("/"), mount.get("subPath", "")
        array = f"{defaults['hostPath']['path']}/"
        if str(host.get("type") or "") != "Directory":
            draft.told |= {each.cache_path for each in found.values()}
            if path.startswith(array) and not below:  # the kubelet makes what is below a mount
                path, below = array.rstrip("/"), path.removeprefix(array)
            draft.changed(
                "RPD757",
                f"{place}[{volume.get('name')}].hostPath.type",
                f"The chart mounts {path} only where it is there, and makes no more than the folder "
                "below it (`cache.hostPath.subPath`): where the NVMe is not mounted the pod waits, "
                "instead of filling the root disk.",
                f"Nothing to do where the nodes have {path}.",
            )
        draft.put("cache.hostPath.path", path)
        draft.put("cache.hostPath.subPath", below)
        inits = [mapping(c).get("name") for c in sequence(group.pod.get("initContainers"))]
        if "cache-owner" in inits:
            draft.put("cache.hostPath.setOwner", True)
        elif draft.get("transport.fabric") == "tcp" or draft.get("topology.mode") == "aggregated":
            comment = "without EFA engines do not run as root"
            draft.put("cache.hostPath.setOwner", True, comment)
    elif "persistentVolumeClaim" in volume:
        draft.put("cache.type", "persistentVolumeClaim")
        claim = mapping(volume["persistentVolumeClaim"]).get("claimName")
        draft.put("cache.persistentVolumeClaim.existingClaim", claim)
    else:
        draft.put("cache.type", "emptyDir")
        draft.put(
            "cache.emptyDir.sizeLimit",
            as_bytes(mapping(volume.get("emptyDir")).get("sizeLimit")) or "",
        )
        if "emptyDir" not in volume:
            draft.lost(
                "RPD757",
                f"{place}[{volume.get('name')}]",
                "The chart's cache is a hostPath, a claim or an emptyDir, and this is none of them.",
                "A PersistentVolumeClaim for it, and `cache.persistentVolumeClaim.existingClaim`.",
            )


def _volumes(draft: Draft, block: str, group: Group, mounts: Mounts) -> None:
    if mounts.volumes:
        draft.put(f"{block}.volumes", mounts.volumes)
    if mounts.mounts:
        draft.put(f"{block}.volumeMounts", mounts.mounts)
    inits = [c for c in sequence(group.pod.get("initContainers")) if isinstance(c, dict)]
    inits = [c for c in inits if c.get("name") != "cache-owner"]
    for key, containers in (("initContainers", inits), ("sidecars", group.containers[1:])):
        if containers:
            draft.put(f"{block}.{key}", [_remounted(c, mounts.renamed) for c in containers])


def _remounted(container: dict[str, Any], renamed: dict[str, str]) -> dict[str, Any]:
    mounts = [
        {
            **mapping(mount),
            "name": renamed.get(str(mapping(mount).get("name")), mapping(mount).get("name")),
        }
        for mount in sequence(container.get("volumeMounts"))
    ]
    return {**container, "volumeMounts": mounts} if mounts else container
