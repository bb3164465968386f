"""Draw the paper's experiments and write the table of claims into docs/paper.md.

python docs/pictures/paper/draw.py
"""

from pathlib import Path

from almostsure import paper
from almostsure.paper.figures import experiment_figure, saved

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "paper.md"
BEGIN, END = "<!-- claims: written by docs/pictures/paper/draw.py -->\n", "<!-- end of the claims -->"
PICTURES = {"damage-per-episode.png": 1, "return-per-episode.png": 2}


def picture(name: str) -> bytes:
    return saved(experiment_figure(paper.experiment(PICTURES[name])), "png")


def row(claim: paper.Claim) -> str:
    cells = (f"**{claim.name}**: {claim.title}", claim.value, claim.verdict, claim.comment)
    return (
        "| "
        + " | ".join(cell.replace("|", "\\|").replace("k*", "k\\*").replace("B*", "B\\*") for cell in cells)
        + " |\n"
    )


def table(claims: list[paper.Claim]) -> str:
    head = "| the paper's claim | our value | verdict | comment |\n| --- | --- | --- | --- |\n"
    return head + "".join(map(row, claims))


def main() -> None:
    for name in PICTURES:
        (FOLDER / name).write_bytes(picture(name))
    text = PAGE.read_text("utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    written = table([check() for check in paper.CLAIMS])
    PAGE.write_text(f"{before}{BEGIN}\n{written}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
