"""What an operator may set."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from endpoint_guard.settings import KeyLimits, Settings


def test_nothing_written_is_the_defaults():
    assert Settings.read({}) == Settings()


def test_what_is_written_is_read():
    read = Settings.read(
        {
            "in_flight": 3,
            "limits": {"requests_per_minute": 5},
            "key_limits": {"alice": {"tokens_per_minute": 7}},
            "extra_fields": ["priority"],
        }
    )
    assert read.in_flight == 3
    assert read.limits == KeyLimits(requests_per_minute=5)
    assert read.extra_fields == ("priority",)


def test_a_key_without_limits_of_its_own_has_those_of_all():
    read = Settings.read(
        {
            "limits": {"requests_per_minute": 5},
            "key_limits": {"alice": {"tokens_per_minute": 7}},
        }
    )
    assert read.limits_of("alice") == KeyLimits(tokens_per_minute=7)
    assert read.limits_of("bob") == read.limits_of("") == KeyLimits(requests_per_minute=5)


def test_a_misspelt_setting_is_refused_by_name():
    with pytest.raises(ValueError, match=r"bdy_bytes, querty"):
        Settings.read({"querty": 1, "bdy_bytes": 2, "queue": 3})


@pytest.mark.parametrize(
    "written",
    [
        {"limits": {"request_per_minute": 5}},
        {"key_limits": {"alice": {"tokens": 5}}},
    ],
)
def test_a_misspelt_limit_is_refused_by_name(written):
    with pytest.raises(ValueError, match=r"request_per_minute|tokens"):
        Settings.read(written)


def test_settings_are_replaced_and_not_changed():
    with pytest.raises(FrozenInstanceError):
        Settings().queue = 3  # type: ignore[misc]
