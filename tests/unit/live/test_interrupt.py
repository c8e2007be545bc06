"""Ctrl-C as an exception, and held back."""

from __future__ import annotations

import os
import signal

import pytest

from raypd.live.interrupt import Interrupted, Interrupts

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_an_exception_and_handlers_come_back(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted), Interrupts():
        send(number)
    assert signal.getsignal(number) is before


def test_a_signal_waits_until_nothing_holds_it_back() -> None:
    done: list[str] = []
    with Interrupts() as interrupts, pytest.raises(Interrupted):
        with interrupts.held():
            with interrupts.held():
                send(signal.SIGTERM)
                done.append("inner")
            done.append("outer")
        done.append("never")
    assert done == ["inner", "outer"]


def test_without_a_signal_holding_back_is_nothing() -> None:
    with Interrupts() as interrupts, interrupts.held():
        pass


def test_a_failure_of_its_own_comes_first() -> None:
    with Interrupts() as interrupts, pytest.raises(ValueError, match="own"), interrupts.held():
        send(signal.SIGINT)
        raise ValueError("own")
