"""Text, pictures and windows."""

import copy
import pickle
import sys

import gymnasium
import numpy as np
import pytest

from almostsure.errors import MissingExtra
from almostsure.gym import (
    environment_names,
)

from ..made import small

NAMES = environment_names()


@pytest.mark.parametrize("name", NAMES)
def test_pictures(name):
    env = small(name, render_mode="rgb_array")
    _, info = env.reset(seed=0)
    first = env.render()
    assert first.ndim == 3
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 20  # not a blank picture
    pictures = [first]
    for _ in range(8):
        *_, terminated, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        pictures.append(env.render())
        if terminated:
            break
    assert any(not np.array_equal(first, other) for other in pictures)


def test_pictures_show_damage():
    env = gymnasium.make("almostsure/Paper-v0", render_mode="rgb_array")
    env.reset(seed=0)
    reds = []
    for _ in range(4):
        strip = env.render()[-22:].astype(int)
        reds.append(np.count_nonzero((strip[..., 0] > 180) & (strip[..., 1] < 100)))
        env.step(0)
    assert reds[0] == 0
    assert reds == sorted(reds)
    assert len(set(reds)) == 4


def test_a_window(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = gymnasium.make("almostsure/Warehouse-v0", render_mode="human")
    env.unwrapped._renderer.fps = 1000
    env.reset(seed=0)
    env.step(0)
    twin = copy.deepcopy(env)  # opens a window of its own
    twin.step(0)
    env.close()
    twin.close()
    env.close()


@pytest.mark.parametrize("mode", ["human", "rgb_array"])
def test_pictures_need_pygame_and_text_does_not(mode, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    text = gymnasium.make("almostsure/Paper-v0", render_mode="ansi")
    text.reset(seed=0)
    assert text.render() == "(@)>[ ]\nstart, damage so far 0"
    env = gymnasium.make("almostsure/Paper-v0", render_mode=mode)

    def look():
        env.reset(seed=0)
        env.render()

    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[envs\]'"):
        look()


def test_the_warehouse_is_drawn_with_its_parcels_and_its_forklift():
    env = gymnasium.make("almostsure/Warehouse-v0", render_mode="ansi")
    env.reset(seed=2)
    text = env.render()
    assert text.count("@") == text.count("F") == text.count("A") == text.count("B") == 1
    assert pickle.loads(pickle.dumps(env)).render() == text
