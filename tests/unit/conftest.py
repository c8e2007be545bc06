"""For the tests of raypd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unit.kept_renders import KeptRenders

KEPT: list[KeptRenders] = []


@pytest.fixture(scope="module", autouse=True)
def same_inputs_are_rendered_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """But not in render/, where the tests are about how Helm is run."""
    if request.path.parent.name == "render":
        yield
        return
    from raypd.render import helm

    if not KEPT:
        KEPT.append(KeptRenders(helm._run))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(helm, "_run", KEPT[0])
        yield
