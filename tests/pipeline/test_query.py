"""ls-query against the pipelines that it stands for: the same rows from the plan, the envelope, the failures."""

import json
import os
import signal
import subprocess
import sysconfig
from pathlib import Path

import orjson
import pytest
import support
from support import Home

from lspipe import request

WORDS = [
    "async cancellation",
    "rust 'async' \"structured concurrency\"",
    "--pre=./x.sh async",
    "-harmful async",
    "async\ncancellation",
    "München 日本語 $(touch owned) `touch owned` \\",
    "it's \x1b[31mred\x07 async",
]

#: The sources that the sample state grants.
GRANTED = [name for name, info in request.SOURCES.items() if info.family != "wiki"]
#: A busy machine must not fail a good program: sources get longer than they do by default.
PATIENT = ("--timeout", "50s")


@pytest.mark.parametrize("more", [
    (), ("--since", "3d"), ("--since", "2d", "--until", "yesterday"), ("--no-rerank",), ("-n", "2"),
    ("--fields", "title,provenance.browser"), ("--cap", "history=1", "--weight", "files=2"), ("--source", "files"),
    ("--path", "notes/rust"), ("--profile", "chromium"), ("--max-chars", "0"), ("--public",),
    ("--all-terms",),
], ids=" ".join)
def test_the_plan_gives_the_same_rows(home: Home, more: tuple[str, ...]) -> None:
    args = [*more, *PATIENT, "--now", support.NOW, "--", "async cancellation"]
    if "--public" in more:
        home.consent({"family": "files", "path": str(home.home / "notes"), "public": True})
    rows = home.run("ls-query", "--jsonl", *args)
    plan = home.run("ls-query", "--plan", *args)
    assert rows.code == plan.code == 0, rows.err + plan.err
    assert rows.out
    done = home.bash(plan.out)
    assert done.stdout == rows.out, done.stderr


@pytest.mark.parametrize("words", WORDS)
def test_the_plan_quotes_any_words(home: Home, words: str) -> None:
    rows = home.run("ls-query", "--jsonl", *PATIENT, "--now", support.NOW, "--", words)
    plan = home.run("ls-query", "--plan", *PATIENT, "--now", support.NOW, "--", words)
    assert rows.code == plan.code == 0, rows.err + plan.err
    assert not any(byte in plan.out for byte in b"\x1b\x07")
    done = home.bash(plan.out)
    assert done.stdout == rows.out, done.stderr
    assert not (home.home / "owned").exists()
    assert {row["query"] for row in rows.rows} <= {words}


def test_the_plan_gives_the_same_rows_where_a_source_fails(home: Home) -> None:
    (home.home / ".config/chromium/Default/History").write_bytes(b"this is no database" * 100)
    (home.home / ".mozilla/firefox/k3x9f2ab.default-release/places.sqlite").write_bytes(b"nor this" * 1000)
    rows = home.run("ls-query", "--jsonl", *PATIENT, "--now", support.NOW, "async cancellation")
    plan = home.run("ls-query", "--plan", *PATIENT, "--now", support.NOW, "async cancellation")
    assert rows.code == 7 and rows.out
    assert home.bash(plan.out).stdout == rows.out


def test_the_envelope(home: Home) -> None:
    done = home.run("ls-query", "--json", *PATIENT, "-n", "4", "--now", support.NOW, "rust async cancellation")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert home.run("ls-check", "--as", "envelope", stdin=orjson.dumps(answer)).code == 0
    assert len(answer["results"]) == 4
    assert answer["mode"] == "lexical" and answer["fusion"]["k"] == 60
    assert answer["truncated"] is True
    assert answer["privacy"]["redactions"] == 0
    assert [one["source"] for one in answer["privacy"]["excluded_sources"]] == ["wiki"]  # Not granted here.
    assert set(answer["sandbox"]) == {"fs", "net", "signal"}
    for row in answer["results"]:
        assert set(row["retriever_scores"]) == {"lexical", "semantic", "recency"}
        assert not {"query", "query_id", "corpus", "text"} & set(row)
    assert "text" in json.loads(
        home.run("ls-query", "--json", "--max-chars", "50", "--source", "files", "async").out)["results"][0]


