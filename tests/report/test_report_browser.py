"""`lab report` in headless Chromium: what a reader does with the page."""

import io
import json
import re
import threading
from pathlib import Path

import pytest
from chromium import DESKTOP, PHONE, started_chromium
from labrig.record.write.begin import begin_attempt
from PIL import Image
from playwright.sync_api import expect
from projects import ROOT
from record_package import call, create, make_project
from report_runs import MARKUP, make_runs, settled

pytestmark = pytest.mark.slow  # .ci/run installs the browser
# Where a picture of the page has colours of its curves
N_COLOURED = """canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let n = 0;
  for (let k = 0; k < data.length; k += 4) {
    const [r, g, b, a] = data.subarray(k, k + 4);
    if (a > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 80) n += 1;
  }
  return n;
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    project = make_runs(tmp_path_factory.mktemp("browser") / "myproj")
    call(project, "report")
    return project.root / "runs/report.html"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A page with 70 runs."""
    project = make_runs(tmp_path_factory.mktemp("many") / "myproj")
    for seed in range(62):
        settled(project, seed=seed, trial="wide", metrics={"val/loss": 1.0 + seed})
    call(project, "report")
    return project.root / "runs/report.html"


@pytest.fixture(scope="module")
def browser():
    with started_chromium() as browser:
        yield browser


@pytest.fixture
def open_page(browser, file, tmp_path):
    """open_page(viewport, hash=""): the page, which must ask for nothing else and complain of nothing."""
    complaints = []
    contexts = []

    def opened(viewport=DESKTOP, state="", **options):
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on(
            "request", lambda request: is_elsewhere(request.url) and complaints.append(request.url)
        )
        page.goto(file.as_uri() + state)
        expect(page.locator("#runs tbody tr[data-run]")).to_have_count(8)
        return page

    def is_elsewhere(url):
        return not url.startswith(("data:", file.as_uri()))

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def values(page, key):
    """The texts of a column of the table, from top to bottom."""
    keys = page.locator("#runs thead th").evaluate_all(
        "cells => cells.map(cell => cell.dataset.key)"
    )
    rows = page.locator("#runs tbody tr[data-run]")
    return rows.evaluate_all(f"rows => rows.map(row => row.cells[{keys.index(key)}].textContent)")


def read_legend(legend):
    """The values under the pointer: of the axis, then of each curve."""
    expect(legend.locator(".u-value").first).not_to_have_text("--")
    return legend.locator(".u-value").all_inner_texts()


def section(page, name):
    part = page.locator(f"section#{name}")
    part.scroll_into_view_if_needed()
    return part


def test_table_sorts_filters_and_chooses_columns(open_page):
    page = open_page()
    head = page.locator('#runs th[data-key="val/loss"] button')
    head.click()
    ascending = values(page, "val/loss")
    assert ascending == sorted(ascending, key=float)
    head.click()
    assert values(page, "val/loss") == ascending[::-1]
    page.fill("#filter", "optimizer.lr=0.1 val/loss<0.115 finished")
    expect(page.locator("#count")).to_have_text("2 of 8 runs")
    assert values(page, "val/loss") == ["0.11", "0.1"]
    page.reload()  # what was chosen stays
    expect(page.locator("#count")).to_have_text("2 of 8 runs")
    page.locator("#runs summary").click()
    page.get_by_label("host", exact=True).check()
    assert len(set(values(page, "host"))) == 1
    page.fill("#filter", f"trial={MARKUP.replace('/', '+')}")
    expect(page.locator("#count")).to_have_text("1 of 8 runs")


def test_curves_are_drawn_smoothed_and_read_with_the_pointer(open_page):
    page = open_page()
    curves = section(page, "curves")
    canvas = curves.locator("canvas")
    expect(canvas).to_have_count(2)
    assert canvas.first.evaluate(N_COLOURED) > 300
    curves.locator(".u-over").nth(1).hover(position={"x": 200, "y": 100})
    shown = read_legend(curves.locator(".u-legend").nth(1))
    assert len(shown) == 1 + 6
    assert all(float(value) > 0.01 for value in shown)
    for by in ("epoch", "hours"):
        curves.locator("select").select_option(by)
        expect(curves.locator(".u-legend th").first).to_contain_text(
            "epoch" if by == "epoch" else "hours"
        )
    curves.get_by_label("log y").check()
    curves.get_by_label("log x").check()
    curves.get_by_label("one chart").check()
    expect(curves.locator("canvas")).to_have_count(1)
    assert curves.locator("canvas").evaluate(N_COLOURED) > 300


