"""``make demo``: a first look, in the terminal."""

from __future__ import annotations

from almostsure.model.build import from_transitions


def main() -> None:
    """Print the paper's two-state model."""
    mdp = from_transitions(
        [0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0],
        terminal=[1], state_names=["circle", "square"], action_names=["left", "right"],
    )  # fmt: skip
    print(mdp.summary())


if __name__ == "__main__":
    main()
