"""KV transfers that fail while the release serves."""

from __future__ import annotations

import pytest

from raypd.live.diagnosis import diagnose
from unit.live.sample import NAMES, log, snapshot


def failure(kind, time="03-01 11:58:00", host="10.0.2.20"):
    return (
        f"(Worker pid=9) ERROR {time} [base_worker.py:832] NIXL transfer failure: {kind} | Context: "
        f"{{'failure_type': '{kind}', 'request_id': 'r-1', 'engine_id': 'e', 'remote_engine_id': 'p', "
        f"'remote_request_id': 'r', 'remote_host': '{host}', 'remote_port': 20000, "
        "'num_local_blocks': 8}\n"
    )


def of(text):
    return diagnose(snapshot(engine_logs={NAMES["decode"]: log("decode", text)}))


def test_a_handshake_that_fails():
    (finding,) = of(failure("handshake_failed") * 3)
    assert finding.code == "RPD662"
    assert f"pod {NAMES['prefill']} (10.0.2.20:20000)" in finding.message
    assert "3 in the last half hour" in finding.message
    assert "transport.ports" in finding.remedy


def test_a_peer_that_is_gone():
    (finding,) = of(failure("handshake_setup_failed", host="10.0.9.9"))
    assert finding.code == "RPD662"
    assert "an address that no pod has any more (10.0.9.9:20000)" in finding.message


def test_a_read_that_fails():
    (finding,) = of(failure("transfer_failed"))
    assert finding.code == "RPD663"
    assert "transfer_failed" in finding.message


def test_roles_that_do_not_agree():
    text = failure("handshake_failed") + (
        "(Worker pid=9) ERROR 03-01 11:58:00 [base_worker.py:832] RuntimeError: NIXL compatibility "
        "hash mismatch. Local: 1, Remote: 2."
    )
    (finding,) = of(text)
    assert finding.code == "RPD664"


@pytest.mark.parametrize("time", ["03-01 09:00:00", "02-27 11:58:00", "12-31 23:00:00"])
def test_failures_of_long_ago_are_history(time):
    assert of(failure("handshake_failed", time)) == []
