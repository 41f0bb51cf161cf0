"""Redaction through the executables: ls-redact alone, and as the last row stage of every answer of ls-query."""

import json
import sqlite3

import orjson
import pytest
import support
from support import Home

PATIENT = ("--timeout", "50s")
NOW = ("--now", support.NOW)
#: What the sample state is given to hide: in the history, in a note, and in a message of a broken row.
TOKEN, OTHER, PASSWORD = "Zk39fjq0aXr72LmQ4vTn", "Yj28eip9zWq61KlP3uSm", "Kestrel!77"
SECRETS = (TOKEN.encode(), OTHER.encode(), PASSWORD.encode())


@pytest.fixture
def kept(home: Home) -> Home:
    """The sample home with two pages that differ in their token alone, and a note with a password."""
    base = sqlite3.connect(home.home / ".config/chromium/Default/History")
    found = base.execute("SELECT id FROM urls WHERE title LIKE '%ancellation%' ORDER BY id LIMIT 2").fetchall()
    for (number,), token in zip(found, (TOKEN, OTHER), strict=True):
        base.execute("UPDATE urls SET url = ?, title = 'Async cancellation sign in' WHERE id = ?",
                     (f"https://ada:{PASSWORD}@login.example/cb?access_token={token}", number))
    base.commit()
    base.close()
    (home.home / "notes/deploy.md").write_text(f"# Deploy\n\nasync cancellation user ada, password: {PASSWORD}\n")
    return home


@pytest.mark.parametrize("more", [
    ("--json",), ("--jsonl",), (), ("--jsonl", "--no-rerank"), ("--json", "--max-chars", "500"),
    ("--jsonl", "--fields", "title,url,snippet"), ("--jsonl", "-n", "100"),
], ids=" ".join)
def test_no_answer_shows_a_secret(kept: Home, more: tuple[str, ...]) -> None:
    report = kept.root / "report.json"
    args = [*more, *PATIENT, *NOW, "--report", str(report), "async cancellation"]
    done = kept.run("ls-query", *args)
    assert done.code == 0, done.err
    assert b"access_token=REDACTED" in done.out or not more, done.out
    for secret in SECRETS:
        assert secret not in done.out + done.err + report.read_bytes()
    hidden = json.loads(report.read_bytes())["counts"]["redactions"]
    assert hidden >= 4
    if "--json" in more:
        assert json.loads(done.out)["privacy"]["redactions"] == hidden
    if not more:
        assert f"{hidden} secrets hidden (--raw)".encode() in done.err
    raw = kept.run("ls-query", "--raw", *args)
    assert TOKEN.encode() in raw.out or not more
    assert b"REDACTED" not in raw.out and b"hidden" not in raw.err
    if "--json" in more:
        assert json.loads(raw.out)["privacy"]["redactions"] is None


@pytest.mark.parametrize("more", [(), ("--raw",), ("--no-rerank",), ("--fields", "title,url"), ("-n", "3")],
                         ids=" ".join)
def test_the_plan_hides_the_same(kept: Home, more: tuple[str, ...]) -> None:
    args = [*more, *PATIENT, *NOW, "async cancellation"]
    rows = kept.run("ls-query", "--jsonl", *args)
    plan = kept.run("ls-query", "--plan", *args)
    assert rows.out and kept.bash(plan.out).stdout == rows.out
    assert (b"ls-redact" in plan.out) is ("--raw" not in more)
    assert (TOKEN.encode() in rows.out) is ("--raw" in more)


def test_what_is_the_same_and_what_is_first_is_decided_before(kept: Home) -> None:
    """Two pages that differ in a secret alone stay two, with the order and the ids that they have without redaction."""
    args = [*PATIENT, *NOW, "-n", "20", "async cancellation"]
    shown = kept.run("ls-query", "--jsonl", *args).rows
    raw = kept.run("ls-query", "--jsonl", "--raw", *args).rows
    assert [row["id"] for row in shown] == [row["id"] for row in raw]
    assert sum("login.example" in row["url"] for row in shown) == 2
    for row, before in zip(shown, raw, strict=True):
        assert ("redacted" in row.get("meta", {})) is (row != before)


def test_no_file_makes_an_answer_raw(kept: Home) -> None:
    file = kept.config / "config.toml"
    file.write_text("[query]\nraw = true\n")
    file.chmod(0o600)
    done = kept.run("ls-query", "--jsonl", "async")
    assert (done.code, done.out) == (5, b"") and b"raw" in done.err
    file.unlink()
    done = kept.run("ls-query", "--query-file", "-", stdin=b'{"query":"async","raw":true}')
    assert (done.code, done.out) == (2, b"") and b"raw" in done.err


def test_sources_and_other_transforms_are_raw(kept: Home) -> None:
    done = kept.bash("ls-history async cancellation | ls-fuse | ls-rerank")
    assert TOKEN.encode() in done.stdout
    hidden = kept.bash("ls-history async cancellation | ls-fuse | ls-rerank | ls-redact")
    assert TOKEN.encode() not in hidden.stdout and b"access_token=REDACTED" in hidden.stdout
    # Ids and the order stay, so that what follows can still tell the rows from each other.
    before, after = ([orjson.loads(line)["id"] for line in out.splitlines()] for out in (done.stdout, hidden.stdout))
    assert before == after


