"""What the numbers prove. The property tests invent requests whose way is known, count them as vLLM
does, and hold the verdict against the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypd.evidence import CACHED, COMPUTED, RECEIVED, Counters
from raypd.live.proof import verdicts
from raypd.live.proof.fabric import Traffic
from raypd.live.proof.nixl_log import Failure, NixlLog
from raypd.live.proof.verdicts import Verdict, Window

P, D = ["prefill-0", "prefill-1"], ["decode-0", "decode-1"]
WAYS = ("received", "computed", "computed after a failed load")


@dataclass(frozen=True)
class Request:
    """A request's true way: `prompt` tokens, of which prefill and decode had some in their caches."""

    prompt: int
    way: str = "received"
    hybrid: bool = False
    prefill_hits: int = 0
    decode_hits: int = 0
    prefill: str = P[0]
    decode: str = D[0]


def count(requests: list[Request]) -> Counters:
    """What the engines' counters gain by these requests."""
    found = Counters()

    def add(counters: dict, key: object, value: float) -> None:
        counters[key] = counters.get(key, 0) + value

    for r in requests:
        last = int(r.hybrid)  # its token is left to decode
        rest = r.prompt - r.decode_hits
        if r.way != "computed":
            add(found.tokens, (r.prefill, COMPUTED), r.prompt - r.prefill_hits - last)
            add(found.tokens, (r.prefill, CACHED), r.prefill_hits)
            add(found.tokens, (r.decode, RECEIVED), rest - last)
            add(found.tokens, (r.decode, COMPUTED), last)
        else:
            add(found.tokens, (r.decode, COMPUTED), rest)
        add(found.tokens, (r.decode, CACHED), r.decode_hits)
        if r.way == "received":
            add(found.transfers, r.decode, 1)
        elif r.way == "computed after a failed load":
            add(found.failed, r.decode, 1)
    return found


def window(ours: list[Request], others: list[Request] = [], **changes) -> Window:  # noqa: B006
    made = Window(tuple(r.prompt for r in ours), 0.5, count([*ours, *others]))
    return replace(made, **changes)


@st.composite
def requests(draw, most_hits: float = 1.0, most: int = 3) -> list[Request]:
    hybrid = draw(st.booleans())
    return [
        Request(
            prompt,
            draw(st.sampled_from(WAYS)),
            hybrid,
            draw(st.integers(0, int(prompt * most_hits) - 1)),
            draw(st.integers(0, int(prompt * most_hits) - 1)),
            draw(st.sampled_from(P)),
            draw(st.sampled_from(D)),
        )
        for prompt in draw(st.lists(st.integers(40, 3000), max_size=most))
    ]


# An unseen prompt: at most a short beginning, that of the chat template, lies in a cache.
ours = requests(most_hits=0.2).filter(bool)


@given(ours, requests())
def test_never_pass_when_decode_computed_and_never_fail_when_it_received(ours, others):
    check = verdicts.apart(window(ours, others), P, D)
    received = all(r.way == "received" for r in ours)
    if check.verdict == Verdict.PASS:
        assert received
    if check.verdict == Verdict.FAIL:
        assert not received


@given(ours)
def test_alone_the_verdict_is_the_truth(ours):
    made = window(ours)
    verdict = verdicts.apart(made, P, D).verdict
    if all(r.way == "received" for r in ours):
        assert verdict == Verdict.PASS
        assert verdicts.counted(made.prompts, made.growth, {"prefill": P, "decode": D})
    elif any(r.way == "computed" for r in ours):
        assert verdict == Verdict.FAIL
    else:
        # Counted as received, so the claim is open; that it failed is not.
        assert verdict == Verdict.CANNOT_TELL
        assert verdicts.transfers([made], D, []).verdict == Verdict.FAIL


@given(st.integers(50, 3000), st.integers(0, 3000), st.integers(2, 3000), requests())
def test_one_request_never_passes_when_decode_computed_more_than_a_token(prompt, cached, own, rest):
    growth = count([Request(prompt), *rest])
    growth.tokens[D[0], COMPUTED] = growth.tokens.get((D[0], COMPUTED), 0) + own
    growth.tokens[D[0], CACHED] = growth.tokens.get((D[0], CACHED), 0) + cached
    check = verdicts.apart(Window((prompt,), 0.1, growth), P, D)
    assert check.verdict != Verdict.PASS


