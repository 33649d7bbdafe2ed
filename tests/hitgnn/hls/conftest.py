"""Accelerators, generated and compiled once per run of the tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from a3gnn.hitgnn.hls.generate import RESULT_BYTES, Design, generate
from a3gnn.hitgnn.hls.simulation import build
from tests.hitgnn.hls.cases import Accelerator
from tests.once import made_once

OPENCL = """
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
int main() { cl_uint count = 0; return clGetPlatformIDs(0, 0, &count) || !count; }
"""


@pytest.fixture(scope="session")
def compiler() -> None:
    """Skips where nothing compiles C++."""
    if missing := [tool for tool in ("make", "g++") if shutil.which(tool) is None]:
        pytest.skip(f"needs {' and '.join(missing)}")


@pytest.fixture(scope="session")
def opencl(compiler: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where there are no OpenCL headers, loader or platform."""
    program = tmp_path_factory.mktemp("opencl") / "platforms"
    built = subprocess.run(
        ["g++", "-x", "c++", "-", "-o", str(program), "-lOpenCL"], input=OPENCL, text=True, capture_output=True
    )
    if built.returncode:
        pytest.skip("needs OpenCL's headers and loader (Debian: opencl-headers, ocl-icd-opencl-dev)")
    if subprocess.run([str(program)], check=False).returncode:
        pytest.skip("needs an OpenCL platform (Debian: pocl-opencl-icd)")


@pytest.fixture(scope="session")
def accelerator(compiler: None, tmp_path_factory: pytest.TempPathFactory) -> Accelerator:
    """Returns the folder of an accelerator whose simulation is compiled; test processes share what is compiled."""

    def make(units: int, multipliers: int, result_bytes: int = RESULT_BYTES) -> Path:
        def compiled(folder: Path) -> None:
            generate(Design(units, multipliers, result_bytes), folder)
            build(folder, "simulate")

        return made_once(tmp_path_factory, f"accelerator-{units}-{multipliers}-{result_bytes}", compiled)

    return make