def test_an_envelope_is_no_input_of_a_sink(home: Home) -> None:
    asked = "ls-query --json --source files async"
    for more, said in (("", "pretty-printed"), (" | jq -c .", "an envelope, not rows")):
        done = home.bash(f"{asked}{more} | ls-show")
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.decode().startswith(f"ls-show: {said}") and b"--jsonl" in done.stderr
    done = home.bash(f"{asked} | jq -c '.results[]' | ls-show")
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout


def test_first_five_results_in_order(home: Home) -> None:
    done = home.run("ls-query", "--jsonl", *PATIENT, "-n", "5", "--now", support.NOW, "rust async cancellation")
    assert [(row["rank"], row["source"], row["title"]) for row in done.rows] == FIRST_FIVE


FIRST_FIVE = [
    (1, "history", "Cancellation - The Async Rust Book"),
    (2, "files", "cancellation.md"),
    (3, "history", "Cancellation in asynchronous programs"),
    (4, "history", "select! and dropping futures - The Async Rust Book"),
    (5, "files", "worker.py"),
]


def test_a_query_file_is_the_same_as_flags(home: Home) -> None:
    asked = {"query": "async", "sources": ["history", "files"], "limit": 3, "mode": "lexical", "rerank": False,
             "scope": {"since": "30d", "paths": [str(home.home / "notes")], "profile": "chromium/Default"},
             "output_schema": ["title"], "acl": "authorized-local-only"}
    flags = ["--source", "history,files", "-n", "3", "--mode", "lexical", "--no-rerank", "--since", "30d",
             "--path", "notes", "--profile", "chromium/Default", "--fields", "title", "async"]
    now = ("--now", support.NOW)
    from_file = home.run("ls-query", "--plan", "--query-file", "-", *now, stdin=orjson.dumps(asked))
    from_flags = home.run("ls-query", "--plan", *now, *flags)
    assert from_file.code == 0, from_file.err
    assert from_file.out == from_flags.out


@pytest.mark.parametrize(("asked", "words"), [
    (b'{"query":"x","acl":"anything"}', b"acl"),
    (b'{"query":"x","limit":"many"}', b"limit"),
    (b'{"query":"x","unknown":1}', b"unknown"),
    (b'{"sources":["history"]}', b"query"),
    (b'{"query":"x","scope":{"since":"whenever"}}', b"whenever"),
    (b'{"query":"x","scope":{"since":"7d","until":"30d"}}', b"query file: scope: until is before since"),
    (b'{"query":"x","sources":["nowhere"]}', b"nowhere"),
    (b"[]", b"not an object"), (b"nothing", b"not JSON"), (b'{"query":"x","scope":{"paths":["a\\u0000"]}}', b"NUL"),
])
def test_a_bad_query_file_is_refused(home: Home, asked: bytes, words: bytes) -> None:
    done = home.run("ls-query", "--query-file", "-", stdin=asked)
    assert (done.code, done.out) == (2, b"")
    assert words in done.err and b"Traceback" not in done.err


def test_a_flag_and_a_query_file_may_not_be_reversed(home: Home) -> None:
    done = home.run("ls-query", "--query-file", "-", "--since", "2d", stdin=b'{"query":"x","scope":{"until":"30d"}}')
    assert (done.code, done.out, done.err) == (2, b"", b"ls-query: query file: scope: until is before since\n")


def test_defaults_are_those_of_the_plan(home: Home) -> None:
    plan = home.run("ls-query", "--plan", "--now", support.NOW, "async").out.decode()
    assert "--limit=10" in plan and "--mode=hybrid" in plan and "--k=60" in plan
    assert plan.count("--limit=100") == plan.count("--timeout=10") == len(GRANTED)
    assert "--cap=browser=6" in plan and "--cap=files=6" in plan
    asked = [request.SOURCES[name].command for name in GRANTED]
    assert [name for name in (*asked, "ls-fuse", "ls-rerank") if f"{name} " not in plan] == []


