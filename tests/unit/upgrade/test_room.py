"""The room that an upgrade takes, and the room that there is."""

from __future__ import annotations

from raypd.lint.subject import Subject
from raypd.upgrade.change import change
from raypd.upgrade.room import Room, room
from unit.live import paper

SPARE = ("upgrade.strategy=NewCluster", "upgrade.spareCapacity=true")


def of(after: tuple[str, ...], before: tuple[str, ...] = (), facts: bool = False) -> Room:
    old, new = paper.rendered(*before), paper.rendered(*after)
    found = change(None, new.rayservice, old.rayservice)
    return room(found, Subject.of(new), paper.facts() if facts else None)


def test_a_second_cluster_takes_all_of_it_again() -> None:
    found = of((*SPARE, "image.tag=x"), SPARE, facts=True)
    assert (found.pods, found.needed["nvidia.com/gpu"], found.needed["cpu"]) == (3, 2, 34)
    assert found.as_json()["free"]["nvidia.com/gpu"] == 2.0
    assert "such nodes have 2 GPUs, 2 EFA interfaces, 67.62 CPUs" in found.sentence()


def test_more_replicas_take_room_for_themselves() -> None:
    found = of(("decode.replicas=3",))
    assert (found.pods, found.needed["vpc.amazonaws.com/efa"]) == (2, 2)
    assert found.nodes == ["node.kubernetes.io/instance-type=g6.8xlarge, role=gpu-worker"]


def test_an_engine_over_several_pods_takes_all_of_them() -> None:
    multi = (
        "topology.mode=multinode",
        "engine.parallelism.nodes=2",
        "engine.parallelism.pipeline=2",
    )
    assert of((*multi, "engine.replicas=2"), multi).pods == 2


def test_fewer_replicas_and_other_pods_in_place_take_none() -> None:
    assert of((), ("decode.replicas=3",)).pods == 0
    assert of(("image.tag=x",)).pods == 0
    assert of((), ()).sentence() == "Room: no pod more than there is."


def test_without_a_cluster_nothing_is_said_of_what_is_free() -> None:
    found = of(("decode.replicas=2",))
    assert found.as_json()["free"] is None
    assert "not checked without a cluster" in found.sentence()


def test_the_bounds_of_an_autoscaler_count() -> None:
    scaled = ("decode.autoscaling.enabled=true", "decode.autoscaling.maxReplicas=2")
    assert of((*scaled[:1], "decode.autoscaling.maxReplicas=5"), scaled).pods == 3
