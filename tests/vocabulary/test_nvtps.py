import numpy as np
import pytest

from a3gnn.nvtps import nvtps, nvtps_per_gb_per_s


def test_vertices_per_second() -> None:
    assert nvtps(600, 2.0) == 300
    assert nvtps(600, np.array([2.0, 3.0])).tolist() == [300, 200]


@pytest.mark.parametrize(("traversed", "bandwidth", "efficiency"), [(32.5e6, 513e9, 63.4e3), (15.6e6, 3277e9, 4.76e3)])
def test_bandwidth_efficiency_of_table_6(traversed: float, bandwidth: float, efficiency: float) -> None:
    """DistDGL, GCN on Reddit: four U250 and four A5000, each with the host."""
    assert nvtps_per_gb_per_s(traversed, bandwidth) == pytest.approx(efficiency, rel=2e-3)