@given(ours, requests(), st.sampled_from([*P, *D]))
def test_what_a_pod_has_not_reported_is_no_proof(ours, others, silent):
    made = window(ours, others)
    growth = Counters(
        tokens={key: n for key, n in made.growth.tokens.items() if key[0] != silent},
        transfers={pod: n for pod, n in made.growth.transfers.items() if pod != silent},
    )
    lost = {r.decode for r in ours} | {r.prefill for r in ours}
    check = verdicts.apart(replace(made, growth=growth), P, D)
    if silent in lost and not others:
        assert check.verdict != Verdict.PASS or silent in P


def test_other_traffic_that_is_sound_does_not_hide_the_proof():
    check = verdicts.apart(window([Request(400)], [Request(900), Request(30)]), P, D)
    assert check.verdict == Verdict.PASS
    assert "other requests of 930 tokens among them" in check.words


def test_other_traffic_that_decode_computes_makes_it_open():
    check = verdicts.apart(window([Request(400)], [Request(300, "computed")]), P, D)
    assert check.verdict == Verdict.CANNOT_TELL
    assert "may be of other requests" in check.words


def test_constant_traffic_does_not_hide_that_decode_computes():
    others = [Request(300, "computed"), Request(300, decode_hits=100)]
    check = verdicts.apart(window([Request(400, "computed")], others), P, D)
    assert check.verdict == Verdict.FAIL
    assert "At least 100 of ours" in check.words


def test_a_prompt_that_a_cache_had_is_no_proof():
    check = verdicts.apart(window([Request(400, decode_hits=396)]), P, D)
    assert check.verdict == Verdict.CANNOT_TELL
    assert "396 tokens were in its cache" in check.words
    check = verdicts.apart(window([Request(400, prefill_hits=396)]), P, D)
    assert check.verdict == Verdict.CANNOT_TELL


def test_looks_that_cannot_be_compared_are_no_proof():
    for way in WAYS:
        made = window([Request(400, way)], breaks=("pod decode-0 went away meanwhile",))
        check = verdicts.apart(made, P, D)
        assert check.verdict == Verdict.CANNOT_TELL
        assert "went away" in check.words
        assert verdicts.transfers([made], D, []).verdict == Verdict.CANNOT_TELL


def test_no_answer_is_no_proof():
    made = Window((), 3.0, Counters(), error="HTTP 500: engine died")
    assert verdicts.apart(made, P, D).verdict == Verdict.CANNOT_TELL
    assert verdicts.together(made, ["engine-0"]).verdict == Verdict.CANNOT_TELL
    check = verdicts.answered([made])
    assert (check.verdict, check.words) == (Verdict.FAIL, "HTTP 500: engine died")


def test_aggregated():
    growth = Counters(tokens={("engine-0", COMPUTED): 380, ("engine-0", CACHED): 20})
    made = Window((400,), 0.5, growth)
    assert verdicts.counted((400,), growth, {"engine": ["engine-0"]})
    assert verdicts.together(made, ["engine-0"]).verdict == Verdict.PASS
    moved = replace(made, growth=replace(growth, transfers={"engine-0": 1}))
    assert verdicts.together(moved, ["engine-0"]).verdict == Verdict.FAIL
    growth = Counters(tokens={("engine-0", RECEIVED): 400})
    assert verdicts.together(replace(made, growth=growth), ["engine-0"]).verdict == Verdict.FAIL
    assert verdicts.together(replace(made, growth=Counters()), ["engine-0"]).verdict == (
        Verdict.CANNOT_TELL
    )