ROWS = [
    {"source": "own", "url": "https://a.example/1", "title": "private", "provenance": {"private": True}},
    {"source": "own", "url": "https://a.example/2", "title": "unmarked"},
    {"source": "own", "url": "https://a.example/3", "title": "marked oddly", "provenance": {"retriever": "own"}},
    {"source": "own", "url": f"https://b.example/?token={TOKEN}", "title": "public", "provenance": {"private": False}},
]


def lines(*rows: object) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def test_public_leaves_out_what_is_private_or_not_marked(home: Home) -> None:
    report = home.root / "report.json"
    done = home.run("ls-redact", "--public", "--report", str(report), stdin=lines(*ROWS))
    assert done.code == 0, done.err
    assert b"a.example" not in done.out + report.read_bytes()
    assert [row["title"] for row in done.rows] == ["public"]
    assert json.loads(report.read_bytes())["counts"] == {"private_dropped": 3, "redactions": 1}


def test_public_over_a_private_and_a_public_source(kept: Home) -> None:
    public = kept.home / "handbook"
    public.mkdir()
    (public / "async.md").write_text(f"# Async for everyone\n\nasync token={TOKEN}\n")
    grants = json.loads((kept.config / "consent.json").read_bytes())["grants"]
    kept.consent(*grants, {"family": "files", "path": str(public), "public": True})
    report = kept.root / "report.json"
    done = kept.bash(f"ls-fuse <(ls-history async) <(ls-rg --words async {public}) |"
                     f" ls-redact --public --report {report}")
    rows = [orjson.loads(line) for line in done.stdout.splitlines()]
    assert [row["title"] for row in rows] == ["async.md"]
    for private in (b"example", b"chromium", b"firefox", b"history", *SECRETS):
        assert private not in done.stdout
    shown = kept.bash(f"ls-fuse <(ls-history async) <(ls-rg --words async {public}) | ls-show --as jsonl --public")
    assert b"chromium" not in shown.stdout and TOKEN.encode() in shown.stdout
    assert json.loads(report.read_bytes())["counts"]["private_dropped"] > 2
    answer = kept.run("ls-query", "--jsonl", "--public", *PATIENT, "async")
    assert b"Async for everyone" in answer.out
    for private in (b"login.example", b"chromium", b"firefox", *SECRETS):
        assert private not in answer.out
    raw = kept.run("ls-query", "--jsonl", "--public", "--raw", *PATIENT, "async")
    assert TOKEN.encode() in raw.out and b"chromium" not in raw.out


@pytest.mark.parametrize("name", ["ls-redact", "ls-fuse", "ls-rerank", "ls-show"])
def test_messages_hide_what_rows_and_arguments_hold(home: Home, name: str) -> None:
    """Of a bad row they quote nothing; of a name that was given, all but its secrets."""
    report = home.root / "report.json"
    bad = lines({"source": f"https://ada:{PASSWORD}@x.example/?token={TOKEN}", "url": "u:"},
                {"source": "own", "url": "u:", "score": f"password: {PASSWORD}"})
    for form in ("text", "json"):
        done = home.run(name, "--report", str(report), "--log", form, "-", f"no file?token={TOKEN}", stdin=bad)
        assert done.code == 3 and b"token=REDACTED" in done.err, done.err
        for secret in SECRETS:
            assert secret not in done.err + report.read_bytes()


@pytest.mark.parametrize("args", [
    ("ls-rg", "async", "nowhere/KEY"), ("ls-history", "--profile", "KEY"),
    ("ls-query", "--json", "--profile", "chromium/KEY", "async")],
    ids=lambda args: args[0])
def test_reports_and_envelopes_hide_what_they_quote(home: Home, args: tuple[str, ...]) -> None:
    key, report = "ghp_" + TOKEN + TOKEN[:16], home.root / "report.json"
    done = home.run(*(arg.replace("KEY", key) for arg in args), "--report", str(report))
    assert done.code in (3, 4, 7), done
    assert json.loads(report.read_bytes())["skipped"] and b"REDACTED" in report.read_bytes()
    assert key.encode() not in done.out + done.err + report.read_bytes()


def test_a_row_never_grows_beyond_what_a_row_may_be(home: Home) -> None:
    """Every value of one letter becomes a mask of eight: the row is cut, and says so."""
    row = {"source": "own", "url": "https://x.example/?token=a", "text": "https://x.example/?" + "pwd=a&" * 170_000,
           "meta": {"one": ["https://x.example/?pwd=a"] * 1000}}
    assert len(orjson.dumps(row)) < 1 << 20
    report = home.root / "report.json"
    done = home.run("ls-redact", "--report", str(report), stdin=lines(row))
    assert done.code == 0, done.err
    assert len(done.out) < 1 << 20
    (shown,) = done.rows
    assert shown["url"] == "https://x.example/?token=REDACTED" and "text" not in shown
    assert shown["meta"]["redacted"] == ["meta.one", "text", "url"]
    assert any("cut" in note for note in json.loads(report.read_bytes())["notes"])
    assert home.run("ls-check", stdin=done.out).code == 0


def test_rows_without_secrets_pass_byte_for_byte(home: Home) -> None:
    pair = support.typical("ls-fuse")
    assert home.run("ls-redact", stdin=pair.stdin).out == home.run("ls-check", stdin=pair.stdin).out


def test_redacted_again_is_the_same(home: Home) -> None:
    once = home.typical("ls-redact").out
    report = home.root / "report.json"
    assert b"REDACTED" in once
    assert home.run("ls-redact", "--report", str(report), stdin=once).out == once
    assert json.loads(report.read_bytes())["counts"]["redactions"] == 0
