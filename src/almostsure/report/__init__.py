"""One HTML file that shows what a budget means on a model: :func:`write_report`."""

from almostsure.report.write import write_report

__all__ = ["write_report"]