def test_config_sets_defaults_and_flags_win(home: Home) -> None:
    file = home.config / "config.toml"
    file.write_text('[query]\nlimit = 3\nsource = ["files"]\n')
    file.chmod(0o600)
    assert len(home.run("ls-query", "--jsonl", "async").rows) <= 3
    plan = home.run("ls-query", "--plan", "async").out
    assert b"ls-history" not in plan and b"--limit=3" in plan
    assert b"--limit=7" in home.run("ls-query", "--plan", "-n", "7", "async").out
    file.write_text('[query]\nfields = ["title", "url"]\nsource = ["files"]\n')
    listed = home.run("ls-query", "async")
    assert listed.code == 0 and b"cancellation.md" in listed.out
    assert {frozenset(row) for row in home.run("ls-query", "--jsonl", "async").rows} == {
        frozenset({"id", "title", "url"})}
    for wrong in ('[query]\ncolor = "blue"\n', "[strange]\n", "[query\n"):
        file.write_text(wrong)
        done = home.run("ls-query", "async")
        assert done.code == 5 and b"config.toml" in done.err
    file.write_text("[query]\nnonsense = 3\n")
    done = home.run("ls-query", "async")
    assert done.code == 5 and b"nonsense" in done.err
    for text, code in (("a=" + "[" * 100_000, 5), ("#" * (1 << 20) + "\n", 5), ("\xff", 5),
                       ("[query]\ntimeout = inf\n", 5), ("[query]\ntimeout = nan\n", 5), ("[query]\ntimeout = -1\n", 5),
                       ("[query]\nlimit = 99999999999999999999999\n", 5)):
        file.write_text(text, "latin-1")
        done = home.run("ls-query", "async")
        assert (done.code, done.out) == (code, b"") and done.err.count(b"\n") <= 2, done.err
    for text in ("timeout = {}", "limit = true", "limit = 2.5", "rerank = 1", "rerank = {}", "path = [1]",
                 "fields = {}", "source = [[]]", "json = 3", "since = 2026-07-21"):
        file.write_text(f"[query]\n{text}\n")
        done = home.run("ls-query", "async")
        assert (done.code, done.out) == (5, b"") and b"is not of a kind that --" in done.err, done.err
    file.write_text("query = 3\n")
    assert home.run("ls-query", "async").err.startswith(b"ls-query: '" + bytes(file) + b"': 'query' is no table")
    file.write_text('[query]\njsonl = true\njson = false\nsource = "files"\n')
    assert {row["source"] for row in home.run("ls-query", "async").rows} == {"files"}


def test_no_consent_at_all(bare: Home) -> None:
    done = bare.run("ls-query", "async")
    assert (done.code, done.out) == (5, b"")
    assert b"ls-consent grant" in done.err
    assert bare.runs == []


def test_a_source_without_consent_is_named_and_changes_no_code(home: Home) -> None:
    home.consent({"family": "files", "path": str(home.home / "notes")})
    done = home.run("ls-query", "--json", *PATIENT, "async")
    assert done.code == 0, done.err
    excluded = json.loads(done.out)["privacy"]["excluded_sources"]
    assert {(one["source"], one["reason"]) for one in excluded} == {
        (name, "no-consent") for name, info in request.SOURCES.items() if info.family != "files"}
    assert all("ls-consent grant" in one["detail"] for one in excluded)
    assert home.run("ls-query", "--source", "history,files", "async").code == 7
    assert home.run("ls-query", "--source", "history", "async").code == 5


