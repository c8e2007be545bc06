"""For all tests."""

import pytest

# Modules with assertions that are not test modules: loaded by the conftests below this one.
pytest.register_assert_rewrite("live.checks", "live.deployed", "cluster.load", "cluster.release")
