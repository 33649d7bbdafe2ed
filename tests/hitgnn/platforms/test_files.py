"""Platforms from files: those that ship, people's own, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from a3gnn.errors import UsageError
from a3gnn.hitgnn.platforms.metadata import Fpga, Processor, names, read_platform

OWN = """
source = "measured"
num_devices = 2
link_bytes_per_s = 12e9
host = "epyc-7763"

[device]
kind = "fpga"
name = "mine"
source = "data sheet"
frequency_hz = 200e6
kernels = "hitgnn"

[[device.dies]]
count = 2
dsps = 1000
luts = 200_000
memory_bytes_per_s = 10e9

[[device.dies]]
dsps = 500
luts = 90_000
memory_bytes_per_s = 5e9
"""


def write(folder: Path, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", names("platforms"))
def test_what_ships_is_valid(name: str) -> None:
    platform = read_platform(name)
    assert platform.num_devices == 4
    assert platform.source
    assert platform.device.source


def test_the_bandwidths_by_which_table_6_divides() -> None:
    assert read_platform("u250").memory_bytes_per_s == 513e9
    assert read_platform("a5000").memory_bytes_per_s == 3277e9


def test_the_u250_has_four_dies() -> None:
    device = read_platform("u250").device
    assert isinstance(device, Fpga)
    assert [die.dsps for die in device.dies] == [3072] * 4


def test_a_platform_of_ones_own(tmp_path: Path) -> None:
    platform = read_platform(write(tmp_path, OWN))
    assert isinstance(platform.device, Fpga)
    assert isinstance(platform.host, Processor)
    assert [die.dsps for die in platform.device.dies] == [1000, 1000, 500]
    assert platform.device.memory_bytes_per_s == 25e9
    assert platform.device.kernels.source.startswith("fitted to Table V")


def test_kernels_of_ones_own(tmp_path: Path) -> None:
    table = 'kernels = { source = "mine", lanes = 8, dsps_per_multiplier = 3, dsps_per_unit = 40, luts = [[1, 2, 3]] }'
    platform = read_platform(write(tmp_path, OWN.replace('kernels = "hitgnn"', table)))
    assert isinstance(platform.device, Fpga)
    assert platform.device.kernels.lanes == 8


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("dsps = 1000", "dps = 1000", r"own.toml: device: dies\[0\]: a field of Die .* did you mean 'dsps'"),
        ("dsps = 1000\n", "", r"dies\[0\]: Die must have a field 'dsps'"),
        ("dsps = 500", "dsps = 0", r"dies\[1\]: dsps must be an integer >= 1, got 0"),
        ("dsps = 500", "dsps = 5.5", r"dies\[1\]: dsps must be an integer >= 1, got 5.5"),
        ("count = 2", "count = 0", r"dies\[0\]: count must be an integer >= 1, got 0"),
        ("count = 2", "count = 1000000000000", r"dies\[0\]: count must be at most 64, got 1,000,000,000,000"),
        ('name = "mine"', 'name = ["a"]', r"device: name must be text, got \('a',\)"),
        ('source = "data sheet"', "source = 5", "device: source must be text, got 5"),
        ('source = "measured"', "source = 5", "own.toml: source must be text, got 5"),
        ("12e9", "-1", "link_bytes_per_s must be positive"),
        ("12e9", '"fast"', "link_bytes_per_s must be positive"),
        ("num_devices = 2", "num_devices = 0", "num_devices must be an integer >= 1"),
        (
            'kind = "fpga"',
            'kind = "fgpa"',
            "device: kind must be one of fpga, gpu, got 'fgpa'; did you mean 'fpga'",
        ),
        ('kind = "fpga"\n', "", "device: kind must be one of"),
        ('kernels = "hitgnn"', 'kernels = "hitgn"', "kernels: a name must be one of hitgnn, .* give a table"),
        ('kernels = "hitgnn"', "kernels = { lanes = 8 }", "kernels: Kernels must have a field 'source'"),
        ('host = "epyc-7763"', 'host = "u250"', "host: kind must be one of cpu, got 'fpga'"),
        ('host = "epyc-7763"', 'host = "a5000"', "host: kind must be one of cpu, got 'gpu'"),
        ('host = "epyc-7763"', "host = 3", "host: a name must be one of"),
        ('host = "epyc-7763"\n', "", "Platform must have a field 'host'"),
        ("[[device.dies]]", "[device.dies]", "must be TOML"),
        ('source = "measured"', 'sources = "measured"', "did you mean 'source'"),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in OWN
    with pytest.raises(UsageError, match=words):
        read_platform(write(tmp_path, OWN.replace(old, new, 1)))


@pytest.mark.parametrize("luts", ["[]", "[[1, 2]]", "[[1, 2, -3]]", '[["a", 2, 3]]', "7"])
def test_luts_must_be_triples(luts: str, tmp_path: Path) -> None:
    table = f'kernels = {{ source = "", lanes = 8, dsps_per_multiplier = 3, dsps_per_unit = 40, luts = {luts} }}'
    with pytest.raises(UsageError, match="kernels: luts must be a list of one or more triples"):
        read_platform(write(tmp_path, OWN.replace('kernels = "hitgnn"', table)))


def test_an_unknown_platform_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'u250'.*ends in .toml"):
        read_platform("u25")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"nowhere.toml: the file can't be read"):
        read_platform("nowhere.toml")
