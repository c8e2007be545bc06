"""For all tests."""

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that does other things as well.
settings.register_profile("raypd", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=20)
settings.load_profile("raypd")

# Modules with assertions that are not test modules: loaded by the conftests below this one.
pytest.register_assert_rewrite("live.checks", "live.deployed", "cluster.load", "cluster.release")
