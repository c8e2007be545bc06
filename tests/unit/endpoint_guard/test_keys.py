"""API keys out of a folder."""

from __future__ import annotations

import hmac
import os
import time

import pytest

from endpoint_guard import keys as module
from endpoint_guard.errors import Refusal
from endpoint_guard.keys import Keys

ALICE, BOB = "sk-alice-0123456789", "sk-bob-0123456789abc"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "alice").write_text(ALICE + "\n")
    (tmp_path / "bob").write_text(BOB)
    return tmp_path


@pytest.fixture
def at_once(monkeypatch):
    """The folder is looked at for every request."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", -1)


def refused(keys: Keys, authorization: str | None) -> Refusal:
    with pytest.raises(Refusal) as caught:
        keys.name(authorization)
    assert caught.value.status == 401
    assert caught.value.type == "authentication_error"
    assert caught.value.code == "invalid_api_key"
    assert ("www-authenticate", "Bearer") in caught.value.headers
    return caught.value


def test_a_key_has_the_name_of_its_file(folder):
    keys = Keys(folder)
    assert keys.name(f"Bearer {ALICE}") == "alice"
    assert keys.name(f"bearer  {BOB} ") == "bob"


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer  ", ALICE, f"Basic {ALICE}"])
def test_no_key_is_told_how_to_send_one(folder, given):
    assert "Bearer KEY" in refused(Keys(folder), given).message


@pytest.mark.parametrize(
    "given", ["Bearer wrong", f"Bearer {ALICE[:-1]}", f"Bearer {ALICE}x", f"Bearer {ALICE} {BOB}"]
)
def test_a_wrong_key_is_refused_and_not_repeated(folder, given):
    message = refused(Keys(folder), given).message
    assert given.split()[1] not in message and "alice" not in message


def test_without_a_folder_no_key_is_right():
    refused(Keys(None), f"Bearer {ALICE}")


def test_a_folder_that_is_not_there_yet_is_read_once_it_is(tmp_path, at_once):
    keys = Keys(tmp_path / "later")
    refused(keys, f"Bearer {ALICE}")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "alice").write_text(ALICE)
    assert keys.name(f"Bearer {ALICE}") == "alice"


def test_a_short_key_is_ignored_and_named(folder):
    (folder / "carol").write_text("0123456789abcde")
    keys = Keys(folder)
    assert keys.too_short == ["carol"]
    refused(keys, "Bearer 0123456789abcde")
    (folder / "dave").write_text("0123456789abcdef")
    assert Keys(folder).name("Bearer 0123456789abcdef") == "dave"


def test_an_empty_file_lets_nobody_in(folder):
    (folder / "empty").write_text("")
    refused(Keys(folder), "Bearer ")


def test_keys_come_go_and_change_without_a_restart(folder, at_once):
    keys = Keys(folder)
    (folder / "carol").write_text("sk-carol-0123456789")
    assert keys.name("Bearer sk-carol-0123456789") == "carol"
    (folder / "alice").unlink()
    refused(keys, f"Bearer {ALICE}")
    (folder / "bob").write_text("sk-bob-another-one-1")
    os.utime(folder / "bob", ns=(1, 1))
    refused(keys, f"Bearer {BOB}")
    assert keys.name("Bearer sk-bob-another-one-1") == "bob"


def test_a_secret_is_swapped_as_kubelet_does_it(tmp_path, at_once):
    for number, key in enumerate((ALICE, BOB)):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "alice").write_text(key)
        os.utime(tmp_path / f"..{number}" / "alice", ns=(number, number))
    (tmp_path / "..data").symlink_to("..0")
    (tmp_path / "alice").symlink_to("..data/alice")
    keys = Keys(tmp_path)
    assert keys.name(f"Bearer {ALICE}") == "alice"
    (tmp_path / "..new").symlink_to("..1")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert keys.name(f"Bearer {BOB}") == "alice"
    refused(keys, f"Bearer {ALICE}")


def test_while_the_folder_cannot_be_read_the_keys_that_were_there_hold(folder, at_once):
    keys = Keys(folder)
    (folder / "broken").symlink_to("nowhere")
    (folder / "alice").unlink()
    assert keys.name(f"Bearer {ALICE}") == "alice"
    (folder / "broken").unlink()
    refused(keys, f"Bearer {ALICE}")


def test_the_folder_is_not_read_for_every_request(folder, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    keys = Keys(folder)
    (folder / "alice").unlink()
    assert keys.name(f"Bearer {ALICE}") == "alice"
    now += module._LOOK_SECONDS + 1
    refused(keys, f"Bearer {ALICE}")


def test_every_key_is_compared_in_constant_time(folder, monkeypatch):
    compared = []
    true = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or true(a, b))
    keys = Keys(folder)
    for given in (ALICE, BOB, "wrong"):
        compared.clear()
        try:
            keys.name(f"Bearer {given}")
        except Refusal:
            assert given == "wrong"
        assert len(compared) == 2
        assert all(len(a) == len(b) == 32 for a, b in compared)


def test_a_key_may_have_letters_that_are_not_ascii(folder):
    (folder / "zoe").write_text("schlüssel-für-zoë-à", encoding="utf-8")
    sent = "schlüssel-für-zoë-à".encode().decode("latin-1")  # as a header's bytes are read
    assert Keys(folder).name(f"Bearer {sent}") == "zoe"


def test_keys_are_not_kept_as_they_are(folder):
    assert ALICE not in repr(vars(Keys(folder)))
