"""`lab report --serve`: who gets an answer, and that a page follows its runs."""

import http.client
import json
import math
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from chromium import DESKTOP, started_chromium
from labrig.record.files.metrics_file import MetricsLog
from labrig.record.write.begin import begin_attempt
from labrig.report import serve
from labrig.report.gather import gather_report, list_sources
from labrig.report.serve import LivePage, PageServer
from playwright.sync_api import expect
from projects import environment_of
from record_package import call, create, train
from report_page import table_of
from report_runs import PIXEL_PNG, make_runs


@pytest.fixture
def own(tmp_path):
    return make_runs(tmp_path / "myproj")


@contextmanager
def served(project):
    """The address of a server of the project's runs."""
    with PageServer(LivePage(project, list_sources(project, []), [])) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, host="localhost"):
    """(status, headers, content) of a GET."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request("GET", path, headers={"Host": f"{host}:{server.server_address[1]}"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


@pytest.mark.release
@pytest.mark.slow
def test_only_who_knows_the_token_gets_an_answer(own):
    with served(own) as server:
        assert server.server_address[0] == "127.0.0.1"
        of_token = f"/{server.token}/"
        status, headers, page = ask(server, of_token)
        assert (status, headers["Cache-Control"]) == (200, "no-store")
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "connect-src 'self'" in page.decode()
        table = table_of(page.decode())
        assert len(table["rows"]["run_id"]) == 8
        for path in ("/", "//", "/wrong/", f"/{server.token[:-1]}/", f"/{server.token}x/news", ""):
            assert ask(server, path or "/")[0] == 403
        for host in ("evil.example", "127.0.0.1.evil.example", ""):
            assert ask(server, of_token, host)[0] == 403
        assert ask(server, of_token, "127.0.0.1")[0] == 200
        assert ask(server, f"{of_token}news?after={table['version']}")[0] == 204
        directory = table["rows"]["directory"][0]
        status, headers, content = ask(server, f"{of_token}{directory}/run.json")
        assert json.loads(content)["run_id"] == table["rows"]["run_id"][0]
        assert "sandbox" in headers["Content-Security-Policy"]
        outside = own.root / "src/myproj/conf/config.yaml"
        assert outside.exists()
        for path in (f"{directory}/code.bundle", f"{directory}/missing.json", str(outside)[1:]):
            assert ask(server, of_token + path)[0] == 404
        climbing = f"{directory}/../../../src/myproj/conf/config.yaml"
        assert ask(server, of_token + climbing)[0] == 404
        assert ask(server, of_token + climbing.replace("..", "%2e%2e"))[0] == 404


@pytest.mark.slow
def test_gathering_takes_at_most_a_fifth_of_a_core(own, monkeypatch):
    def gather_slowly(*args):
        time.sleep(0.1)
        return gather_report(*args)

    monkeypatch.setattr(serve, "gather_report", gather_slowly)
    page = LivePage(own, list_sources(own, []), [])
    begin_s = time.monotonic()
    first = page.newest()
    assert page.rests_until_s >= begin_s + 5 * 0.1
    run = create(own)
    page.rests_until_s = math.inf
    assert page.newest() is first
    page.rests_until_s = 0
    assert run.id in page.newest().table["rows"]["run_id"]


@pytest.mark.release
@pytest.mark.slow
def test_a_browser_shows_new_rows_and_runs_without_loading_the_page_again(own):
    run = create(own)
    attempt = begin_attempt(run, own, accelerator="cpu", world_size=1)
    log = MetricsLog(run.dir, attempt.n)
    log.append(1, 0, {"val/loss": 0.5})
    complaints = []
    with served(own) as server, started_chromium() as browser:
        page = browser.new_page(viewport=DESKTOP)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"http://localhost:{server.server_address[1]}/{server.token}/")
        rows = page.locator("#runs tbody tr[data-run]")
        expect(rows).to_have_count(9)
        page.evaluate("window.isFirst = true")
        page.fill("#filter", "trial=baseline")
        log.append(2, 0, {"val/loss": 0.03125})
        newest = page.locator("#runs tbody tr", has_text=run.id)
        expect(newest).to_contain_text("0.03125")
        for _ in range(2):
            other = train(own)
            folder = other.dir / "pictures"
            folder.mkdir()
            (folder / "sample.png").write_bytes(PIXEL_PNG)
        expect(page.locator("#runs tbody tr", has_text=other.id)).to_have_count(1)
        assert page.input_value("#filter") == "trial=baseline"
        page.locator("section#pictures").scroll_into_view_if_needed()
        side_by_side = page.locator("section#pictures .pictures", has_text="sample.png")
        expect(side_by_side.locator("img")).to_have_count(2)
        boxes = [side_by_side.locator("figure").nth(n).bounding_box() for n in (0, 1)]
        assert boxes[0]["y"] == boxes[1]["y"]
        assert page.evaluate("window.isFirst"), "the page was loaded again"
        assert complaints == []
        log.close()
        server.shutdown()
        server.server_close()
        expect(page.locator("body.gone")).to_have_count(1)


@pytest.mark.release
@pytest.mark.slow
def test_the_command_prints_the_address_and_the_ssh_line_and_ends_by_ctrl_c(own):
    process = subprocess.Popen(
        [sys.executable, "-m", "labrig", "report", "--serve"],
        cwd=own.root,
        env=environment_of(own.root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Tests that run in the background ignore Ctrl-C, and what they start would do so too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        address = re.fullmatch(r"http://localhost:(\d+)/([\w-]{32})/\n", lines[0])
        assert address, lines
        assert f"ssh -N -L {address[1]}:localhost:{address[1]} " in lines[2]
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, said) == (0, "\nno longer served\n")


def test_what_does_not_go_together_is_refused(own, tmp_path, capsys):
    from labrig.errors import LabError

    with pytest.raises(LabError, match="--serve follows the runs by itself"):
        call(own, "report", "--serve", "--watch", "3")
    with pytest.raises(LabError, match="Leave out --watch and -o"):
        call(own, "report", "--serve", "-o", tmp_path / "a.html")
    call(own, "report", "--serve", "trial=nothing*")
    assert "none of 8 runs" in capsys.readouterr().out
    assert not Path(tmp_path / "a.html").exists()
