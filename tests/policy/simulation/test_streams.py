"""Random streams: exact numbers, since a seed must give the same episodes in all versions and on all machines."""

import numpy as np
import pytest

from almostsure.kernels import plain
from almostsure.policy.simulation import kernel
from almostsure.policy.simulation.streams import GOLDEN, first_above, mix, open_streams, running_sums, uniform


def test_mixing_is_splitmix64():
    """The first numbers of SplitMix64 with seed 0, as its authors' program prints them."""
    with np.errstate(over="ignore"):
        found = [int(mix(np.uint64(i) * GOLDEN)) for i in (1, 2, 3)]
    assert found == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_streams_of_a_seed_never_change():
    start, step = open_streams(7, [0, 1, 1000])
    assert [hex(int(number)) for number in start] == ["0xb78b9f38a670e787", "0x4d58fbd282eaf415", "0x21bdde8d95a1bd92"]
    assert [hex(int(number)) for number in step] == ["0x180cc905f6b23d43", "0xd4ee5e8acef7cb1b", "0x703ae517e30146d3"]


def test_uniform_numbers_have_53_bits_and_stay_below_1():
    assert uniform(np.uint64(2**11 - 1)) == 0
    assert uniform(np.uint64(2**11)) == 2.0**-53
    assert uniform(np.uint64(2**64 - 1)) == 1 - 2.0**-53


def test_sums_start_again_at_every_offset_and_end_above_every_draw():
    values = np.array([1.0, 0.25, 0.25, 0.5, 0.5, 0.5, 0.0, 0.0])
    sums = running_sums(values, np.array([0, 1, 4, 7, 8]))
    assert sums.tolist() == [2, 0.25, 0.5, 2, 0.5, 2, 2, 0]
    assert values[0] == 1


@pytest.mark.parametrize("size", [1, 2, 9, 10, 11, 40])
def test_the_first_sum_above_a_draw_is_found(size):
    cumulative = np.append(np.full(3, 9.0), np.append(np.arange(1, size) / size, 2.0))
    draws = np.unique(np.append(np.arange(size) / size, (np.arange(size) + 0.5) / size))
    wanted = [3 + int(np.argmax(cumulative[3:] > draw)) for draw in draws]
    first, last = np.full(draws.size, 3), np.full(draws.size, 3 + size)
    assert first_above(cumulative, first, last, draws).tolist() == wanted
    assert [plain(kernel.first_above)(cumulative, 3, 3 + size, draw) for draw in draws] == wanted
