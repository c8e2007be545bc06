"""Who asks, so that nobody takes one account for another."""

from __future__ import annotations

from collections.abc import Iterator

from raypd.preflight.outcome import Outcome, Seen
from raypd.preflight.site import Site


def signed_in(site: Site) -> Iterator[Outcome]:
    """AWS knows the credentials. To ask that takes no permission."""
    caller = site.account.ask("sts", "get_caller_identity")
    who = caller["Arn"].rpartition(":")[2]
    yield Seen(f"account {caller['Account']} as {who}, in {site.account.region}")


CHECKS = [("account and caller", signed_in)]
