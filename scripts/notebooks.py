"""Run the notebooks of examples/, store their outputs in them, and write them as pages of the documentation.

python scripts/notebooks.py
"""

from __future__ import annotations

import base64
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "notebooks"


def run(path: Path) -> nbformat.NotebookNode:
    """Run a notebook, and store it with its outputs, without metadata that changes from run to run."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(ROOT / "out")}}).execute()
    for cell in notebook.cells:
        cell.metadata = {}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    nbformat.write(notebook, path)
    return notebook


def as_page(source: str) -> str:
    """Adapt links from examples/ to docs/notebooks/."""
    return source.replace("](../docs/", "](../").replace(".ipynb)", ".md)")


def page(notebook: nbformat.NotebookNode, name: str) -> str:
    """The notebook as Markdown; writes its pictures next to the page."""
    parts, pictures = [], 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(as_page(cell.source))
            continue
        parts.append(f"```py\n{cell.source}\n```")
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                pictures += 1
                picture = PAGES / f"{name}-{pictures}.png"
                picture.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![What the cell above draws]({picture.name})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]).replace("\n", " "))
            else:
                text = "".join(output.get("text") or data.get("text/plain", ""))
                parts.append(f"```text\n{text.rstrip()}\n```")
    origin = f"\n\n*This page is the notebook `examples/{name}.ipynb`, as it was last run.*\n"
    return "\n\n".join(parts) + origin


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    (ROOT / "out").mkdir(exist_ok=True)
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        (PAGES / f"{path.stem}.md").write_text(page(run(path), path.stem), "utf-8")
