"""Fixtures of tunes for tests of what the commands draw of them."""

from tests.tuning.conftest import formulas, measured  # noqa: F401
