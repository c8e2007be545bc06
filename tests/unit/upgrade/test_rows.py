"""The table of a plan: what shares a row, and what is not shown."""

from __future__ import annotations

from raypd.upgrade.change import change
from raypd.upgrade.objects import compare
from raypd.upgrade.rows import Row, of_change, of_objects, shown
from unit.live import paper


def rows(*after: str, before: tuple[str, ...] = ()) -> list[Row]:
    old, new = paper.rendered(*before), paper.rendered(*before, *after)
    found = change(None, new.rayservice, old.rayservice)
    return of_change(found, new.rayservice, old.rayservice, {"llm": []})


def test_a_change_of_all_groups_is_one_row() -> None:
    (row,) = rows("image.tag=other")
    assert row.where == "head, prefill, decode: template.spec.containers[ray].image"
    assert row.after == "public.ecr.aws/deep-learning-containers/ray:other"
    assert "ray:serve-llm-cuda -> public" in row.text


def test_a_change_of_one_group_names_it() -> None:
    (row,) = rows("decode.env.A=1")
    assert row.where == "decode: template.spec.containers[ray].env[A]"
    assert row.before is None


def test_a_variable_goes_by_its_name_when_it_changes() -> None:
    old, new = ("head.env.MY_PASSWORD=hunter2",), "head.env.MY_PASSWORD=hunter3"
    (row,) = rows(new, before=old)
    assert row.where.endswith("env[MY_PASSWORD].value")
    assert (row.before, row.after) == ("(hidden)", "(hidden)")


def test_three_numbers_that_change_alike_are_one_row() -> None:
    (row,) = [row for row in rows("prefill.replicas=3") if row.where.startswith("group")]
    assert row.where == "group prefill: replicas, minReplicas, maxReplicas"
    assert (row.before, row.after) == (1, 3)
    scaled = ("decode.autoscaling.enabled=true", "decode.autoscaling.maxReplicas=4")
    more = rows("decode.autoscaling.maxReplicas=6", before=scaled)
    assert [row.where for row in more if row.where.startswith("group")] == [
        "group decode: maxReplicas"
    ]


def test_of_a_secret_no_content_is_shown() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    before, after = (
        [{**secret, "data": {"a": "b2xk"}}],
        [{**secret, "data": {"a": "bmV3", "b": "eA=="}}],
    )
    assert [(row.where, row.before, row.after) for row in of_objects(compare(before, after))] == [
        ("Secret/s: data.a", "(hidden)", "(hidden)"),
        ("Secret/s: data.b", None, "(hidden)"),
    ]


def test_objects_that_come_and_go() -> None:
    before, after = (
        paper.rendered("ingress.enabled=true"),
        paper.rendered("httpRoute.enabled=true", "httpRoute.parentRefs[0].name=g"),
    )
    assert {
        (row.where, row.effect) for row in of_objects(compare(before.manifests, after.manifests))
    } == {
        ("HTTPRoute/llm-ray-pd-llm", "made"),
        ("Ingress/llm-ray-pd-llm", "deleted"),
    }


def test_values_are_shown_on_one_short_line() -> None:
    assert shown(None) == "none"
    assert shown({"a": [1, True, None]}) == "{a: [1, true, null]}"
    assert shown("a\nb\n") == "(2 lines)"
    assert shown("x" * 100) == "x" * 57 + "..."


def test_what_comes_along_with_other_arguments_is_taken_over() -> None:
    found = {row.where: row.effect for row in rows("decode.maxNumSeqs=8", "endpoint.replicas=2")}
    assert found == {
        "spec.serveConfigV2 llm: args.decode_config.engine_kwargs.max_num_seqs": (
            "all engines are replaced in place"
        ),
        "spec.serveConfigV2 llm: deployments.OpenAiIngress.num_replicas": "taken over in place",
        "spec.serveConfigV2 llm: deployments.OpenAiIngress.user_config.replicas": (
            "taken over in place"
        ),
    }
