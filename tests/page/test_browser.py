"""The page in a real browser: what a person does with it, and that its picker picks as `a3gnn pick` does."""

import json
import random
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from a3gnn.errors import InfeasibleError
from a3gnn.page.stored_study import StoredStudy
from a3gnn.page.views import study_views, write_report
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.study.folder import TuneState
from a3gnn.tuning.study.importance import Importance, keep_importance
from tests.page.test_views import no_gain

#: Pixels: of a phone, and of a screen.
NARROW, WIDE = 380, 1600
ROWS = "#trial-table tbody tr"
HERO = Path(__file__).parents[2] / "benchmarks" / "results" / "hero"


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the report of a folder without a network; whatever the browser complains of fails the test."""
    complaints: list[str] = []

    def run(folder: Path, width: int = WIDE) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, accept_downloads=True)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(write_report(folder, tmp_path / "report.html").as_uri())
        page.wait_for_selector("body[data-ready]")
        return page

    yield run
    for context in browser.contexts:
        context.close()
    assert not complaints


def shown(page: Any) -> list[str]:
    """The names of the trials in the table."""
    return page.locator(f"{ROWS} th").all_inner_texts()


def test_it_opens_offline_and_draws_every_view(open_page, finished) -> None:
    page = open_page(finished)
    assert page.title() == "nell, GraphSAGE: a3gnn study"
    assert page.locator("#status").inner_text().startswith("finished: 4 min 58 s taken, 19 trials")
    assert page.locator(".figure svg.chart").count() == 3
    assert page.locator("#timeline-figure .span").count() == 20
    assert page.locator("path.line").count() == page.locator(ROWS).count() == 20
    assert "0.94x to 1.40x" in page.locator(".gain:not(.head)").first.inner_text()
    assert not page.locator("#failures").is_visible()


@pytest.mark.parametrize("width", [NARROW, 900, WIDE])
def test_it_never_scrolls_sideways(open_page, finished, width) -> None:
    page = open_page(finished, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_answer_comes_first_with_its_ranges_and_the_changed_knobs(open_page, finished) -> None:
    page, views = open_page(finished), study_views(finished)
    gains = page.locator(".gain:not(.head)")
    assert gains.locator("b").all_inner_texts() == [one["text"] for one in views["summary"]["gains"]]
    line, span = (gains.first.locator(f".track .{name}").bounding_box() for name in ("one", "span"))
    assert span["x"] < line["x"] < span["x"] + span["width"]  # the range of one more training includes 1x
    assert page.locator(".chip").count() == len(views["summary"]["changes"]) > 3
    assert page.locator("#summary .warnings li").count() == 2
    no_gain(finished, throughput={"median": 1.1, "low": 0.9, "high": 1.3, "repeats": 4})
    page = open_page(finished)
    assert page.locator(".chip").count() == 0
    assert "the best other is workers 2" in page.locator("#summary").inner_text()
    line, span = (
        page.locator(".gain:not(.head)").first.locator(f".track .{name}").bounding_box() for name in ("one", "span")
    )
    assert span["x"] < line["x"] < span["x"] + span["width"]


def test_the_figures_of_both_stand_at_the_ends_of_each_gain(open_page, finished) -> None:
    page, summary = open_page(finished, 1440), study_views(finished)["summary"]
    table = {label: line for label, *line in summary["answer"]["table"]}
    gains = page.locator(".gain:not(.head)")
    ends = [gains.locator(f".end.{end}").all_inner_texts() for end in ("before", "after")]
    for gain, baseline, tuned in zip(summary["gains"], *ends, strict=True):
        line = next(line for label, line in table.items() if label.startswith(IN_TABLE[gain["name"]]))
        assert [baseline, tuned.removeprefix("to").strip()] == line[:2]
    rest = page.locator("#summary table.answer tbody th").all_inner_texts()
    assert rest == ["test accuracy"]  # the table leaves out what a gain shows
    ticks = page.locator(".track-key > span").all_inner_texts()
    assert ticks == ["1x", "2x"]
    line, end = (
        page.locator(".track .one").first.bounding_box(),
        page.locator(".track-key > span").first.bounding_box(),
    )
    assert end["x"] < line["x"] < end["x"] + end["width"]


#: Labels of the summary's table, by the name of the gain.
IN_TABLE = {"time": "time to", "throughput": "epochs per", "memory": "peak memory", "accuracy": "validation"}


def test_a_gain_whose_range_includes_none_is_gray(open_page, finished) -> None:
    page, gains = open_page(finished), study_views(finished)["summary"]["gains"]
    tones = page.locator(".gain:not(.head)").evaluate_all("(all) => all.map((one) => one.className)")
    assert [one["name"] for one in gains if one["low"] is not None and one["low"] <= 1 <= one["high"]]
    for gain, tone in zip(gains, tones, strict=True):
        includes = gain["low"] is not None and gain["low"] <= (gain["unit"] == "x") <= gain["high"]
        assert tone == f"gain {'unclear' if includes else gain['verdict']}", gain


def test_the_axis_of_accuracy_ends_at_100_percent(open_page, finished) -> None:
    path = finished / "probes.jsonl"
    trials = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for trial in trials:
        curve = trial["measurement"]["metrics"].get("curve")
        if curve:
            curve["val_accuracy"] = [value / max(curve["val_accuracy"]) for value in curve["val_accuracy"]]
    path.write_text("".join(json.dumps(trial) + "\n" for trial in trials), encoding="utf-8")
    page = open_page(finished)
    for _ in range(2):
        ticks = [float(one) for one in page.locator("#curves-figure text.tick.end").all_text_contents()]
        assert 100 >= max(ticks) > 90
        top = page.locator("#curves-figure svg.chart").evaluate(
            "(svg) => Math.min(...[...svg.querySelectorAll('line.grid')].map((one) => one.getBBox().y))"
        )
        assert top < 40  # the tick of 100 is at the top: nothing is drawn above it
        page.locator("#curves-whole").check()


def test_the_changed_knobs_come_first_and_fit(open_page, finished) -> None:
    page, views = open_page(finished, 1440), study_views(finished)
    names = [one["name"].replace("_", " ") for one in views["summary"]["changes"]]
    assert 0 < len(names) < sum(knob["differs"] for knob in views["knobs"])

    def axes() -> list[str]:
        of = "(all) => all.map((one) => [...one.querySelectorAll('.name')].map((line) => line.textContent).join(' '))"
        return page.locator(".axis").evaluate_all(of)

    shown_first = axes()
    assert shown_first[: len(names)] == names
    assert len(shown_first) == len(names) + 4  # and the figures
    figure = page.locator("#parallel-figure")
    assert figure.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    assert page.locator("#knobs-hint").inner_text() == ""
    for which, count in (("tried", sum(knob["differs"] for knob in views["knobs"])), ("all", len(views["knobs"]))):
        page.select_option("#knobs-shown", which)
        assert axes()[: len(names)] == names
        assert len(axes()) == count + 4
    assert "scroll sideways" in page.locator("#knobs-hint").inner_text()


def test_timeline_and_regret_are_folded_and_open_at_full_width(open_page, finished) -> None:
    page = open_page(finished, 1440)
    for name, drawn in (("timeline", "#timeline-figure svg"), ("regret", "#regret-figure svg.chart")):
        assert not page.locator(drawn).is_visible()
        page.locator(f"#views-links [href='#{name}']").click()
        page.locator(drawn).wait_for()
        assert page.locator(drawn).bounding_box()["width"] > 1300
    figure = page.locator("#timeline-figure")
    assert figure.evaluate("(one) => one.scrollHeight <= one.clientHeight")  # every trial, without a scroll bar


def test_a_trial_that_was_stopped_as_too_late_broke_no_limit(open_page) -> None:
    page, views = open_page(HERO), study_views(HERO)
    late = [row for row in views["rows"] if not row["feasible"] and row["curve"]["ended"] == "slower"]
    assert late
    assert {tuple(row["broken"]) for row in late} == {("stopped: too late",)}
    page.locator("#views-links [href='#timeline']").click()
    assert "stopped: too late" in page.locator("#timeline-key").inner_text()
    page.select_option("#trial-kind", "broken")
    assert page.locator(ROWS, has_text="stopped: too late").count() == len(late)


def test_warnings_say_how_to_continue(open_page, finished) -> None:
    folder = shlex.quote(str(finished))
    command = open_page(finished).locator("#summary code").inner_text()
    assert command == f"--out {folder} --resume --budget 10min"  # twice the tune's


def test_a_tune_without_a_choice_says_why(open_page, running) -> None:
    problem = "no configuration keeps every limit: 12 measured, 0 failed. The smallest limit that would do is 1 GiB"
    TuneState(34.0, problem=problem).write(running)
    page = open_page(running)
    assert page.locator("#status").inner_text().startswith("ended without a choice: 34 s taken, ")
    assert page.locator("#summary .problem").inner_text() == f"N{problem[1:]}"
    TuneState(34.0).write(running)
    assert open_page(running).locator("#summary .problem").count() == 0


def test_knobs_are_ranked_by_their_importance(open_page, finished) -> None:
    assert not open_page(finished).locator("#importance").is_visible()  # a tune of an older version
    knobs = ("batch_size", "seed_fanout", "num_workers")
    keep_importance(finished, Importance(knobs, (0.1, 1.0, 0.0), (0.5, 0.2, 0.0), (0.0, 1.5, 0.001), (0.99,) * 3, 20))
    speed, memory, quality = open_page(finished).locator(".ranks").all()
    assert speed.locator("li").all_inner_texts() == ["seed fanout\n2x", "batch size\n1.07x"]
    assert memory.locator(".name").all_inner_texts() == ["batch size", "seed fanout"]
    assert quality.locator("li").all_inner_texts() == ["seed fanout\n1.5 points"]
    keep_importance(finished, Importance(("batch_size", "num_workers"), *((0.5, 0.2),) * 3, (0.99,) * 3, 20))
    changed = {one["name"].replace("_", " ") for one in study_views(finished)["summary"]["changes"]}
    assert "num workers" in changed
    assert "batch size" not in changed
    page = open_page(finished)
    assert page.locator(".ranks li.changed .name").all_inner_texts() == ["num workers"] * 3
    assert "either way" in page.locator("#importance-heading").inner_text()


def test_a_chart_zooms_hides_series_and_tells_of_its_points(open_page, finished) -> None:
    page = open_page(finished)
    front = page.locator("#front-figure")
    box = front.locator("svg.chart").bounding_box()
    page.get_by_role("button", name="compared (16)").press("Enter")
    assert page.get_by_role("button", name="compared (16)").get_attribute("aria-pressed") == "false"
    page.get_by_role("button", name="compared (16)").press("Enter")
    ticks = front.locator("text.tick").all_text_contents()
    front.scroll_into_view_if_needed()
    box = front.locator("svg.chart").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 200, steps=4)
    page.mouse.up()
    assert front.locator("text.tick").all_text_contents() != ticks
    front.get_by_role("button", name="Reset zoom").press("Enter")
    assert front.locator("text.tick").all_text_contents() == ticks
    mark = front.locator("g[clip-path] path[transform]").nth(4).bounding_box()
    page.mouse.move(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
    assert "epochs/s" in front.locator(".tip").inner_text()
    page.mouse.click(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
    assert page.locator("#selected-words").inner_text().startswith("Selected: ")


def test_the_picker_follows_its_inputs_and_gives_command_and_file(open_page, finished) -> None:
    page, views = open_page(finished), study_views(finished)
    own, words = page.locator("#pick-words"), lambda: page.locator("#pick-words").inner_text()
    assert own.get_attribute("aria-live") == "polite"
    assert words().startswith(f"{views['rows'][views['best']]['name']}, the tune's own choice:")
    assert page.locator("#pick-command").inner_text() == f"a3gnn pick {shlex.quote(str(finished))}"
    assert downloaded(page) == TunedConfig.read(finished)
    page.select_option("#pick-priority", "memory")
    least = min((row for row in views["rows"] if row["feasible"]), key=lambda row: row["figures"]["peak_host_bytes"])
    assert words().startswith(f"{least['name']}:")
    assert page.locator("#pick-command").inner_text() == f"a3gnn pick {shlex.quote(str(finished))} --priority memory"
    page.fill("#pick-memory", "100")
    assert words() == "None of the 20 measured configurations keeps these limits."
    assert page.locator("#pick-download").is_disabled()
    page.click("#pick-reset")
    assert "the tune's own choice" in words()


def downloaded(page: Any) -> TunedConfig:
    with page.expect_download() as started:
        page.click("#pick-download")
    return TunedConfig.read(Path(started.value.path()))


def test_the_file_of_another_pick_is_what_a3gnn_pick_writes(open_page, finished) -> None:
    page = open_page(finished)
    page.select_option("#pick-priority", "time")
    page.fill("#pick-drop", "2")
    page.fill("#pick-memory", "")
    command = page.locator("#pick-command").inner_text()
    assert command.endswith("--priority time --max-memory none --max-accuracy-drop 2")
    expected = pick(finished, priority="time", memory_limit="none", max_accuracy_drop=2.0).tuned
    assert downloaded(page) == expected


@pytest.mark.parametrize("folder", ["finished", pytest.param("running", marks=pytest.mark.weekly)])
def test_it_picks_as_the_product_does(open_page, folder, request) -> None:
    folder = request.getfixturevalue(folder)
    page, chance = open_page(folder), random.Random(0)
    law = study_views(folder)["law"]
    sizes = sorted(one["peak_host_bytes"] for one in law["candidates"])
    asked = []
    for _ in range(60):
        name = chance.choice(["time", "throughput", "memory", "accuracy", "balanced", "weights"])
        weights = [chance.choice([0, 1, 5, 20, 50]) for _ in range(3)]
        if name == "weights" and not sum(weights):
            weights[0] = 1
        memory = chance.choice(["own", None, chance.randint(sizes[0] - 10, sizes[-1] + 10)])
        asked.append((name, weights, memory, chance.choice([None, None, 0.0, 0.25, 1.0, 3.0, 40.0])))
    found = page.evaluate(_PICKS, [list(one) for one in asked])
    picked = [_product_picks(folder, *one) for one in asked]
    rows = study_views(folder)["rows"]
    assert [None if index is None else rows[index]["config"] for index in found] == picked
    assert len({json.dumps(one) for one in picked}) > 5  # the questions tell configurations apart


#: What the page picks: the questions go through its own inputs' values.
_PICKS = """(questions) => questions.map(([name, weights, memory, drop]) => {
  const { law, objectives } = window.a3gnn.views();
  const sum = weights[0] + weights[1] + weights[2];
  const own = { throughput: weights[0] / sum, memory: weights[1] / sum, accuracy: weights[2] / sum, time: false };
  const priority = name === "weights" ? own : objectives.presets[name];
  const least = drop === null ? law.least : law.reference_quality - drop / 100;
  const { candidate } = window.a3gnn.pick(law, { priority, memory, least });
  return candidate ? candidate.index : null;
})"""


def _product_picks(folder: Path, name: str, weights: list[int], memory: Any, drop: float | None) -> Any:
    asked: dict[str, Any] = {"priority": ",".join(map(str, weights)) if name == "weights" else name}
    if memory != "own":
        asked["memory_limit"] = "none" if memory is None else memory
    try:
        return pick(folder, max_accuracy_drop=drop, **asked).config.to_dict()
    except InfeasibleError:
        return None


def test_the_table_filters_and_sorts(open_page, finished) -> None:
    page, views = open_page(finished), study_views(finished)
    page.fill("#trial-words-filter", "mode2")
    assert shown(page) == [row["name"] for row in views["rows"] if "mode2" in row["describe"]]
    assert page.locator("#trial-words").inner_text() == f"{len(shown(page))} of 20 trials"
    page.fill("#trial-words-filter", "")
    page.select_option("#trial-kind", "front")
    assert set(shown(page)) == {row["name"] for row in views["rows"] if row["on_front"]}
    page.select_option("#trial-kind", "all")
    page.get_by_role("button", name="host memory").click()
    sizes = [views["rows"][_index(name)]["figures"]["peak_host_bytes"] for name in shown(page)]
    assert sizes == sorted(sizes, reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text() == "host memory ▼"
    page.keyboard.press("Enter")  # the heading kept the focus
    assert page.locator("th[aria-sort=ascending]").inner_text() == "host memory ▲"


def _index(name: str) -> int:
    return 0 if name == "baseline" else int(name.removeprefix("trial "))


def test_brushes_and_boxes_leave_what_they_keep(open_page, finished) -> None:
    page, views = open_page(finished), study_views(finished)
    names = {row["name"] for row in views["rows"] if row["config"]["feature_tier"] == "disk"}
    page.get_by_text("Filter by value").click()
    page.get_by_role("group", name="feature_tier").get_by_label("ram").focus()
    page.keyboard.press("Space")
    assert set(shown(page)) == names
    page.click("#clear-brushes")
    assert len(shown(page)) == 20
    knob = next(knob for knob in views["knobs"] if knob["name"] == "batch_size")
    page.select_option("#knobs-shown", "tried")
    axis = page.locator(".axis", has=page.locator(".name", has_text=re.compile("^batch$"))).locator(".handle")
    axis.scroll_into_view_if_needed()
    box = axis.bounding_box()
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"])
    page.mouse.down()
    page.mouse.move(middle, box["y"] + 30)
    page.mouse.up()
    assert set(shown(page)) == {
        row["name"] for row in views["rows"] if row["config"]["batch_size"] == knob["values"][-1]
    }


def test_a_selected_trial_is_the_same_in_all_views(open_page, finished) -> None:
    page = open_page(finished)
    page.get_by_role("button", name="trial 3", exact=True).press("Enter")
    assert page.locator("#selected-words").inner_text().startswith("Selected: trial 3, batch")
    assert page.locator("tr.selected th").inner_text() == "trial 3"
    assert "selected (trial 3)" in page.locator("#curves-figure").inner_text()
    assert "selected (trial 3)" in page.locator("#step-words").inner_text()


def test_what_a_study_holds_is_text_not_html(open_page, failed) -> None:
    page = open_page(failed)
    assert page.locator("#failures").is_visible()
    page.locator("#failure-list summary").click()
    assert "</script><b>passed the limit" in page.locator("#failure-list pre").inner_text()
    page.select_option("#trial-kind", "failed")
    assert shown(page) == ["trial 4"]


def test_every_input_has_a_name_and_headings_come_in_order(open_page, finished) -> None:
    page = open_page(finished)
    nameless = "[...document.querySelectorAll('input,select')].filter((e) => !e.labels.length && !e.ariaLabel).length"
    assert page.evaluate(nameless) == 0
    assert all(text.strip() for text in page.locator("button:visible").all_inner_texts())
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((e) => Number(e.tagName[1]))")
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert 1 not in levels[1:]


def test_before_the_first_trial_it_says_so(open_page, running) -> None:
    (running / "probes.jsonl").write_text("", encoding="utf-8")
    page = open_page(running)
    assert "No trial is done yet." in page.locator("#summary").inner_text()
    assert not page.locator("#trial-table").is_visible()


def test_where_every_trial_failed_it_says_why(open_page, failed) -> None:
    lines = (failed / "probes.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for name in ("tuned.json", "front.json", "state.json"):
        (failed / name).unlink()
    (failed / "probes.jsonl").write_text(lines[4], encoding="utf-8")
    page = open_page(failed, NARROW)
    assert "No measured configuration keeps the limits yet." in page.locator("#summary").inner_text()
    assert page.locator("#pick-words").inner_text() == "None of the 0 measured configurations keeps these limits."
    assert "out of memory" in page.locator("#failures").inner_text()


def test_weights_of_the_studys_own_are_asked_as_they_are(open_page, running) -> None:
    request = json.loads((running / "request.json").read_text(encoding="utf-8"))
    request["priority"] = {"throughput": 0.6123, "memory": 0.2877, "accuracy": 0.1, "time": False}
    (running / "request.json").write_text(json.dumps(request), encoding="utf-8")
    page = open_page(running)
    assert page.locator("#pick-priority").input_value() == "weights"
    assert page.locator("#pick-command").inner_text() == f"a3gnn pick {shlex.quote(str(running))}"
    assert downloaded(page).config == pick(running).config
    page.fill("#weight-memory", "90")
    assert page.locator("#pick-command").inner_text() == f"a3gnn pick {shlex.quote(str(running))} --priority 61,90,10"
    assert downloaded(page).config == pick(running, priority="61,90,10").config


def test_the_seconds_of_a_file_are_those_at_the_median_throughput(open_page, finished) -> None:
    """A trial of two uneven replicates, of which the median of the seconds is another number."""
    path = finished / "probes.jsonl"
    trials = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for trial in trials:
        metrics = trial["measurement"].get("metrics", {})
        if metrics:
            speed = metrics["throughput_epochs_per_s"]
            metrics["throughput_replicates"] = [0.5 * speed, 1.5 * speed]
    path.write_text("".join(json.dumps(trial) + "\n" for trial in trials), encoding="utf-8")
    page = open_page(finished)
    page.select_option("#pick-priority", "memory")
    page.fill("#pick-drop", "2")
    expected = pick(finished, priority="memory", max_accuracy_drop=2.0).tuned
    assert not StoredStudy.read(finished).measured.tune.played_off.get(expected.config.key())
    found = downloaded(page).seconds_to_accuracy
    assert found == pytest.approx(expected.seconds_to_accuracy)
