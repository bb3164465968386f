"""The environment's own rendering of recorded episodes, or the reason why there is none."""

import base64
import re
import struct
import zlib
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs gymnasium, of the extra almostsure[gym]")
pytest.importorskip("pygame", reason="needs pygame, of the extra almostsure[envs]")

import gymnasium

import almostsure as asure
from almostsure.errors import ArgumentError, ModelMismatch
from almostsure.gym import ready, to_gymnasium
from almostsure.model import Steps, product
from almostsure.report import frames, write_report
from almostsure.report.frames import png

TYPES = {"u1": np.uint8, "u2": np.uint16, "i4": np.int32}


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["bytes"]), TYPES[packed["type"]]).tolist()


def pixels(text):
    """The picture in a PNG file, decoded independently of the writer."""
    data, body, at = base64.b64decode(text), b"", 8
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        piece = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height = struct.unpack(">II", piece[:8])
        body += piece if kind == b"IDAT" else b""
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3)


def note(content):
    """The report's notes on missing pictures."""
    return [text for text in content["notes"] if "own pictures" in text]


@pytest.mark.parametrize("name", ["CliffWalking-v1", "almostsure/Corridor-v0"])
def test_pictures_are_those_of_the_same_run_in_the_environment(tmp_path, content_of, name):
    env = gymnasium.make(name, render_mode="rgb_array")
    mdp = getattr(env.unwrapped, "mdp", None) or ready(name).mdp
    content = content_of(write_report(mdp, tmp_path / "r.html", env=env, time_limit=2))
    assert note(content) == []
    for record in content["episodes"]:
        env.reset(options={"state": record["states"][0]})
        shown = [env.render()]
        for action, after in zip(unpacked(record["actions"]), record["states"][1:], strict=True):
            assert env.step(action)[0] == after  # these environments are deterministic
            shown.append(env.render())
        numbers = unpacked(record["frames"])
        assert len(numbers) == len(shown)
        for number, image in zip(numbers, shown, strict=True):
            assert np.array_equal(pixels(content["pictures"][number]), image)


def test_pictures_of_environments_by_id_of_shielded_ones_and_of_products(tmp_path, content_of):
    named = content_of(write_report("gym:FrozenLake-v1", tmp_path / "named.html", budget=1))
    lake = ready("FrozenLake-v1", render_mode="rgb_array")
    given = content_of(write_report(lake.mdp, tmp_path / "given.html", budget=1, env=lake.shielded(budget=1)))
    assert named["pictures"]
    assert given["name"] == "FrozenLake-v1"
    assert given["pictures"] == named["pictures"]
    assert [record["frames"] for record in given["episodes"]] == [record["frames"] for record in named["episodes"]]
    counted = product(lake.mdp, Steps(4))
    content = content_of(write_report(counted, tmp_path / "product.html", budget=1, env={"id": "FrozenLake-v1"}))
    assert set(content["pictures"]) & set(named["pictures"])


def test_the_end_state_is_rendered_as_the_state_that_was_reached(tmp_path, content_of):
    content = content_of(write_report("gym:Taxi-v4", tmp_path / "r.html", time_limit=0.5))
    typical = content["episodes"][0]
    assert typical["states"][-1] == 500
    assert min(unpacked(typical["frames"])) >= 0


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"id": "almostsure/Nothing-v0"}, r"could not be made with them \(.*Nothing"),
        ({"id": "FrozenLake-v1", "is_slippy": True}, r"could not be made with them \(.*is_slippy"),
        ({"id": "Blackjack-v1"}, "it cannot be set to the states of a recorded run"),
    ],
)
def test_the_note_gives_the_reason_for_missing_pictures(tmp_path, content_of, env, why):
    content = content_of(write_report("paper", tmp_path / "r.html", budget=1, env=env))
    assert content["pictures"] == []
    assert [record["frames"] for record in content["episodes"]] == [None] * len(content["episodes"])
    (said,) = note(content)
    assert re.search(why, said)


class Blind(gymnasium.Env):
    """An environment with a table, and without pictures."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012  # as gymnasium.Env declares it
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    P = {0: {0: [(1.0, 1, 1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode, self.s = render_mode, 0

    def reset(self, *, seed=None, options=None):
        self.s = 0
        return 0, {}

    def render(self):
        raise RuntimeError("no brush")


def test_an_environment_without_pictures_and_one_that_cannot_draw(tmp_path, content_of):
    mdp = asure.from_gymnasium(Blind(), lambda *outcome: 0)
    with patch.object(gymnasium, "make", lambda **options: Blind()):
        content = content_of(write_report(mdp, tmp_path / "r.html", env={"id": "Blind-v0"}))
    assert note(content) == ["The environment's own pictures: Blind-v0 has no render mode rgb_array."]
    content = content_of(write_report(mdp, tmp_path / "r.html", env=Blind("rgb_array")))
    assert note(content) == ["The environment's own pictures: it could not be rendered (no brush)."]


def test_another_environment_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="env must be a Gymnasium environment, or the arguments that make one"):
        write_report("paper", tmp_path / "r.html", env="corridor")
    with pytest.raises(ModelMismatch, match="one of another model"):
        write_report("quicksand", tmp_path / "r.html", env=to_gymnasium("corridor", render_mode="rgb_array"))
    with pytest.raises(ModelMismatch, match=r"in its table, .* does not lead to"):
        write_report("gym:CliffWalking-v1", tmp_path / "r.html", env={"id": "FrozenLake8x8-v1"}, time_limit=0.5)
    assert list(tmp_path.iterdir()) == []


def test_the_note_for_an_environment_without_render_mode(tmp_path, content_of):
    content = content_of(write_report("corridor", tmp_path / "r.html", budget=1, env=to_gymnasium("corridor")))
    assert content["pictures"] == []
    assert note(content) == ["The environment's own pictures: it was made without render_mode='rgb_array'."]


def test_the_number_of_pictures_is_limited(tmp_path, content_of):
    with patch.object(frames, "MOST_PICTURES", 3):
        content = content_of(write_report("gym:FrozenLake-v1", tmp_path / "r.html", budget=1))
    assert len(content["pictures"]) == 3
    assert note(content) == ["The environment's own pictures: this file has 3 of them; later steps have none."]
    assert unpacked(content["episodes"][0]["frames"])[:4] == [0, 1, 2, -1]


def test_large_pictures_are_subsampled_and_invalid_ones_refused():
    image = np.random.default_rng(0).integers(0, 255, (20, 1700, 3), dtype=np.uint8)
    assert np.array_equal(pixels(base64.b64encode(png(image))), image[::3, ::3])
    with pytest.raises(ValueError, match=r"rows × columns × 3 bytes; got float64 of shape \(2, 2\)"):
        png(np.zeros((2, 2)))


def test_the_player_shows_the_picture_of_the_step(visit, tmp_path, content_of):
    path = write_report("gym:FrozenLake-v1", tmp_path / "r.html", budget=1)
    content, page = content_of(path), visit(path)
    assert "the environment's own" in page.inner_text("#play-lead")
    record = content["episodes"][0]
    for number, state in zip(unpacked(record["frames"]), record["states"], strict=True):
        image = page.locator("#player img.frame")
        assert image.get_attribute("src") == f"data:image/png;base64,{content['pictures'][number]}"
        assert image.get_attribute("alt").endswith(f"of r{state // 4}c{state % 4}")
        assert image.evaluate("e => e.naturalWidth") == 256
        page.click("#player-next")
    page.select_option("#player-other", index=2)
    assert page.locator("#player img.frame").count() == 2