@given(
    st.lists(st.tuples(st.integers(10, 500), st.sampled_from(P), st.sampled_from(D)), max_size=6),
    st.booleans(),
)
def test_pairs_are_named_only_when_they_are_sure(served, hybrid):
    made = window([Request(n, hybrid=hybrid, prefill=p, decode=d) for n, p, d in served])
    true: dict[tuple[str, str], int] = {}
    for _, p, d in served:
        true[p, d] = true.get((p, d), 0) + 1
    found = verdicts.pairs_in(made, P, D)
    prompts = [n for n, _, _ in served]
    if len(set(prompts)) == len(prompts):
        assert found in ({}, true)
    if [sum(s) for s in _subsets(prompts)] == sorted({sum(s) for s in _subsets(prompts)}):
        assert found == true


def _subsets(prompts: list[int]) -> list[list[int]]:
    chosen = product([False, True], repeat=len(prompts))
    return sorted(
        ([n for n, c in zip(prompts, some, strict=True) if c] for some in chosen), key=sum
    )


def test_pairs_that_no_request_reached_are_named():
    check = verdicts.pairs({(P[0], D[0]): 2}, P, D)
    assert check.verdict == Verdict.CANNOT_TELL
    assert "1 of 4 pairs: prefill-0 -> decode-0" in check.words
    assert "Not reached: prefill-0 -> decode-1" in check.words
    assert verdicts.pairs({(P[0], D[0]): 1}, P[:1], D[:1]).verdict == Verdict.PASS


def test_transfers():
    good = window([Request(400)])
    assert verdicts.transfers([good], D, []).verdict == Verdict.PASS
    assert verdicts.transfers([window([Request(9, "computed")])], D, []).verdict == (
        Verdict.CANNOT_TELL
    )
    failure = Failure("handshake_failed", "abc-10.0.0.9-20000", "10.0.0.9", "line")
    check = verdicts.transfers([good], D, [failure])
    assert check.verdict == Verdict.FAIL
    assert "handshake_failed" in check.words


@pytest.mark.parametrize(
    ("made", "verdict", "word"),
    [
        ({"LIBFABRIC"}, Verdict.PASS, "LIBFABRIC on both sides"),
        ({"UCX"}, Verdict.FAIL, "decode-0 made UCX and should have made LIBFABRIC"),
        ({"UCX", "LIBFABRIC"}, Verdict.FAIL, "made LIBFABRIC, UCX"),
        (set(), Verdict.CANNOT_TELL, "decode-0 (its log does not say)"),
    ],
)
def test_backends(made, verdict, word):
    logs = {
        "prefill": {"prefill-0": NixlLog(frozenset({"LIBFABRIC"}))},
        "decode": {"decode-0": NixlLog(frozenset(made))},
    }
    check = verdicts.backends({"prefill": ["LIBFABRIC"], "decode": ["LIBFABRIC"]}, logs)
    assert check.verdict == verdict
    assert word in check.words


def test_rate_is_exact_only_by_nixl():
    growth = Counters(
        byte_buckets={("decode-0", 131072.0): 0, ("decode-0", 524288.0): 1, ("decode-0", 2e6): 1},
        second_buckets={("decode-0", 0.005): 0, ("decode-0", 0.01): 1},
    )
    bounded = verdicts.rate([Window((400,), 0.1, growth)], D)
    assert bounded.verdict == Verdict.CANNOT_TELL
    assert bounded.numbers["gigabytes_per_second"] == [
        pytest.approx(131072 / 0.01 / 1e9),
        pytest.approx(524288 / 0.005 / 1e9),
    ]
    own = replace(
        growth,
        kv_bytes={"decode-0": 262144},
        kv_reads={"decode-0": 1},
        kv_seconds={"decode-0": 0.001},
    )
    exact = verdicts.rate([Window((400,), 0.1, own)], D)
    assert exact.verdict == Verdict.PASS
    assert exact.numbers["gigabytes_per_second"] == pytest.approx(0.262144)
    assert verdicts.kv_bytes([Window((400,), 0.1, own)], D) == (262144, 262144)
    assert verdicts.rate([Window((400,), 0.1, Counters())], D).verdict == Verdict.CANNOT_TELL


