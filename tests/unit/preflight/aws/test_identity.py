"""Who asks AWS."""

from __future__ import annotations

from raypd.preflight.aws.identity import signed_in
from unit.preflight.simulated import Fails, Simulated, outcomes, seen, site, unseen


def test_the_account_and_the_region_are_told(aws: Simulated) -> None:
    said = seen(outcomes(signed_in, site(aws)))
    assert said.startswith("account 123456789012 as ")
    assert said.endswith("in us-west-2")


def test_a_token_that_has_run_out(aws: Simulated) -> None:
    def expired(_: object) -> dict[str, object]:
        raise Fails("ExpiredToken", "The security token included in the request is expired")

    aws.answers["sts.GetCallerIdentity"] = expired
    assert "ExpiredToken" in unseen(outcomes(signed_in, site(aws)))
