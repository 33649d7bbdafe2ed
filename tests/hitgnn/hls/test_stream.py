"""The simulation's own hls::stream: values have a cycle in which they come."""

import subprocess
from pathlib import Path

import pytest

from a3gnn.hitgnn.hls.generate import Design, generate

PROGRAM = """
#include <hls_stream.h>
#include <cstdio>
int main(int count, char**) {
    hls::stream<int> slow, quick;
    {
        simulation::Process process("writer");
        for (int i = 0; i < 3; ++i) {
            process.tick();
            quick.write(i);
            for (int wait = 0; wait < 9; ++wait) process.tick();
            slow.write(i);
        }
    }
    {
        simulation::Process process("reader");
        process.tick();
        std::printf("%d %d\\n", quick.empty(), slow.empty());
        process.tick();
        int value = quick.read();
        std::printf("%d in %llu\\n", value, process.now);
        value = slow.read();
        std::printf("%d in %llu\\n", value, process.now);
        value = slow.read();
        std::printf("%d in %llu\\n", value, process.now);
        const bool there = !quick.empty();
        value = quick.read();
        std::printf("%d %d in %llu, depth %llu\\n", there, value, process.now, quick.deepest());
        if (count > 1) slow.read(), slow.read();
    }
    const simulation::Load load = simulation::report().processes["reader"];
    std::printf("%llu %llu\\n", load.iterations, load.ends);
}
"""


@pytest.fixture(scope="module")
def program(compiler: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream")
    generate(Design(1, 1), folder / "accelerator")
    (folder / "program.cpp").write_text(PROGRAM)
    include = f"-I{folder / 'accelerator' / 'simulation'}"
    command = ["g++", "-std=c++14", include, str(folder / "program.cpp"), "-o", str(folder / "program")]
    subprocess.run(command, check=True)
    return folder / "program"


def test_what_is_not_there_yet_is_waited_for(program: Path) -> None:
    """`quick` gets its values in cycles 1, 11 and 21, `slow` in 10, 20 and 30; each can be read a cycle later."""
    run = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["1 1", "0 in 2", "0 in 11", "1 in 21", "1 1 in 21, depth 1", "2 21"]


def test_a_stream_that_nothing_is_written_to_is_an_error(program: Path) -> None:
    run = subprocess.run([str(program), "more"], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "it would wait for ever" in run.stderr