def test_a_broken_profile_does_not_hide_the_others(home: Home) -> None:
    (home.home / ".config/chromium/Default/History").write_bytes(b"this is no database" * 100)
    done = home.run("ls-query", "--json", *PATIENT, "rust poll")
    assert done.code == 7
    answer = json.loads(done.out)
    assert [(one["source"], one["browser"], one["profile"]) for one in answer["privacy"]["excluded_sources"]
            if one["source"] != "wiki"] == [("history", "chromium", "Default"), ("downloads", "chromium", "Default")]
    assert "Poll in std::task - Rust" in {row["title"] for row in answer["results"]}


def test_every_source_failed(home: Home) -> None:
    (home.home / ".config/chromium/Default/History").write_bytes(b"this is no database" * 100)
    home.consent({"family": "browser", "browser": "chromium", "profile": "Default", "data": ["history"],
                  "path": str(home.home / ".config/chromium/Default")})
    done = home.run("ls-query", "async")
    assert (done.code, done.out) == (4, b"")


def test_zero_rows(home: Home) -> None:
    done = home.run("ls-query", *PATIENT, "nonesuchword")
    assert (done.code, done.out) == (0, b"")
    assert b"0 of 0" in done.err
    assert home.run("ls-query", "--exit-status", "nonesuchword").code == 1
    assert json.loads(home.run("ls-query", "--json", "nonesuchword").out)["results"] == []


@pytest.mark.parametrize("args", [
    ("",), ("  ",), (), ("--source", "nowhere", "x"), ("--cap", "x", "y"), ("--cap", "history=-1", "y"),
    ("--weight", "history=nan", "y"), ("--mode", "magic", "y"),
    ("--since", "whenever", "y"), ("x", "--query-file", "-"),
    ("--limit", "9" * 23, "y"), ("--limit", "2000000000", "y"),
    ("--max-chars", "9" * 20, "y"), ("--timeout", "99999999d", "y"), ("--timeout", "9" * 400, "y"),
])
def test_bad_usage(home: Home, args: tuple[str, ...]) -> None:
    done = home.run("ls-query", *args)
    assert (done.code, done.out) == (2, b"")


def test_semantic_needs_a_model(home: Home) -> None:
    done = home.run("ls-query", "--mode", "semantic", "async")
    assert done.code == 5 and b"model" in done.err


def test_a_named_path_that_is_missing(home: Home) -> None:
    done = home.run("ls-query", "--path", "no/such/folder", "async")
    assert done.code == 3 and b"no/such/folder" in done.err


def test_public_shows_no_byte_of_what_is_private(home: Home) -> None:
    public = home.home / "handbook"
    public.mkdir()
    (public / "async.md").write_text("# Async for everyone\n")
    grants = json.loads((home.config / "consent.json").read_bytes())["grants"]
    home.consent(*grants, {"family": "files", "path": str(public), "public": True})
    for form in ("--json", "--jsonl"):
        done = home.run("ls-query", form, *PATIENT, "--public", "async")
        assert done.code == 0, done.err
        assert b"Async for everyone" in done.out
        for private in (b"example.org", b"cancellation.md", b"firefox", b"Default", str(home.home / "notes").encode()):
            assert private not in done.out


def test_nothing_is_left_behind(home: Home) -> None:
    home.run("ls-query", "async")
    assert home.runs == []