def test_seeds_are_averaged_with_a_band(open_page):
    page = open_page()
    page.fill("#filter", "trial=baseline")
    expect(page.locator("#count")).to_have_text("6 of 8 runs")
    curves = section(page, "curves")
    before = curves.locator("canvas").first.evaluate(N_COLOURED)
    curves.get_by_label("mean over seeds").check()
    legend = curves.locator(".u-legend").first
    expect(legend).to_contain_text("lr=0.1, 3 seeds")
    expect(legend.locator(".u-series")).to_have_count(1 + 2 * 3)
    assert curves.locator("canvas").first.evaluate(N_COLOURED) != before
    # Step 20: the means of 0.1, 0.11 and 0.12, and of 0.001, 0.011 and 0.021, doubled.
    curves.locator(".u-over").first.hover(position={"x": 2, "y": 100})
    assert {"0.22", "0.022"} <= set(read_legend(legend))


def test_a_row_is_the_mean_over_seeds(open_page):
    page = open_page()
    assert values(page, "seed")[1:] == ["0", "2", "1", "0", "2", "1", "0"]
    page.fill("#filter", "trial=baseline")
    page.locator("#runs").get_by_label("mean over seeds").check()
    expect(page.locator("#runs tbody tr[data-run]")).to_have_count(2)
    assert values(page, "val/loss") == ["0.011 ± 0.01", "0.11 ± 0.01"]
    assert values(page, "seed") == ["3 seeds"] * 2
    page.locator("#runs tbody input").first.check()
    expect(page.locator("#count")).to_contain_text("3 ticked")


SIZES = [(480, 800), (800, 1000), (1400, 900), (1400, 2200)]


@pytest.mark.release
@pytest.mark.parametrize("size", SIZES, ids=[f"{w}x{h}" for w, h in SIZES])
def test_all_rows_are_reached_at_any_height_and_seeds_are_in_sight(browser, many, size):
    context = browser.new_context(viewport=dict(zip(("width", "height"), size, strict=True)))
    page = context.new_page()
    page.goto(many.as_uri())
    rows = page.locator("#runs tbody tr[data-run]")
    expect(rows.first).to_be_visible()
    box = page.locator("#runs .table-box")
    n_in_sight = box.evaluate("box => Math.floor(box.clientHeight / 27)")
    assert rows.count() >= min(70, n_in_sight)
    box.evaluate("box => box.scrollTo(0, box.scrollHeight)")
    last = page.evaluate("shownRuns.at(-1)")
    expect(page.locator(f'#runs tr[data-run="{last}"]')).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    if size[0] >= 800:
        expect(page.locator('#runs th[data-key="seed"]')).to_be_in_viewport(ratio=1)
    context.close()


def test_sweep_is_drawn_and_a_dragged_axis_filters(open_page):
    page = open_page()
    sweep = section(page, "sweep")
    expect(sweep.locator("polyline")).to_have_count(6)  # the trial that varies, not all
    sweep.locator("select").first.select_option("all")
    expect(sweep.locator("polyline")).to_have_count(8)
    dot = sweep.locator("circle").last  # the one on top
    dot.hover()
    expect(page.locator("#tooltip")).to_contain_text("val/loss:")
    axis = sweep.locator(".parallel .handle").first  # optimizer.lr, 0.001 at its foot
    axis.scroll_into_view_if_needed()
    box = axis.bounding_box()
    page.mouse.move(box["x"] + 12, box["y"] + box["height"] * 0.8)
    page.mouse.down()
    page.mouse.move(box["x"] + 12, box["y"] + box["height"] - 1, steps=4)
    page.mouse.up()
    expect(page.locator("#count")).to_have_text("3 of 8 runs")
    assert "optimizer.lr>=" in page.input_value("#filter")


def test_chosen_runs_are_compared_and_shown_in_detail(open_page):
    page = open_page()
    boxes = page.locator("#runs tbody input[type=checkbox]")
    boxes.nth(2).check()
    boxes.nth(5).check()
    expect(page.locator("#count")).to_have_text("8 of 8 runs, 2 ticked")
    differences = section(page, "differences").locator("tbody.settings")
    assert differences.locator("th").all_inner_texts() == ["seed", "optimizer.lr"] or (
        differences.locator("th").all_inner_texts() == ["optimizer.lr"]
    )
    pictures = section(page, "pictures")
    expect(pictures.locator("img")).to_have_count(1)
    assert (
        pictures.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)")
        == 1
    )
    expect(pictures.locator("td").first).to_have_text(MARKUP)
    page.locator("#runs tbody button.link").first.click()
    details = page.locator("#details")
    expect(details).to_be_visible()
    expect(details).to_contain_text("lab runs reproduce 2")
    assert details.locator("a").first.get_attribute("href").endswith("/config.yaml")
    settings = Path(page.url.split("#")[0].removeprefix("file://")).parent
    assert len(list(settings.glob("*/*/config.yaml"))) == 8


