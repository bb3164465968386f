"""The example notebooks run from top to bottom, and are stored with their outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DOCS = EXAMPLES.parent / "docs"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_there_are_at_least_two():
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_with_outputs_and_is_a_page(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert any(cell.outputs for cell in code), "run: python scripts/notebooks.py"
    assert [out for cell in code for out in cell.outputs if out.output_type == "error"] == []
    text = (DOCS / "notebooks" / f"{path.stem}.md").read_text("utf-8")
    sources = [cell.source.replace("](../docs/", "](../").replace(".ipynb)", ".md)") for cell in notebook.cells]
    assert [source for source in sources if source not in text] == [], "run: python scripts/notebooks.py"
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# Jupyter's own modules warn about each other, and about sockets that a kernel does not close.
@pytest.mark.filterwarnings("default::DeprecationWarning:(jupyter_client|nbclient|zmq|ipykernel|tornado|traitlets).*")
@pytest.mark.filterwarnings("ignore:.*unclosed.*:ResourceWarning")
def test_it_runs(path, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)  # Jupyter's own modules fail if warnings are errors
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert sum("text/html" in out.get("data", {}) for out in outputs) >= 3, "models and results are shown as cards"
    assert [out.text for out in outputs if out.get("name") == "stderr"] == []
