"""Fixtures of tunes for tests of what the commands draw and tell of them."""

from tests.page.conftest import finished, running  # noqa: F401
from tests.tuning.conftest import formulas, measured, quick_tune  # noqa: F401
