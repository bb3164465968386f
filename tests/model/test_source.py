"""The ways to name a model, and their options."""

import pytest

from almostsure.errors import FileError, ModelError, UnknownName
from almostsure.model.build.examples import example
from almostsure.model.build.grid import from_map
from almostsure.model.source import as_model, read_constants


def test_examples_take_their_parameters():
    assert as_model("paper", constants="damage_probability=0.6") == example("paper", damage_probability=0.6)
    assert as_model("hazard-map", constants={"slip": 0.2}) == example("hazard-map", slip=0.2)
    with pytest.raises(UnknownName, match="unknown parameter of example 'paper' 'slip'"):
        as_model("paper", constants="slip=0.1")


def test_maps_take_their_parameters(tmp_path):
    (tmp_path / "walk.map").write_text("S.~\n..G")
    made = as_model(tmp_path / "walk.map", constants="slip=0.1,slip_model=side,step_reward=-1")
    assert made == from_map("S.~\n..G", slip=0.1, slip_model="side", step_reward=-1)
    with pytest.raises(UnknownName, match=r"unknown constant of a map 'slipp'\. Did you mean 'slip'\?"):
        as_model(tmp_path / "walk.map", constants="slipp=0.1")


def test_environments():
    assert as_model("gym:FrozenLake-v1", constants="is_slippery=false,map_name=8x8").num_states == 64
    assert as_model("gym:CliffWalking-v1", damage="3 if reward<=-100").max_damage == 3
    with pytest.raises(UnknownName, match=r"unknown environment 'FrozenLak-v1'\. Did you mean 'FrozenLake-v1'\?"):
        as_model("gym:FrozenLak-v1", damage="terminated")
    with pytest.raises(UnknownName, match=r"unknown environment 'Frozen'\. Did you mean 'FrozenLake-v1'\?$"):
        as_model("gym:Frozen")
    with pytest.raises(UnknownName, match=r"^unknown environment 'Boat-v0'\. With its module: gym:MODULE:Boat-v0\.$"):
        as_model("gym:Boat-v0")
    with pytest.raises(
        UnknownName, match=r"^unknown environment 'Boat-v0'\. The module random does not register it\.$"
    ):
        as_model("gym:random:Boat-v0")
    assert as_model("gym:gymnasium.envs:FrozenLake-v1") == as_model("gym:FrozenLake-v1")
    old = r"^unknown environment 'FrozenLake-v0'\. Did you mean 'FrozenLake-v1'\?$"
    with pytest.warns(DeprecationWarning, match="out of date"), pytest.raises(UnknownName, match=old):
        as_model("gym:FrozenLake-v0")
    with pytest.warns(UserWarning, match="latest versioned environment"):
        assert as_model("gym:FrozenLake") == as_model("gym:FrozenLake-v1")
    with pytest.raises(ModelError, match="the module nowhere of gym:nowhere:Lake-v0 cannot be imported: No module"):
        as_model("gym:nowhere:Lake-v0")
    for damage in (None, "reward<0"):
        with pytest.raises(ModelError, match=r"Blackjack-v1 must have a transition table .* learn_minimal_budget"):
            as_model("gym:Blackjack-v1", damage=damage)
    with pytest.raises(UnknownName, match=r"unknown model 'FrozenLake-v1'\. Did you mean 'gym:FrozenLake-v1'\?"):
        as_model("FrozenLake-v1")
    with pytest.raises(ModelError, match=r"cannot be made with .*colour"):
        as_model("gym:FrozenLake-v1", constants="colour=red")


def test_options_without_effect_are_refused(tmp_path):
    mdp = example("corridor")
    mdp.save(tmp_path / "corridor.umb")
    (tmp_path / "map.txt").write_text("SG")
    for model, options, message in (
        ("paper", {"damage": "x"}, "damage= must be left out: the example 'paper' has its own"),
        (mdp, {"reward": "x", "cost": "y"}, "reward=, cost= must be left out: the model is not a file"),
        (mdp, {"constants": "a=1"}, "constants= must be left out: the model is not a file"),
        (tmp_path / "map.txt", {"damage": "x"}, "damage= must be left out: the characters of the map"),
        (tmp_path / "corridor.umb", {"constants": "a=1"}, "constants= must be left out: .* is a built model"),
        (tmp_path / "corridor.umb", {"damage": "x"}, "a saved model has its own damage and reward"),
        ("gym:FrozenLake-v1", {"reward": "x"}, "reward= must be left out: an environment has its own reward"),
    ):
        with pytest.raises(ModelError, match=message):
            as_model(model, **options)


def test_files_of_storm(tmp_path):
    pytest.importorskip("stormpy")
    (tmp_path / "walk.prism").write_text(
        "mdp\nconst int N;\nmodule walk\n  x : [0..N] init 0;\n  [go] x<N -> (x'=x+1);\nendmodule\n"
        'label "wet" = x=1;\n'
    )
    made = as_model(tmp_path / "walk.prism", damage="wet", constants="N=3")
    assert (made.num_states, made.max_damage) == (4, 1)
    with pytest.raises(FileError, match="must be read with from_prism"):
        as_model(tmp_path / "walk.prism")


def test_unknown_kinds_of_files(tmp_path):
    (tmp_path / "notes.odt").write_text("")
    with pytest.raises(UnknownName, match=r"unknown kind of file .*notes.odt.* ends in one of \.umb"):
        as_model(tmp_path / "notes.odt")


@pytest.mark.parametrize("text", ["", "N", "N=", "=3", "N=3,", "N=3,,p=1"])
def test_constants_must_be_pairs(text):
    with pytest.raises(ModelError, match=r"constants must have the form 'N=3,p=0\.5'"):
        read_constants(text)


def test_constants_are_given_once():
    with pytest.raises(ModelError, match="every constant must be given once; got 'N=3,N=4'"):
        read_constants("N=3,N=4")


def test_constants_are_typed():
    found = read_constants(" N = 3, p=0.5,slow=TRUE ,name=8x8")
    assert found == {"N": 3, "p": 0.5, "slow": True, "name": "8x8"}
    assert read_constants(None) == {}
    assert read_constants({"N": 1}) == {"N": 1}


def test_a_table_that_cannot_be_read_is_not_an_environment_that_cannot_be_made(monkeypatch):
    import gymnasium
    from gymnasium.envs.toy_text import FrozenLakeEnv

    class Torn(FrozenLakeEnv):
        def __init__(self, **options):
            super().__init__(**options)
            self.P[0] = {None: self.P[0][0]}

    monkeypatch.setitem(gymnasium.registry, "Torn-v0", gymnasium.envs.registration.EnvSpec("Torn-v0", entry_point=Torn))
    with pytest.raises(ModelError, match=r"^the table of transitions of Torn-v0 cannot be read: .*Error"):
        as_model("gym:Torn-v0", damage="terminated")
