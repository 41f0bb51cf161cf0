"""What ls-query says where it cannot ask: once, by its name, with the right exit code."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import click
import orjson
import pytest
import support
from support import Home

from lspipe import answer, runner
from lspipe.exits import Deadline

PATIENT = ("--timeout", "60s")


def lines(done: support.Done) -> list[str]:
    return done.err.decode().splitlines()


def browser(home: Home, *data: str) -> dict[str, object]:
    path = home.home / ".config/chromium/Default"
    return {"family": "browser", "browser": "chromium", "profile": "Default", "data": data, "path": str(path)}


def test_a_profile_that_nobody_knows_is_said_once(home: Home) -> None:
    done = home.run("ls-query", "--jsonl", *PATIENT, "--profile", "nosuch", "rust")
    assert (done.code, done.out) == (3, b"")
    assert lines(done) == ["ls-query: no profile 'nosuch'", "ls-consent list --found shows the profiles that there are"]
    done = home.run("ls-query", "--jsonl", *PATIENT, "--profile", "nosuch", "--profile", "chromium", "rust")
    assert done.code == 3 and {row["provenance"].get("browser", "chromium") for row in done.rows} == {"chromium"}
    assert b"".join(done.err.splitlines()).count(b"nosuch") == 1


def test_a_profile_is_asked_for_what_it_is_granted_for(home: Home) -> None:
    """Firefox has no reading list, and nobody asked for one."""
    for name in ("firefox", "firefox/k3x9f2ab.default-release", "default-release"):
        done = home.run("ls-query", "--json", *PATIENT, "--profile", name, "rust")
        assert done.code == 0 and done.err == b"", done
        excluded = {one["source"]: one for one in orjson.loads(done.out)["privacy"]["excluded_sources"]}
        assert excluded["reading"]["reason"] == "no-consent" and "history" not in excluded
    both = home.run("ls-query", "--jsonl", *PATIENT, "--profile", "firefox", "--profile", "chromium", "rust")
    assert both.code == 0 and both.err == b""
    done = home.run("ls-query", "--jsonl", *PATIENT, "--source", "history,reading", "--profile", "firefox", "rust")
    assert done.code == 7 and lines(done)[0] == "ls-query: cannot ask reading: no consent"


def test_a_grant_that_has_ended_is_told(home: Home) -> None:
    """Where another one of its kind answers, too: nothing found is not nothing there."""
    grants = orjson.loads((home.config / "consent.json").read_bytes())["grants"]
    ended = "2020-01-01T00:00:00.000000Z"
    (home.home / "more").mkdir()
    (home.home / "more/rust.md").write_text("rust")
    home.consent(*({**grant, "expires_at": ended} if grant.get("browser") == "chromium" else grant for grant in grants),
                 {"family": "files", "path": str(home.home / "more"), "expires_at": ended})
    for name, source in (("ls-history", "history"), ("ls-query", "history")):
        done = home.run(name, *(("--jsonl", "--source", source, *PATIENT) if name == "ls-query" else ()), "rust")
        assert done.code == 7 and {row["provenance"]["browser"] for row in done.rows} == {"firefox"}
        assert lines(done) == [
            f"ls-history: cannot read profile 'chromium/Default': no consent: the grant ended {ended}",
            "ls-consent grant browser --data history chromium/Default"]
    more = str(home.home / "more")
    done = home.run("ls-query", "--jsonl", *PATIENT, "--source", "files", "rust")
    assert done.code == 7 and done.rows and not any(more in row["location"]["path"] for row in done.rows)
    assert lines(done) == [f"ls-query: files: cannot read '{more}': no consent: the grant ended {ended}",
                           f"ls-consent grant files {more}"]
    done = home.run("ls-query", "--json", *PATIENT, "--source", "downloads", "--source", "files", "pdf")
    assert done.code == 7
    home.consent(*({**grant, "expires_at": ended} if grant["family"] == "browser" else grant for grant in grants))
    done = home.run("ls-query", *PATIENT, "rust")
    assert done.code == 7 and done.out
    assert "ls-query: downloads: cannot read profile 'chromium/Default': no consent: the grant ended " + ended \
        in lines(done)


def test_a_profile_that_is_here_and_not_granted_is_not_unknown(home: Home) -> None:
    home.consent({"family": "files", "path": str(home.home / "notes")}, browser(home, "history"))
    done = home.run("ls-query", "--source", "history", "--profile", "firefox", *PATIENT, "rust")
    assert done.code == 5 and "no source may be asked: history: profile 'firefox': no grant" in lines(done)[0]
    assert lines(done)[1:] == ["ls-consent grant browser --data history firefox"]


def test_an_empty_name_in_a_list_of_sources(home: Home) -> None:
    for names in ("history,,files", "history,", ""):
        done = home.run("ls-query", "--source", names, "rust")
        assert done.code == 2 and done.out == b""
        assert lines(done) == ["ls-query: --source has an empty name in its list",
                               "names with a comma between: history,files"]


def test_a_list_of_ls_query_is_no_input(home: Home) -> None:
    """The first thing that a person tries: what to take instead is said, once."""
    shown = home.run("ls-query", *PATIENT, "rust").out
    for name in ("ls-show", "ls-fuse", "ls-redact"):
        done = home.run(name, stdin=shown)
        assert done.code == 7 and done.out == b""
        assert lines(done)[1] == "rows are JSON Lines, as sources print them: of ls-query take --jsonl"
        assert done.err.count(b"--jsonl") == 1


@pytest.mark.parametrize(("args", "hint"), [
    (["-n", "async", "notes"], "-n N is the most rows; each row has its line anyway"),
    (["-S", "async", "notes"], "-i ignores case"), (["-A", "3", "async", "notes"], "-C N: lines before and after"),
    (["-w", "async"], r"whole words: '\bWORD\b'"), (["--max-columns=3", "async"], "try: ls-rg --help")])
def test_what_hands_know_from_rg(args: list[str], hint: str, home: Home) -> None:
    done = home.run("ls-rg", *args)
    assert done.code == 2 and lines(done)[1] == hint
    assert "number" in lines(done)[0] if args[0] == "-n" else "No such option" in lines(done)[0]


def test_a_family_is_what_of_it_is_granted(home: Home) -> None:
    """A kind that was named by itself is missing, and is said once; one that its family brought along is not."""
    home.consent(browser(home, "history", "bookmarks"))
    done = home.run("ls-query", "--source", "browser", *PATIENT, "rust")
    assert done.code == 0 and done.out
    summary, = lines(done)
    assert "; downloads: no consent (ls-consent grant browser --data downloads)" in summary
    done = home.run("ls-query", "--source", "browser,downloads", *PATIENT, "rust")
    assert done.code == 7 and done.out
    assert lines(done)[0] == "ls-query: cannot ask downloads: no consent"
    assert lines(done)[1] == "ls-consent grant browser --data downloads"
    assert "downloads" not in lines(done)[2] and "reading: no consent" in lines(done)[2]
    done = home.run("ls-query", "--source", "files,browser", *PATIENT, "rust")
    assert done.code == 7 and lines(done)[0] == "ls-query: cannot ask files: no consent"


def test_what_is_private_is_not_without_consent(home: Home) -> None:
    notes = {"family": "files", "path": str(home.home / "notes"), "public": True}
    home.consent(browser(home, "history"), notes)
    summary = lines(home.run("ls-query", "--public", *PATIENT, "async"))[-1]
    assert "; history: not public; bookmarks: no consent" in summary and "files" in summary.partition(";")[0]
    plan = home.run("ls-query", "--public", "--plan", "async").out.decode()
    assert "# history: not public\n# bookmarks: no consent\n" in plan
    home.consent(browser(home, "history"))
    done = home.run("ls-query", "--public", *PATIENT, "async")
    assert done.code == 5 and b"no public grant" in done.err


@pytest.mark.parametrize("form", [(), ("--jsonl",), ("--json",)], ids=str)
def test_a_program_that_is_missing_is_a_precondition(form: tuple[str, ...], home: Home) -> None:
    """As ls-rg alone has it. Python looks for rg beside itself: it has to be one that stands alone."""
    python = home.root / "alone/python"
    python.parent.mkdir()
    python.symlink_to(os.path.realpath(sys.executable))
    env = home.env(PATH="/nowhere", PYTHONPATH=os.path.dirname(os.path.dirname(click.__file__)))

    def run(*words: str) -> support.Done:
        done = subprocess.run([python, support.BIN / words[0], *words[1:]], cwd=home.home, env=env, capture_output=True)
        return support.Done(done.returncode, done.stdout, done.stderr)

    alone = run("ls-rg", "--words", "async", "notes")
    done = run("ls-query", "--source", "files", *form, *PATIENT, "async")
    assert alone.code == done.code == 5
    assert b"cannot find the program 'rg'" in done.err and b"no source could be asked" in done.err


def test_the_summary_counts_results_and_rows(home: Home) -> None:
    """`N of M` results; the rows of the sources may be more, where one page is in several."""
    every = home.run("ls-query", "--jsonl", "-n", "1000", "--cap", "browser=1000", *PATIENT, "rust")
    found = lines(home.run("ls-query", "-n", "1", *PATIENT, "rust"))[-1]
    head, _, rows = found.partition(": ")[2].partition(": ")
    assert head == f"1 of {len(every.rows)}"
    counted = sum(int(part.split()[1]) for part in rows.partition(";")[0].split(", "))
    assert counted > len(every.rows) == len({row["id"] for row in every.rows})


def test_a_wrong_word_in_the_settings_is_not_blamed_on_the_command_line(home: Home) -> None:
    (home.config / "config.toml").write_text('[query]\nsource = ["histroy"]\n')
    done = home.run("ls-query", *PATIENT, "rust")
    assert done.code == 5 and lines(done)[0] == "ls-query: config.toml: unknown source 'histroy'"
    done = home.run("ls-query", "--source", "histroy", *PATIENT, "rust")
    assert done.code == 2 and lines(done)[0] == "ls-query: unknown source 'histroy'"


def test_a_browser_without_a_live_mode_is_said_to_be_one(home: Home) -> None:
    done = home.run("ls-tabs", "--from", "live", "--profile", "firefox")
    assert done.code == 5
    assert lines(done) == ["ls-tabs: no live tabs: no profile of a Chromium is among those that --profile names, and no"
                           " other browser has a live mode", "leave out --from live"]


def test_a_transform_that_is_stuck_is_ended(home: Home) -> None:
    """It has as much time as the sources have had, and some more."""
    os.mkfifo(home.home / "notes/.ignore")  # rg waits for its writer, and everybody for rg.
    with home.start("ls-query", "--timeout", "1s", "--source", "files,history", "rust") as process:
        stuck = wait_for_stage(home, "ls-rerank")
        os.kill(stuck, signal.SIGSTOP)
        assert process.stdout and process.stderr
        out, err = process.communicate(timeout=support.PATIENCE)
    assert process.returncode == 6 and out == b""
    assert b"ls-query: ls-rerank, ls-redact took too long" in err
    with pytest.raises(ProcessLookupError):
        os.kill(stuck, 0)
    home.run("ls-consent", "list")  # What had to be killed is taken away by the next one.
    assert home.runs == []


def test_rows_that_came_before_a_transform_was_stuck_count() -> None:
    """They are what was found until then."""
    def child(label: str, late: bool) -> SimpleNamespace:
        stage = SimpleNamespace(name=f"ls-{label}", label=label)
        return SimpleNamespace(stage=stage, code=-15 if late else 0, facts={}, stopped_late=late)

    line = SimpleNamespace(plan=SimpleNamespace(sources=(1,)),
                           children=[child("rg", False), child("rerank", True), child("redact", True)])
    run = runner.Run("ls-query", SimpleNamespace(timeout=None, log="text", strict=False, line_buffered=False), [])
    said: list[str] = []
    run.report.say = lambda _level, message, *_more: said.append(message)  # type: ignore[method-assign, assignment]
    with pytest.raises(Deadline, match="ls-rerank, ls-redact took too long"):
        answer.judge(line, run)  # type: ignore[arg-type]
    run.report.rows_out = 3
    answer.judge(line, run)  # type: ignore[arg-type]
    assert said == ["ls-rerank, ls-redact took too long: these rows are what there was until then"]
    assert run.report.codes == {7} and run.report.truncated


def wait_for_stage(home: Home, name: str) -> int:
    """The process id of a stage, once the ledger has it."""
    until = time.monotonic() + support.PATIENCE
    while time.monotonic() < until:
        for row in home.run("ls-ps").rows:
            if str(row.get("command")).startswith(name) and row.get("kind") == "stage" and row.get("pid"):
                return int(row["pid"])
    raise AssertionError(f"no {name} in the ledger")
