"""`write_report`: a study as one HTML file that can be mailed."""

from __future__ import annotations

from pathlib import Path

from a3gnn.page.html import study_html
from a3gnn.page.views import study_views
from a3gnn.storage.atomic import write_text


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Writes the study in `folder` to the HTML file `out`, whole or not at all, and returns its path.

    Args:
        folder: The --out folder of a tune, finished or not.
        out: The file, which is replaced if it exists; report.html in `folder` by default.

    Raises:
        UsageError: No tune was started in `folder`.
        ConfigError: The tune's files are not from this version.
        MissingDependencyError: Plotly is not installed.
    """
    file = Path(folder) / "report.html" if out is None else Path(out)
    page = study_html(study_views(Path(folder)))
    write_text(file, page)
    return file
