"""For all tests."""

import gc

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that does other things as well.
settings.register_profile("raypd", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=10)
settings.load_profile("raypd")

# Garbage is looked for among millions of objects that stay: a tenth of the time of all tests.
gc.set_threshold(100_000, 20, 100)

# Modules with assertions that are not test modules: loaded by the conftests below this one.
pytest.register_assert_rewrite("live.checks", "live.deployed", "cluster.load", "cluster.release")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run what takes minutes each, too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: minutes, for what seldom changes; runs with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if item not in slow]
        config.hook.pytest_deselected(items=slow)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
