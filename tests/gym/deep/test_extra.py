"""Without the extra ``deep``: the error, and that nothing else imports PyTorch."""

import subprocess
import sys


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_without_the_extra_the_error_has_the_command_that_installs_it():
    done = run("import sys; sys.modules['sb3_contrib'] = None; import almostsure.gym.deep")
    assert done.returncode == 1
    assert (
        "MissingExtra: this needs sb3-contrib, which is not installed. Run: pip install 'almostsure[deep]'"
        in done.stderr
    )


def test_nothing_else_imports_torch():
    done = run("import almostsure.gym, sys; assert 'torch' not in sys.modules and 'sb3_contrib' not in sys.modules")
    assert done.returncode == 0, done.stderr
