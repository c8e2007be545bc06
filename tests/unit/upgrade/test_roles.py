"""Who answers, and what clients ask for."""

from __future__ import annotations

import pytest

from raypd.lint.subject import Subject
from raypd.upgrade.roles import alone, models, routes
from unit.live import paper

ALL = ["Prefill:qwen3_5-9b", "Decode:qwen3_5-9b", "OpenAiIngress"]
TWO = ("prefill.replicas=2", "decode.replicas=2", "endpoint.replicas=2")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((), (), ALL),
        (TWO, TWO, []),
        # The one that runs has no stand-in, whatever comes.
        ((), TWO, ALL),
        (TWO, (), ALL),
        (("decode.replicas=3",), ("decode.replicas=2",), [ALL[0], ALL[2]]),
        (
            ("decode.autoscaling.enabled=true", "decode.autoscaling.minReplicas=1", *TWO[::2]),
            ("decode.autoscaling.enabled=true", "decode.autoscaling.minReplicas=2", *TWO[::2]),
            [ALL[1]],
        ),
    ],
)
def test_what_nobody_stands_in_for(
    before: tuple[str, ...], after: tuple[str, ...], expected: list[str]
) -> None:
    old, new = Subject.of(paper.rendered(*before)), Subject.of(paper.rendered(*after))
    assert alone(old, new, "llm") == expected
    assert alone(old, new, "other") == []


def test_what_clients_ask_for() -> None:
    subject = Subject.of(paper.rendered("model.id=m", "endpoint.routePrefix=/v2"))
    assert (models(subject), routes(subject)) == ({"m"}, {"llm": "/v2"})
