"""What texts that leave a server call its files."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.service.jobs.home import Places

PLACES = Places(("/srv/graphs", "/srv/graphs/a3gnn", "/mnt/data (2)", "/graphs"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/graphs/mine.npz must have an x", "mine.npz must have an x"),
        ("can't open '/srv/graphs/a3gnn/studies/3/run/probes.jsonl'", "can't open 'studies/3/run/probes.jsonl'"),
        ("can't use the folder /srv/graphs; choose", "can't use the folder .; choose"),
        ("sqlite:////srv/graphs/service.sqlite", "sqlite:///service.sqlite"),
        ("at /mnt/data (2)/x and (/mnt/data (2)/y)", "at x and (y)"),
        ("Traceback\n/srv/graphs/a\t/srv/graphs/b", "Traceback\na\tb"),
        ("/srv/graphs//x", "x"),
        ("/srv/graphs-old/x and /srv/graphs.npz", "/srv/graphs-old/x and /srv/graphs.npz"),
        ("elsewhere/srv/graphs/x", "elsewhere/srv/graphs/x"),
        ("see /srv/graphs.", "see .."),
        ("it is in '/srv/graphs.'; or in /srv/graphs... so", "it is in '..'; or in .... so"),
        ("/srv/graphs.d/x, /srv/graphs..d and /srv/graphs./x", "/srv/graphs.d/x, /srv/graphs..d and /srv/graphs./x"),
        (repr("no file:\n/srv/graphs/a\t/srv/graphs\r/srv/graphs/b"), repr("no file:\na\t.\rb")),
        ("voilà/srv/graphs/x", "voilàx"),
        ("/graphs/x below /graphs; GET /graphs lists them", "x below .; GET /graphs lists them"),
        ("GET /graphs/3, and DELETE /graphs. GET /srv/graphs/x", "GET /graphs/3, and DELETE /graphs. GET x"),
        ("GET /studies/3 lists them; 5 epochs/s", "GET /studies/3 lists them; 5 epochs/s"),
        (f'File "{pytest.__file__}", line 3', 'File "pytest/__init__.py", line 3'),
        (f"{sys.prefix}/bin/x: {json.__file__}", "bin/x: json/__init__.py"),
    ],
)
def test_files_are_called_by_their_place_below_a_folder(text: str, shown: str) -> None:
    assert PLACES.shown(text) == shown


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["/srv/graphs/x", "x /srv/graphs", "x"]),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "b", "/srv/graphs/c"]), inner),
    )
)
def test_no_text_in_json_keeps_a_folder(value: object) -> None:
    shown = PLACES.shown_in(value)
    assert "/srv/graphs" not in json.dumps(shown)
    assert json.dumps(shown) == json.dumps(value).replace("/srv/graphs/", "").replace("/srv/graphs", ".")


def test_a_link_and_what_it_leads_to_are_both_known(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    places = Places((tmp_path / "link",))
    assert places.shown(f"{tmp_path}/link/x {tmp_path}/real/y") == "x y"
    assert Places(places.folders).shown(f"{tmp_path}/real/y") == "y"
