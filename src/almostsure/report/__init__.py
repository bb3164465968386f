"""Reports about a model and a budget, as single HTML files: :func:`write_report`."""

from almostsure.report.write import write_report

__all__ = ["write_report"]
