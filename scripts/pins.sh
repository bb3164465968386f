#!/bin/sh
# Write constraints.txt anew: the newest versions, transitive ones too, that fit pyproject.toml together.
# Run it with the oldest supported Python, so that the pins exist for all of them, and then the tests.
set -eu

python=$(sh scripts/find-python.sh "$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -m venv "$scratch/venv"
# PyTorch moves on its own: a new release is gigabytes and changes what agents learn, so it is raised here by hand.
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check 'torch==2.13.0'
# hatchling and editables build the package; pip does not list what it used to build.
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check '.[dev]' hatchling editables
{
    echo "# The versions that the tests ran with, transitive ones too.  Written by \`make pins\`; do not edit."
    "$scratch/venv/bin/pip" freeze --exclude almostsure | sed 's/+cpu$//'
} >"$scratch/constraints.txt"
mv "$scratch/constraints.txt" constraints.txt
echo "constraints.txt: $(grep -c == constraints.txt) pins.  Now run make test lint docs."
