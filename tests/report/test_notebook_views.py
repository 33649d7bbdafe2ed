"""What a notebook shows of a front, and what it takes out of it."""

import csv
import io
import sys
from html.parser import HTMLParser

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import MissingDependencyError
from a3gnn.report.front import Front, MeasuredConfig, front_cells
from a3gnn.report.rows import FrontRow
from tests.report.rows import MiB, figures, objectives


@pytest.fixture
def front() -> Front:
    """A chosen row, the default with a note of what HTML marks, and one that breaks the limit."""
    measured = [
        MeasuredConfig(
            TrainConfig(), figures(throughput=1.0, host=500 * MiB, accuracy=0.88), None, "slower < faster & so"
        ),
        MeasuredConfig(
            TrainConfig(batch_size=512), figures(throughput=2.0, host=400 * MiB, accuracy=0.89, seconds=3.0), None
        ),
        MeasuredConfig(TrainConfig(batch_size=128), figures(throughput=9.0, host=900 * MiB, accuracy=None), None),
    ]
    return Front.of(measured, objectives(host_bytes=700 * MiB), chosen=TrainConfig(batch_size=512))


class Cells(HTMLParser):
    """Takes the texts of a table's cells, row by row, and each row's style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.styles: list[str | None] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
            self.styles.append(dict(attrs).get("style"))
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_notebook_shows_the_cells_of_the_table(front: Front) -> None:
    cells, shown = front_cells(front), Cells(front._repr_html_())
    assert not shown.open
    assert cells.on_front == (True, False)
    (first, *figures), other = cells.rows
    assert shown.rows == [list(cells.headings), [f"* {first}", *figures], list(other)]
    assert [row[-1] for row in shown.rows[1:]] == ["", "slower < faster & so"]
    assert len(front_cells(front, everything=True).rows) == 3


def test_rows_that_break_a_limit_are_pale() -> None:
    broken = [MeasuredConfig(TrainConfig(), figures(throughput=1.0, host=800 * MiB, accuracy=0.9), None)]
    front = Front.of(broken, objectives(host_bytes=700 * MiB))
    assert Cells(front._repr_html_()).styles == [None, "opacity:0.5"]


def test_records_have_what_the_csv_has(front: Front) -> None:
    records, rows = front.records(), list(csv.DictReader(io.StringIO(front.csv())))
    assert [{name: "" if value is None else str(value) for name, value in one.items()} for one in records] == rows
    fastest = records[0]
    assert fastest["batch_size"] == 128
    assert (fastest["val_accuracy"], fastest["feasible"], fastest["broken"]) == (None, False, "host memory +200 MiB")
    assert Front((), "peak_host_bytes", None).csv().split() == [",".join(FrontRow.columns())]


def test_a_dataframe_holds_every_row_with_its_types(front: Front) -> None:
    pandas = pytest.importorskip("pandas", reason="the extra dataframe is not installed")
    frame = front.to_dataframe()
    assert list(frame.columns) == FrontRow.columns()
    assert frame["throughput_epochs_per_s"].tolist() == [9.0, 2.0, 1.0]
    assert frame["peak_host_bytes"].dtype.kind == "i"
    assert frame["feasible"].dtype == bool
    assert pandas.isna(frame["val_accuracy"]).tolist() == [True, False, False]
    assert frame["labels"].str.contains("chosen").tolist() == [False, True, False]
    assert Front((), "peak_host_bytes", None).to_dataframe().empty


@pytest.mark.parametrize(
    ("package", "extra", "view"), [("pandas", "dataframe", Front.to_dataframe), ("matplotlib", "plot", Front.plot)]
)
def test_without_a_package_the_line_that_installs_it_is_said(front, package, extra, view, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf'needs the package .{package}.*pip install "a3gnn\[{extra}\]"'):
        view(front)


def test_the_figure_can_be_drawn(front: Front) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    figure = front.plot("a title")
    assert figure._repr_png_().startswith(b"\x89PNG")
    axes = figure.axes[0]
    assert axes.get_title() == "a title"
    assert axes.get_ylabel() == "throughput (epochs/s)"


def test_its_name_in_a_shell_is_short(front: Front) -> None:
    assert repr(front) == "Front(3 configurations, 1 of them on the front)"
