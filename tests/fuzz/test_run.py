"""``make fuzz``, for a few seconds: it counts, resumes where it stopped, and finds errors."""

import json
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).with_name("run.py")
# The command, with an error in the package.
BROKEN = """
import runpy, sys
from almostsure import Shield
right = Shield.choices
Shield.choices = lambda shield, remaining: right(shield, remaining + 1)  # one too many
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def fuzz(state, *arguments, start=()):
    command = [sys.executable, *start, str(RUN), "--seed", "5", "--state", str(state), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_counts_and_resumes_where_it_stopped(tmp_path):
    state = tmp_path / "fuzz.json"
    state.write_text(json.dumps({"seed": 5, "batches": 3, "seconds": 9.0, "counted": {"models": 6000, "steps": 10}}))
    done = fuzz(state, "--models", "8000", "--steps", "1e5")
    assert done.returncode == 0, done.stderr
    assert "seed 5, 3 batches are done" in done.stdout
    assert "0 differences, 0 violations" in done.stdout
    kept = json.loads(state.read_text())
    assert kept["batches"] == 4
    assert kept["counted"]["models"] == 8000
    assert kept["counted"]["steps"] >= 1e5


def test_it_finds_errors(tmp_path):
    done = fuzz(tmp_path / "fuzz.json", "--models", "2000", "--steps", "1e5", start=("-c", BROKEN))
    assert done.returncode == 1
    assert "A DIFFERENCE: seed 5, batch 0" in done.stdout
