"""Objects that a user adds to the release."""

from __future__ import annotations


def test_rendered_as_they_are(render):
    mine = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": n}, "data": {"n": "{{ x }}"}}
        for n in ("one", "two")
    ]
    own = render.kind("ConfigMap")
    assert render.kind("ConfigMap", {"extraObjects": mine}) == [*own, *mine]
