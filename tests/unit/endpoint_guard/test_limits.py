"""The gate before the engines, and what each key may use."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoint_guard.errors import Refusal
from endpoint_guard.limits import Gate, Meter
from endpoint_guard.settings import KeyLimits, Settings

pytestmark = pytest.mark.anyio


class Visitor:
    """One that goes through the gate and stays until told to leave."""

    def __init__(self, gate: Gate, settings: Settings, order: list[int], number: int = 0) -> None:
        self.leave = asyncio.Event()
        self.is_in = False
        self.waited = 0.0
        self.task = asyncio.create_task(self._go(gate, settings, order, number))

    async def _go(self, gate: Gate, settings: Settings, order: list[int], number: int) -> None:
        async with gate.passed(settings) as self.waited:
            self.is_in = True
            order.append(number)
            await self.leave.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_gate_lets_as_many_in_as_it_may_and_the_others_in_their_order():
    gate, settings, order = Gate(), Settings(in_flight=2, queue=3), []
    visitors = [Visitor(gate, settings, order, number) for number in range(5)]
    await settle()
    assert (gate.inside, gate.waiting, order) == (2, 3, [0, 1])
    for number in (1, 0, 2, 3, 4):
        visitors[number].leave.set()
        await settle()
    assert order == [0, 1, 2, 3, 4]
    assert (gate.inside, gate.waiting) == (0, 0)


async def test_whoever_comes_later_does_not_pass_those_who_wait():
    gate, settings, order = Gate(), Settings(in_flight=1, queue=5), []
    first = Visitor(gate, settings, order, 0)
    await settle()
    waiting = Visitor(gate, settings, order, 1)
    await settle()
    first.leave.set()
    late = Visitor(gate, settings, order, 2)
    await settle()
    assert order == [0, 1]
    waiting.leave.set()
    late.leave.set()
    await settle()
    assert order == [0, 1, 2]


async def test_a_full_queue_refuses_at_once():
    gate, settings = Gate(), Settings(in_flight=1, queue=1)
    visitors = [Visitor(gate, settings, []) for _ in range(3)]
    await settle()
    with pytest.raises(Refusal) as refusal:
        await visitors[2].task
    assert refusal.value.status == 503
    assert refusal.value.code == "overloaded"
    assert ("retry-after", "1") in refusal.value.headers
    assert "the queue is full" in refusal.value.message
    assert (gate.inside, gate.waiting) == (1, 1)
    for visitor in visitors[:2]:
        visitor.leave.set()
    await settle()


async def test_a_wait_that_is_too_long_is_refused_and_leaves_no_place_behind():
    gate, settings = Gate(), Settings(in_flight=1, queue=2, queue_seconds=0.02)
    first = Visitor(gate, settings, [])
    await settle()
    second = Visitor(gate, settings, [])
    with pytest.raises(Refusal) as refusal:
        await second.task
    assert refusal.value.status == 503
    assert ("retry-after", "1") in refusal.value.headers
    assert "within 0.02 s" in refusal.value.message
    assert (gate.inside, gate.waiting) == (1, 0)
    first.leave.set()
    await settle()
    assert gate.inside == 0


async def test_the_wait_is_told():
    gate, settings = Gate(), Settings(in_flight=1)
    first, second = Visitor(gate, settings, []), Visitor(gate, settings, [])
    await asyncio.sleep(0.03)
    first.leave.set()
    await settle()
    assert first.waited < 0.02 <= second.waited
    second.leave.set()
    await settle()


async def test_one_who_leaves_just_as_the_turn_comes_gives_it_to_the_next():
    gate, settings, order = Gate(), Settings(in_flight=1), []
    first, second, third = (Visitor(gate, settings, order, n) for n in range(3))
    await settle()
    first.leave.set()
    await asyncio.sleep(
        0
    )  # the first is gone and the second's turn has come, which it has not seen yet
    assert gate.inside == 1 and not second.is_in
    second.task.cancel()
    await settle()
    assert second.task.cancelled()
    assert order == [0, 2]
    third.leave.set()
    await settle()
    assert (gate.inside, gate.waiting) == (0, 0)


async def test_a_limit_that_is_raised_is_kept_to_from_the_next_end_on():
    gate, order = Gate(), []
    few, many = Settings(in_flight=1), Settings(in_flight=3)
    first = Visitor(gate, few, order, 0)
    await settle()
    second = Visitor(gate, few, order, 1)
    third, fourth = (Visitor(gate, many, order, number) for number in (2, 3))
    await settle()
    first.leave.set()
    await settle()
    second.leave.set()
    await settle()
    assert order == [0, 1, 2]
    third.leave.set()
    await settle()
    assert order == [0, 1, 2, 3]
    fourth.leave.set()
    await settle()
    assert gate.inside == 0


@given(
    st.integers(1, 3),
    st.integers(0, 4),
    st.lists(
        st.tuples(st.sampled_from(["come", "leave", "cancel", "breathe"]), st.integers(0, 30)),
        max_size=40,
    ),
)
async def test_no_place_is_ever_lost_or_given_twice(in_flight, queue, steps):
    gate, settings = Gate(), Settings(in_flight=in_flight, queue=queue, queue_seconds=5)
    visitors: list[Visitor] = []
    for step, number in steps:
        if step == "come":
            visitors.append(Visitor(gate, settings, []))
        elif step == "breathe":
            await asyncio.sleep(0)
        elif visitors:
            one = visitors[number % len(visitors)]
            one.leave.set() if step == "leave" else one.task.cancel()
        assert 0 <= gate.inside <= in_flight
        assert gate.waiting <= queue
    await settle()
    here = [one for one in visitors if not one.task.done()]
    assert gate.inside == sum(one.is_in for one in here)
    assert gate.inside == in_flight or gate.waiting == 0
    for one in visitors:
        one.leave.set()
    await asyncio.gather(*(one.task for one in visitors), return_exceptions=True)
    assert (gate.inside, gate.waiting) == (0, 0)


# Limits of keys. The clock is the test's own.


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    monkeypatch.setattr(time, "monotonic", lambda: Clock.now)
    return Clock


async def passes(meter: Meter, key: str, settings: Settings) -> Refusal | None:
    """Nothing when a request of `key` is let through, and the refusal when not."""
    try:
        async with meter.counted(key, settings):
            return None
    except Refusal as refusal:
        assert refusal.status == 429
        assert refusal.type == "rate_limit_error"
        assert refusal.code == "rate_limit_exceeded"
        return refusal


def seconds(refusal: Refusal | None) -> int:
    assert refusal
    given = int(dict(refusal.headers)["retry-after"])
    assert f"in {given} s" in refusal.message
    return given


def limited(**limits: int) -> Settings:
    return Settings(limits=KeyLimits(**limits))


async def test_without_limits_everything_passes(clock):
    meter, settings = Meter(), Settings()
    meter.used("alice", 10**9, settings)
    assert not any([await passes(meter, "alice", settings) for _ in range(1000)])


async def test_requests_of_a_minute(clock):
    meter, settings = Meter(), limited(requests_per_minute=6)
    assert not any([await passes(meter, "alice", settings) for _ in range(6)])
    wait = seconds(await passes(meter, "alice", settings))
    assert wait == 10  # one of six in a minute
    clock.now += wait - 1
    assert await passes(meter, "alice", settings)
    clock.now += 1
    assert not await passes(meter, "alice", settings)
    assert await passes(meter, "alice", settings)


async def test_one_key_does_not_use_up_what_another_has(clock):
    meter, settings = Meter(), limited(requests_per_minute=1)
    assert not await passes(meter, "alice", settings)
    assert await passes(meter, "alice", settings)
    assert not await passes(meter, "bob", settings)


async def test_tokens_are_taken_when_they_are_known_and_paid_back(clock):
    meter, settings = Meter(), limited(tokens_per_minute=600)
    assert not await passes(meter, "alice", settings)
    meter.used("alice", 1500, settings)
    wait = seconds(await passes(meter, "alice", settings))
    assert wait == 91  # 900 tokens too many at ten a second, and one token that is left then
    clock.now += wait - 2
    assert await passes(meter, "alice", settings)
    clock.now += 2
    assert not await passes(meter, "alice", settings)


async def test_what_is_not_used_is_kept_for_a_minute_and_not_for_longer(clock):
    meter, settings = Meter(), limited(requests_per_minute=3)
    assert not await passes(meter, "alice", settings)
    clock.now += 100_000
    assert not any([await passes(meter, "alice", settings) for _ in range(3)])
    assert await passes(meter, "alice", settings)


async def test_a_refused_request_is_not_one_of_the_minute(clock):
    meter, settings = Meter(), limited(requests_per_minute=60)
    for _ in range(60):
        await passes(meter, "alice", settings)
    for _ in range(100):
        assert await passes(meter, "alice", settings)
    clock.now += 1
    assert not await passes(meter, "alice", settings)


@given(st.integers(1, 10_000), st.integers(1, 100_000), st.integers(1, 7))
async def test_after_the_seconds_that_it_is_told_to_wait_a_key_is_let_in(limit, used, replicas):
    with pytest.MonkeyPatch.context() as patch:
        now = [1000.0]
        patch.setattr(time, "monotonic", lambda: now[0])
        for what in ("requests_per_minute", "tokens_per_minute"):
            meter = Meter()
            settings = Settings(limits=KeyLimits(**{what: limit}), replicas=replicas)
            meter.used("alice", used, settings)
            for _ in range(limit + 1):
                if refusal := await passes(meter, "alice", settings):
                    now[0] += seconds(refusal) + 0.001
                    assert not await passes(meter, "alice", settings)
                    break


async def test_requests_at_once(clock):
    meter, settings = Meter(), limited(concurrent_requests=2)
    async with meter.counted("alice", settings), meter.counted("alice", settings):
        assert seconds(await passes(meter, "alice", settings)) == 1
        assert not await passes(meter, "bob", settings)
    assert not await passes(meter, "alice", settings)
    assert not meter._inside


async def test_a_request_that_breaks_or_is_cancelled_is_no_longer_one_at_once(clock):
    meter, settings = Meter(), limited(concurrent_requests=1)

    async def broken(what: BaseException) -> None:
        async with meter.counted("alice", settings):
            raise what

    for what in (ValueError(), asyncio.CancelledError()):
        with pytest.raises(type(what)):
            await broken(what)
        assert not await passes(meter, "alice", settings)


async def test_each_replica_keeps_to_its_part(clock):
    limits = KeyLimits(requests_per_minute=6, concurrent_requests=4)
    meter, settings = Meter(), Settings(limits=limits, replicas=3)
    passed = [not await passes(meter, "alice", settings) for _ in range(6)]
    assert passed == [True, True, False, False, False, False]
    clock.now += 1000
    async with meter.counted("alice", settings), meter.counted("alice", settings):
        assert "at once" not in str(await passes(meter, "alice", settings))
        assert await passes(meter, "alice", settings)


async def test_a_part_of_a_request_is_one_all_the_same(clock):
    meter = Meter()
    settings = Settings(limits=KeyLimits(requests_per_minute=1, concurrent_requests=1), replicas=10)
    assert not await passes(meter, "alice", settings)
    assert seconds(await passes(meter, "alice", settings)) == 60


async def test_a_limit_that_is_lowered_holds_at_once(clock):
    meter = Meter()
    assert not await passes(meter, "alice", limited(requests_per_minute=1000))
    few = limited(requests_per_minute=2)
    assert [bool(await passes(meter, "alice", few)) for _ in range(4)] == [False, False, True, True]
