"""Whether Ray finds room for everything (RPD370 to RPD379).

What asks for a resource that no node offers waits for ever, and nothing says so. The checks lay the
replicas out over the pods as Ray's placement groups would: a replica's own CPU comes on top of its
first bundle, the ingress needs a CPU somewhere, and pods offer what KubeRay tells `ray start`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from raypd.lint.subject import (
    Check,
    Engine,
    Group,
    Subject,
    error,
    ingress_options,
    mapping,
    number,
    warning,
    whole,
)
from raypd.report import Finding
from raypd.schema import nearest_key

Resources = dict[str, float]
# A layout of this many pods or replicas is laid out; more of the same shows nothing new, and takes long.
_MOST = 1000
_BUILT_IN = ("CPU", "GPU", "memory", "object_store_memory", "TPU")


@dataclass
class _Pod:
    """What one pod still has to offer."""

    group: Group
    free: Resources = field(default_factory=dict)

    def fits(self, demand: Resources) -> bool:
        return all(self.free.get(name, 0) >= amount for name, amount in demand.items())

    def take(self, demand: Resources) -> None:
        for name, amount in demand.items():
            self.free[name] = self.free.get(name, 0) - amount


def role_resource_announced(subject: Subject) -> Iterator[Finding]:
    announced = {name for group in subject.workers for name in group.custom_resources}
    for engine in subject.engines:
        for name in _custom(engine):
            if name not in announced:
                yield error(
                    "RPD370",
                    f"{engine.path}.placement_group_config",
                    f"The replicas ask for `{name}`, which no worker group announces: they wait for "
                    "ever.",
                    nearest_key(name, sorted(announced))
                    if announced
                    else f"""`resources: '"{{\\"{name}\\": 1}}"'` in rayStartParams of the group.""",
                )


def role_resource_of_one_group(subject: Subject) -> Iterator[Finding]:
    for engine in subject.engines:
        for name in _custom(engine):
            groups = [g.name for g in subject.workers if name in g.custom_resources]
            if len(groups) > 1:
                yield error(
                    "RPD371",
                    f"{engine.path}.placement_group_config",
                    f"`{name}` is announced by {len(groups)} groups ({', '.join(groups)}), so that "
                    "it pins the engine to none of them.",
                    "A resource of its own for each group.",
                )


def roles_pinned(subject: Subject) -> Iterator[Finding]:
    one_group = len(subject.workers) == 1
    for engine in subject.pair or ():
        if not _custom(engine):
            yield warning(
                "RPD372",
                f"{engine.path}.placement_group_config",
                f"One worker group serves both roles, so that {engine.role} engines land on any node "
                "of it, beside the other role too."
                if one_group
                else f"Nothing pins the {engine.role} engines to a worker group; where they land is "
                "luck.",
                ("A group for each role, and " if one_group else "")
                + f"`{engine.role}: 1` in the bundle, announced by the {engine.role} group alone.",
            )


def replicas_fit(subject: Subject) -> Iterator[Finding]:
    codes = {"CPU": "RPD374", "GPU": "RPD375"}
    pods = _pods(subject)
    for engine in subject.engines:
        if _homeless(subject, engine):
            continue  # told by RPD370
        at_start, at_most = engine.replicas
        for index in range(min(at_most, _MOST)):
            short = _place(engine, pods)
            if not short:
                continue
            scale_up = index >= at_start
            report = warning if scale_up else error
            yield report(
                "RPD377" if scale_up else codes.get(short[0], "RPD373"),
                f"{engine.path}.deployment_config",
                f"Replica {index + 1} of {at_most} finds no room: "
                f"{_demand(engine)} per replica, and {_offer(engine, subject)}. "
                f"What is short is {' and '.join(short)}.",
                f"More pods in the group, more {short[0]} in its pods, or fewer replicas.",
            )
            return  # what comes after would be told of a layout that cannot be


def ingress_fits(subject: Subject) -> Iterator[Finding]:
    pods = _pods(subject)
    for engine in subject.engines:
        for _ in range(min(engine.replicas[0], _MOST)):
            if _homeless(subject, engine) or _place(engine, pods):
                return  # told by replicas_fit
    for path, application in subject.applications:
        if not subject.engines or subject.direct_streaming:
            continue
        options = ingress_options(application)
        cpus = number(mapping(options.get("ray_actor_options")).get("num_cpus", 1))
        scaling = mapping(options.get("autoscaling_config"))
        count = whole(options.get("num_replicas"), whole(scaling.get("min_replicas"), 1))
        for index in range(min(count, _MOST)):
            room = next((pod for pod in pods if pod.fits({"CPU": cpus})), None)
            if room is None:
                yield error(
                    "RPD376",
                    f"{path}.args.ingress_deployment_config",
                    f"Ingress replica {index + 1} of {count} takes {cpus:g} CPU, and the engines "
                    "leave no pod with as much; the endpoint never comes up.",
                    "A larger CPU request for the engine pods (Ray counts whole CPUs), or "
                    "`ray_actor_options: {num_cpus: 0}`.",
                )
                return
            room.take({"CPU": cpus})


def head_offers_nothing(subject: Subject) -> Iterator[Finding]:
    if not (subject.engines and subject.head.spec):
        return
    if subject.head.cpus:
        yield warning(
            "RPD378",
            f"{subject.head.path}.rayStartParams.num-cpus",
            f"The head offers {subject.head.cpus:g} CPUs, so Ray Serve puts replicas beside the "
            "cluster's control plane.",
            '"0".',
        )
    if subject.head.gpus and subject.workers:
        yield warning(
            "RPD378",
            f"{subject.head.path}.rayStartParams.num-gpus",
            f"The head offers {subject.head.gpus:g} GPU(s), and an engine that nothing pins lands "
            "there too.",
            '"0", and no GPU in the resources of the head\'s container.',
        )


def bundles_match_devices(subject: Subject) -> Iterator[Finding]:
    for engine in subject.engines:
        config = mapping(engine.config.get("placement_group_config"))
        gpus = [bundle.get("GPU", 0) for bundle in engine.bundles]
        if not config or not any(gpus):
            continue
        path = f"{engine.path}.placement_group_config"
        if max(gpus) > 1:
            yield error(
                "RPD379",
                path,
                f"A bundle holds {max(gpus):g} GPUs, and vLLM puts one worker into each bundle.",
                "One GPU to a bundle, a bundle for every device.",
            )
        elif (workers := sum(1 for gpu in gpus if gpu)) != engine.devices:
            yield error(
                "RPD379",
                path,
                f"{workers} bundles hold a GPU, and tensor x pipeline parallel size is "
                f"{engine.devices}.",
                f"{engine.devices} bundles with one GPU each, or `bundle_per_worker`.",
            )


CHECKS: list[Check] = [
    role_resource_announced,
    role_resource_of_one_group,
    roles_pinned,
    replicas_fit,
    ingress_fits,
    head_offers_nothing,
    bundles_match_devices,
]


def _custom(engine: Engine) -> list[str]:
    """Custom resources that a replica asks for. Ray announces accelerator_type:X by itself."""
    names = {
        name: None
        for bundle in engine.bundles
        for name, amount in bundle.items()
        if amount and name not in _BUILT_IN and not name.startswith("accelerator_type:")
    }
    return list(names)


def _homeless(subject: Subject, engine: Engine) -> bool:
    announced = {name for group in subject.workers for name in group.custom_resources}
    return any(name not in announced for name in _custom(engine))


def _pods(subject: Subject) -> list[_Pod]:
    """The pods that can be there at once: all that the autoscaler may add, if it is on."""
    grows = subject.cluster.get("enableInTreeAutoscaling") is True
    return [
        _Pod(group, {"CPU": group.cpus, "GPU": group.gpus, **group.custom_resources})
        for group in [*subject.workers, subject.head]
        for _ in range(1 if group is subject.head else min(group.pods[1 if grows else 0], _MOST))
    ]


def _place(engine: Engine, pods: list[_Pod]) -> list[str]:
    """Puts one replica onto the pods. Empty when it fits, else the resources that are short."""
    demands = _demands(engine)
    if _try(demands, engine.strategy, pods):
        return []
    custom = _custom(engine)
    homes = [pod for pod in pods if all(name in pod.group.custom_resources for name in custom)]
    short = []
    for name in ("GPU", "CPU", *custom):
        alone = [{name: demand[name]} for demand in demands if name in demand]
        if not _try(alone, engine.strategy, [_Pod(pod.group, dict(pod.free)) for pod in homes]):
            short.append(name)
    return short or ["room for all of it in one place"]


def _try(demands: list[Resources], strategy: str, pods: list[_Pod]) -> bool:
    """Takes the demands from the pods if all of them fit, else leaves the pods alone."""
    if strategy == "STRICT_PACK":
        demands = [_sum(demands)]
    taken: list[tuple[_Pod, Resources]] = []
    for demand in demands:
        used = [pod for pod, _ in taken]
        free = [p for p in pods if not (strategy == "STRICT_SPREAD" and p in used)]
        pod = next((p for p in free if p.fits(demand)), None)
        if pod is None:
            for earlier, given in taken:
                earlier.take({name: -amount for name, amount in given.items()})
            return False
        pod.take(demand)
        taken.append((pod, demand))
    return True


def _demands(engine: Engine) -> list[Resources]:
    counted = (*_custom(engine), "CPU", "GPU")
    return [
        {name: amount for name, amount in bundle.items() if amount and name in counted}
        for bundle in engine.bundles
    ]


def _sum(demands: list[Resources]) -> Resources:
    total: Resources = {}
    for demand in demands:
        for name, amount in demand.items():
            total[name] = total.get(name, 0) + amount
    return total


def _demand(engine: Engine) -> str:
    return _written(_sum(_demands(engine)))


def _offer(engine: Engine, subject: Subject) -> str:
    custom = _custom(engine)
    homes = [g for g in subject.workers if all(name in g.custom_resources for name in custom)]
    grows = subject.cluster.get("enableInTreeAutoscaling") is True
    return (
        "; ".join(
            f"group `{group.name}` has {group.pods[1 if grows else 0]} pod(s) with "
            + _written({"CPU": group.cpus, "GPU": group.gpus, **group.custom_resources})
            for group in homes
        )
        or "no group offers it"
    )


def _written(resources: Resources) -> str:
    return (
        ", ".join(f"{amount:g} {name}" for name, amount in resources.items() if amount) or "nothing"
    )
