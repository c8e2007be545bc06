"""For the tests of the guard."""

from __future__ import annotations

import pytest

# Helpers with assertions, which are not test modules.
pytest.register_assert_rewrite("unit.endpoint_guard.calls")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