def test_many_at_once_agree(home: Home) -> None:
    """Two copies of everything at once, and more: one ledger, one consent file, the same bytes."""
    args = ["--jsonl", *PATIENT, "--now", support.NOW, "async cancellation"]
    alone = home.run("ls-query", *args)
    running = [
        subprocess.Popen(support.command("ls-query", *args), env=home.env(), cwd=home.home, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    for process in running:
        out, err = process.communicate(timeout=support.PATIENCE)
        assert (process.returncode, out) == (0, alone.out), err
    assert home.runs == []


def test_the_order_of_inputs_to_fusion_changes_nothing(home: Home) -> None:
    lists = []
    for name, args in (("ls-history", ()), ("ls-bookmarks", ()), ("ls-rg", ("--words",))):
        operands = ["async cancellation", *(["notes"] if args else [])]
        file = home.home / f"{name}.jsonl"
        file.write_bytes(home.run(name, *args, "--now", support.NOW, "--", *operands).out)
        lists.append(file.name)
    first = home.run("ls-fuse", *lists)
    assert first.code == 0 and first.out
    assert home.run("ls-fuse", *reversed(lists)).out == first.out
    lines = sorted(line for name in lists for line in (home.home / name).read_bytes().splitlines(keepends=True))
    assert home.run("ls-fuse", stdin=b"".join(lines)).out == first.out
    assert home.run("ls-fuse", stdin=first.out).out == first.out
    reranked = home.run("ls-rerank", "--now", support.NOW, stdin=first.out)
    assert home.run("ls-rerank", "--now", support.NOW, stdin=reranked.out).out == reranked.out


def test_words_need_no_quotes(home: Home) -> None:
    assert home.run("ls-query", "--plan", "--now", support.NOW, "async", "cancellation").out == home.run(
        "ls-query", "--plan", "--now", support.NOW, "async cancellation").out


def test_fields_of_a_list_are_refused_where_they_were_typed(home: Home) -> None:
    done = home.run("ls-query", "--fields", "title", "async")
    assert (done.code, done.out) == (2, b"")
    assert done.err == b"ls-query: --fields goes with --json, --jsonl or --plan: the list has its own\n"
    file = home.home / "asked.json"
    file.write_text('{"query":"async","output_schema":["title"]}')
    done = home.run("ls-query", *PATIENT, "--query-file", str(file))
    assert done.code == 0 and b"Cancellation" in done.out


@pytest.mark.parametrize("forms", [("--json", "--jsonl"), ("--plan", "--json"), ("--jsonl", "--plan")], ids=" ".join)
def test_an_answer_has_one_form(home: Home, forms: tuple[str, str]) -> None:
    done = home.run("ls-query", forms[0], "async", forms[1])
    assert (done.code, done.out) == (2, b"")
    first, second = sorted(forms)
    assert done.err.decode() == f"ls-query: {first} and {second} are two forms: the answer has one\n"
    assert home.run("ls-query", forms[1], *PATIENT, forms[1], "--source", "files", "async").code == 0
    file = home.config / "config.toml"
    file.write_text(f"[query]\n{forms[0].strip('-')} = true\n")
    file.chmod(0o600)
    now = ("--now", support.NOW)
    chosen = home.run("ls-query", forms[1], *PATIENT, *now, "--source", "files", "async")
    assert chosen.code == 0
    file.unlink()
    if forms[1] != "--json":  # It holds the time that it took.
        assert chosen.out == home.run("ls-query", forms[1], *PATIENT, *now, "--source", "files", "async").out


@pytest.mark.parametrize("form", ["table", "urls", "paths", "exa"])
def test_fields_go_with_the_forms_that_have_them(bare: Home, form: str) -> None:
    done = bare.run("ls-show", "--as", form, "--fields", "title", stdin=b"")
    assert (done.code, done.out) == (2, b"")
    assert done.err.decode() == f"ls-show: --fields goes with --as jsonl, tsv or results, not {form}\n"
    file = bare.config / "config.toml"
    file.write_text('[show]\nfields = "title"\n')
    file.chmod(0o600)
    done = bare.run("ls-show", "--as", form, stdin=b'{"source":"files","url":"file:///a"}\n')
    assert (done.code, done.err) == (0, b"") and done.out


@pytest.mark.parametrize("form", ["--json", "--jsonl"])
def test_a_field_that_no_row_has_is_named(home: Home, form: str) -> None:
    said = "no row has 'titel', 'provenance.browsr'"
    fields = ("--fields", "titel,url,provenance.browsr")
    done = home.run("ls-query", form, *PATIENT, *fields, "async")
    assert (done.code, done.err.decode()) == (0, f"ls-show: {said}\n")
    assert said in done.out.decode() or form == "--jsonl"
    done = home.run("ls-query", form, *PATIENT, *fields, "nonesuchword")
    assert (done.code, done.err) == (0, b"")


def test_without_ripgrep_the_source_failed_and_is_not_refused(home: Home) -> None:
    # The same interpreter by another name: ripgrep is looked for beside it as well.
    python = home.root / "python"
    python.symlink_to(support.sys.executable)
    env = {**home.env(), "PATH": str(home.root), "PYTHONPATH": sysconfig.get_path("purelib")}
    args = support.command("ls-query", "--json", *PATIENT, "async")[1:]
    ran = subprocess.run([python, *args], env=env, cwd=home.home, stdin=subprocess.DEVNULL, capture_output=True,
                         timeout=support.PATIENCE)
    done = support.Done(ran.returncode, ran.stdout, ran.stderr)
    assert done.code == 7
    excluded = json.loads(done.out)["privacy"]["excluded_sources"]
    assert ("files", "failed") in {(one["source"], one["reason"]) for one in excluded}
    assert {one["source"] for one in excluded} == {"files", "wiki"}


def test_an_ended_grant_is_named(home: Home) -> None:
    home.consent({"family": "files", "path": str(home.home / "notes"), "expires_at": "2020-01-01T00:00:00.000000Z"})
    done = home.run("ls-query", "async")
    assert done.code == 5 and b"ended 2020-01-01" in done.err and b"consent.json" in done.err


def test_report_and_envelope_agree_on_the_sandbox(home: Home) -> None:
    report = home.root / "report.json"
    answer = json.loads(home.run("ls-query", "--json", *PATIENT, "--report", str(report), "async").out)
    facts = json.loads(report.read_bytes())
    assert facts["sandbox"] == answer["sandbox"]
    assert facts["rows_in"] == sum(facts["counts"][name] for name in GRANTED) > 0


def test_a_limit_of_nothing_holds_back_everything(home: Home) -> None:
    answer = json.loads(home.run("ls-query", "--json", *PATIENT, "-n", "0", "async").out)
    assert answer["results"] == [] and answer["truncated"] is True


def test_late_sources_are_a_deadline(home: Home) -> None:
    (home.home / "notes/big").mkdir()
    for number in range(300):
        (home.home / f"notes/big/{number}.txt").write_text("async " * 2000)
    done = home.run("ls-query", "--source", "files", "--timeout", "1ms", "async")
    assert done.code == 6, done.err


@pytest.mark.parametrize("strict", [(), ("--strict",)], ids=["", "--strict"])
def test_strict_sources_end_at_what_they_would_skip(home: Home, strict: tuple[str, ...]) -> None:
    os.mkfifo(home.home / "notes/pipe")
    (home.home / ".config/chromium/Default/History").write_bytes(b"this is no database" * 100)
    for args in (("ls-rg", "async", "notes/pipe", "notes"), ("ls-history", "poll")):
        done = home.run(*args[:1], *strict, *args[1:])
        assert done.code == 7 and len(done.err.splitlines()) <= 2, done.err
        assert bool(done.out) is not bool(strict)


# With a wiki


@pytest.fixture
def wiki(tmp_path: Path) -> Home:
    """The sample home, and its notes in a granted wiki of the real qmd."""
    return Home(tmp_path, sample=True, wiki=True)


def test_a_wiki_is_fused_with_the_rest(wiki: Home) -> None:
    done = wiki.run("ls-query", "--jsonl", *PATIENT, "--now", support.NOW, "async cancellation")
    assert (done.code, done.err) == (0, b"")
    assert {row["source"] for row in done.rows} >= {"history", "files", "wiki"}
    (alone,) = {row["source"] for row in wiki.run("ls-query", "--source", "wiki", "--jsonl", *PATIENT, "async").rows}
    assert alone == "wiki"
    assert wiki.runs == []


@pytest.mark.parametrize("more", [
    (), ("--source", "wiki,history"), ("--path", "notes/rust"), ("--profile", "chromium"), ("--since", "4d"),
    ("--public",),
    ("-n", "4"),
], ids=" ".join)
def test_the_plan_gives_the_same_rows_of_a_wiki(wiki: Home, more: tuple[str, ...]) -> None:
    if "--public" in more:
        wiki.consent({"family": "wiki", "collection": "notes", "public": True}, {"family": "wiki"})
    args = [*more, *PATIENT, "--now", support.NOW, "--", "how does rust async cancellation work"]
    rows = wiki.run("ls-query", "--jsonl", *args)
    plan = wiki.run("ls-query", "--plan", *args)
    assert rows.code == plan.code == 0, rows.err + plan.err
    # A page that ls-rg found, too, is one result of both.
    pages = {row["location"]["path"] for row in rows.rows if "wiki" in (row["source"], *row["meta"].get("sources", ()))}
    assert pages
    assert wiki.bash(plan.out).stdout == rows.out
    if "--public" in more:
        assert b"--collection=notes" in plan.out or b"ls-qmd" in plan.out
        assert all(row["provenance"]["private"] is False for row in rows.rows)
    if "--path" in more:
        assert pages == {str(wiki.home / "notes/rust/cancellation.md")}


def test_a_wiki_that_cannot_be_asked_does_not_hide_the_rest(wiki: Home) -> None:
    (wiki.home / ".cache/qmd/index.sqlite").write_bytes(b"no database" * 1000)
    done = wiki.run("ls-query", "--jsonl", *PATIENT, "async")
    assert done.code == 7 and done.rows and b"the index of qmd is damaged" in done.err
    assert wiki.run("ls-query", "--source", "wiki", "async").code == 4


def test_a_signal_to_all_while_stages_are_forked_is_quiet(home: Home) -> None:
    """Ctrl-C reaches the new stage, too, before it has handlers of its own: it must not run its parent's clean-up."""
    folder = home.root / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import os, signal\n"
        "def both():\n"
        "    os.kill(os.getppid(), signal.SIGTERM)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "os.register_at_fork(after_in_child=both)\n"
    )
    done = home.run("ls-query", "async", env=home.env(PYTHONPATH=str(folder)))
    assert (done.code, done.out, done.err) == (-signal.SIGTERM, b"", b"")
    assert not home.runs


@pytest.mark.parametrize("option", ["--weight=history=1e308", "--weight=history=nan", "--cap=files=1.5",
                                    "--cap=files=99999999999999999999", "--weight=nobody=1", "--weight==1", "--cap="])
def test_a_number_that_a_stage_would_refuse_is_refused_before_one_is_started(home: Home, option: str) -> None:
    for form in ("--jsonl", "--json", "--plan"):
        done = home.run("ls-query", option, form, "async")
        assert (done.code, done.out) == (2, b"")
        assert done.err.startswith(b"ls-query: "), done.err


@pytest.mark.parametrize("form", [[], ["--json"], ["--jsonl"], ["--plan"]], ids=str)
def test_a_reader_that_left_is_an_ordinary_end_in_every_form(home: Home, form: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = home.run("ls-query", *PATIENT, *form, "--", "async cancellation", stdout=writer)
    finally:
        os.close(writer)
    assert done.code == 0 and b"error" not in done.err, done.err


def test_every_word_where_that_is_asked_for(home: Home) -> None:
    rows = home.run("ls-query", "--jsonl", *PATIENT, "--all-terms", "--", "async cancellation").rows
    assert rows and all(row["matched_terms"] == ["async", "cancellation"] for row in rows)


def test_what_was_named_and_is_nowhere(home: Home) -> None:
    """Every line is JSON where that is asked for, those of the stages, too."""
    done = home.run("ls-query", "--log", "json", "--source", "history", "--profile", "nonesuch", "--", "async")
    assert done.code == 3, done.err
    assert {orjson.loads(line)["level"] for line in done.err.splitlines()} >= {"error"}


def test_a_plan_of_nothing_is_none(home: Home) -> None:
    done = home.run("ls-query", "--plan", "--public", "--", "async")
    assert done.code == 5 and done.out == b""