@pytest.mark.parametrize(
    ("size", "seconds", "floor", "verdict", "word"),
    [
        (600e6, 0.05, 2.0, Verdict.PASS, "12 GB/s"),
        (600e6, 1.2, 2.0, Verdict.FAIL, "UCX_CUDA_IPC_ENABLE_GET_ZCOPY: on"),
        (600e6, 1.2, None, Verdict.PASS, "0.5 GB/s"),
        (1e6, 0.01, 2.0, Verdict.PASS, "0.1 GB/s"),
    ],
    ids=["as it should", "too slow", "nobody measured it", "too little to tell"],
)
def test_rate_against_what_the_path_gives(size, seconds, floor, verdict, word):
    growth = Counters(
        kv_bytes={"decode-0": size}, kv_reads={"decode-0": 1}, kv_seconds={"decode-0": seconds}
    )
    check = verdicts.rate([Window((4096,), 2.0, growth)], D, floor)
    assert check.verdict == verdict
    assert word in check.words


def _traffic(received: int = 0, sent: int = 0, tcp: int = 0, **changes) -> Traffic:
    efa = {"rdma_read_bytes": received, "rdma_read_resp_bytes": sent}
    return replace(Traffic(frozenset({"rdmap0s1"}), efa, tcp), **changes)


@pytest.mark.parametrize(
    ("prefill", "decode", "verdict"),
    [
        (_traffic(sent=1_000_000), _traffic(received=1_000_000, tcp=9_000), Verdict.PASS),
        (_traffic(), _traffic(tcp=1_100_000), Verdict.FAIL),
        (_traffic(), _traffic(received=1_000_000), Verdict.FAIL),
        (_traffic(sent=999_999), _traffic(received=1_000_000), Verdict.FAIL),
        (
            _traffic(sent=1_000_000),
            _traffic(received=1_000_000, tcp=2_000_000),
            Verdict.CANNOT_TELL,
        ),
        (_traffic(why="may not exec"), _traffic(received=1_000_000), Verdict.CANNOT_TELL),
        (_traffic(sent=1_000_000), _traffic(adapters=frozenset()), Verdict.FAIL),
        (  # messages, where the adapter does no RDMA read
            _traffic(efa={"tx_bytes": 1_000_000}),
            _traffic(efa={"rx_bytes": 1_000_000}),
            Verdict.PASS,
        ),
    ],
)
def test_efa(prefill, decode, verdict):
    before = {"prefill": {"prefill-0": _traffic()}, "decode": {"decode-0": _traffic()}}
    after = {"prefill": {"prefill-0": prefill}, "decode": {"decode-0": decode}}
    assert verdicts.efa(True, before, after, 1_000_000).verdict == verdict
    assert verdicts.efa(False, before, after, 1_000_000).verdict == Verdict.NOT_APPLICABLE
    if verdict == Verdict.PASS:
        assert verdicts.efa(True, before, after, 0).verdict == Verdict.CANNOT_TELL
        unread = {"prefill": {"prefill-0": Traffic(why="no")}, "decode": before["decode"]}
        assert verdicts.efa(True, unread, after, 1_000_000).verdict == Verdict.CANNOT_TELL


def test_peers():
    engines, hosts = ["new-10.0.0.2-20000"], ["10.0.0.2"]

    def failure(engine: str | None, host: str | None) -> Failure:
        return Failure("handshake_failed", engine, host, "")

    gone = failure("old-10.0.0.1-20000", "10.0.0.1")
    replaced = failure("old-10.0.0.2-20000", None)
    here = failure("new-10.0.0.2-20000", "10.0.0.2")
    assert verdicts.peers([here], [], engines, hosts, []).verdict == Verdict.PASS
    for stale in (gone, replaced):
        check = verdicts.peers([here, stale], [], engines, hosts, [])
        assert check.verdict == Verdict.FAIL
        assert stale.engine in check.words
    # Without the ids of all engines an unknown id means nothing; an address still does.
    assert verdicts.peers([replaced], [], [], hosts, []).verdict == Verdict.PASS
    assert verdicts.peers([gone], [], [], hosts, []).verdict == Verdict.FAIL
    before = verdicts.peers([], [gone], engines, hosts, [])
    assert (before.verdict, before.numbers["failures_with_stale_peers_before"]) == (Verdict.PASS, 1)
    assert verdicts.peers([], [], engines, hosts, ["a"]).verdict == Verdict.CANNOT_TELL
