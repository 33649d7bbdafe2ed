"""`ShownFigure`: a figure that a notebook shows. Import it only to draw, because it imports matplotlib."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure that a notebook shows at the end of a cell, whether or not pyplot was set up for that."""

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png")
        return drawn.getvalue()
