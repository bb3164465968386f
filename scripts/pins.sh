#!/bin/sh
# Write constraints.txt anew: the newest versions, transitive ones too, that fit pyproject.toml together; and of them
# requirements.txt: what the package itself and its build need, with the hashes of all their files.
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

# The extras have no hashes: PyTorch's files are others on machines that have its CPU builds.
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check uv
printf 'hatchling\neditables\n' >"$scratch/build.in"
"$scratch/venv/bin/uv" pip compile -q pyproject.toml "$scratch/build.in" --constraints constraints.txt \
    --generate-hashes --universal --python-version 3.11 --no-annotate --no-header --output-file "$scratch/hashed.txt"
{
    echo "# What the package and its build need, with hashes.  Written by \`make pins\`; do not edit."
    cat "$scratch/hashed.txt"
} >"$scratch/requirements.txt"
mv "$scratch/requirements.txt" requirements.txt
echo "constraints.txt: $(grep -c == constraints.txt) pins.  Now run make test lint docs."