def test_trials_people_and_cost_are_summed(open_page):
    page = open_page()
    trials = section(page, "trials").locator("tbody tr")
    assert [line.split()[:2] for line in trials.all_inner_texts()[:2]] == [
        ["baseline", "6"],
        ["└─", "wide"],
    ]
    leader = section(page, "leaderboard").locator("tbody tr")
    expect(leader).to_have_count(1)
    expect(leader.locator("td").nth(2)).to_have_text("0.001")
    cost = section(page, "cost").locator("table.cost")
    assert [table.locator("tfoot td").nth(1).inner_text() for table in cost.all()] == ["8"] * 3


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_page_fits_light_and_dark_and_paper(open_page, tmp_path, viewport):
    page = open_page(viewport, color_scheme="dark")
    back = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(back) == "rgb(21, 24, 28)"
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    page.click("#theme")
    assert page.evaluate(back) == "rgb(255, 255, 255)"
    section(page, "cost").locator("table.cost").first.wait_for()
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") >= 2


@pytest.mark.release
def test_watched_page_shows_what_is_new_by_itself(browser, tmp_path):
    project = make_project(tmp_path / "myproj")
    attempt = begin_attempt(create(project), project)
    file = project.root / "runs/report.html"
    watching = threading.Thread(target=call, args=(project, "report", "--watch", "2"))
    watching.start()
    while not file.exists() and watching.is_alive():
        watching.join(0.05)
    page = browser.new_page()
    page.goto(file.as_uri())
    expect(page.locator("#runs td.status")).to_have_text("running")
    page.fill("#filter", "baseline")
    expect(page).to_have_url(re.compile("baseline"))
    page.locator("#filter").blur()
    attempt.end("finished")
    watching.join(120)
    expect(page.locator("#runs td.status")).to_have_text("finished", timeout=120_000)
    assert page.input_value("#filter") == "baseline"
    page.close()


PICTURE = ROOT / "docs/img/report.png"
RUNS_OF_THE_PICTURE = (
    (0.1, 0.31),
    (0.03, 0.22),
    (0.001, 0.42),
)  # a learning rate and its last loss


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    """A report of runs that nobody made: three learning rates, three seeds each."""
    project = make_project(tmp_path_factory.mktemp("picture") / "myproj")
    for lr, loss in RUNS_OF_THE_PICTURE:
        for seed in range(3):
            last = loss + seed / 60
            metrics = {"val/loss": last, "val/acc": 1 - last / 2}
            run = settled(project, lr=lr, seed=seed, metrics=metrics)
            (run.dir / "metrics.jsonl").write_text(falling_curve(last))
    call(project, "report")
    return project.root / "runs/report.html"


def falling_curve(last):
    """Ten epochs of 20 steps whose losses fall to `last`."""
    rows = []
    for step in range(1, 201):
        about = {"step": step, "epoch": (step - 1) // 20, "attempt": 1, "time_unix_s": 1e9 + step}
        loss = last + 1.5 * 0.98**step
        rows.append(json.dumps(about | {"train/loss": 0.9 * loss}))
        if step % 20 == 0:
            rows.append(json.dumps(about | {"val/loss": loss}))
    return "\n".join(rows) + "\n"


def test_the_picture_of_the_page_on_the_report(browser, harmless, request):
    """`--regenerate` takes it again; it shows the table and the curves, not an empty page. The wheel carries it."""
    page = browser.new_page(viewport=DESKTOP)
    page.goto(harmless.as_uri())
    expect(page.locator("#runs tbody tr[data-run]")).to_have_count(9)
    if request.config.getoption("--regenerate"):
        with Image.open(io.BytesIO(page.screenshot())) as screenshot:
            screenshot.quantize(64, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
    page.goto(PICTURE.as_uri())
    size = page.evaluate("[document.images[0].naturalWidth, document.images[0].naturalHeight]")
    assert size == [DESKTOP["width"], DESKTOP["height"]]
    assert 20_000 < PICTURE.stat().st_size < 100_000, (
        "more than an empty page, less than a photograph"
    )
    page.close()
