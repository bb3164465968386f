#!/bin/sh
# Run the tests of the core with the oldest versions that pyproject.toml allows, in a separate environment.
set -eu

python=$(sh scripts/find-python.sh "$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -qq --disable-pip-version-check uv
uv="$scratch/venv/bin/uv"
"$uv" pip compile -q pyproject.toml --resolution lowest-direct --no-annotate --no-header -o "$scratch/oldest.txt"
grep -E '^(numpy|scipy|numba|highspy|safetensors|gymnasium|rich|typer)==' "$scratch/oldest.txt"
printf 'pytest\nhypothesis\n' >"$scratch/tools.txt"
"$uv" pip install -q --python "$scratch/venv/bin/python" -r "$scratch/oldest.txt" -r "$scratch/tools.txt"
"$uv" pip install -q --python "$scratch/venv/bin/python" --no-deps --editable .
NUMBA_CACHE_DIR="$scratch/cache" "$scratch/venv/bin/python" -m pytest -q -p no:cacheprovider \
    tests/model tests/budget tests/policy tests/shield tests/cli/test_bad_input.py --ignore=tests/model/storm
