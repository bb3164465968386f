"""Fixtures of the tests of UMB files."""

from __future__ import annotations

from pathlib import Path

import pytest

from almostsure.model.umb import archive


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.umb"


@pytest.fixture(params=["at once", "array by array"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How files are read: small ones at once, large ones array by array."""
    if request.param == "array by array":
        monkeypatch.setattr(archive, "SMALL", 0)
