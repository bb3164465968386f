"""Crews on this machine: results in order, workers that die, Ctrl-C."""

import os
import signal
import threading
import time

import pytest

from almostsure.crew import LocalCrew, as_crew
from almostsure.errors import LimitReached, uninterrupted


def test_workers_that_keep_dying_are_an_error():
    parent = os.getpid()

    def dies(item):
        if os.getpid() != parent:
            os._exit(3)
        return item

    with LocalCrew(2).open(dies) as each, pytest.raises(LimitReached, match="died 5 times in a row"):
        list(each(range(4)))


def test_results_come_in_order():
    def slow_first(item):
        time.sleep(0.02 if item == 0 else 0)
        return item

    with as_crew(3).open(slow_first, threads=True) as each:
        assert list(each(range(20))) == list(range(20))
        assert list(each([])) == []
        assert list(each([0, None, 1])) == [0, None, 1]  # None is an item like any other


def test_ctrl_c_waits_for_the_end_of_a_block():
    done = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run

    def block():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")
        done.append("more")

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        block()
    assert done == ["all of it"]
    thread = threading.Thread(target=lambda: uninterrupted().__enter__())  # handlers belong to the main thread
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, before)
