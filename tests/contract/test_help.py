"""Help, versions and wrong options: the same words in every executable, on a screen of 80 columns."""

import os
import re

import click
import pytest
import support

from lspipe import __version__

each = pytest.mark.parametrize("one", support.executables(), ids=str)

#: The options that mean the same everywhere, and those of the class.
EVERYWHERE = {
    "--limit", "--exit-status", "--timeout", "--now", "--report", "--stats", "--log", "--debug", "--schema",
    "--sandbox-report", "--require-sandbox", "--version", "--help",
}
BY_KIND = {
    "source": {"--since", "--until", "--profile", "--max-chars", "--strict", "--line-buffered"},
    "transform": {"--strict", "--line-buffered"},
    "sink": {"--strict", "--line-buffered"},
    "porcelain": set(),
}
SHORT = {"-n": "--limit", "-h": "--help"}


def options(one: support.Executable) -> list[click.Option]:
    return [param for param in one.cli.params if isinstance(param, click.Option)]


@each
def test_h_and_help_are_equal_and_end_well(one: support.Executable, bare: support.Home) -> None:
    long, short = bare.run(one.name, "--help"), bare.run(one.name, "-h")
    assert (long.code, long.err) == (0, b"")
    assert long == short
    assert not bare.runs and not bare.state.exists(), "help must not touch the disk"


@each
def test_help_reads_from_the_top(one: support.Executable, bare: support.Home) -> None:
    text = bare.run(one.name, "--help").out.decode()
    lines = text.splitlines()
    assert lines[0].startswith(f"Usage: {one.name}")
    assert one.cli.summary in " ".join(text.split())
    places = [text.index(title) for title in ("\nExamples:", "\nCommon options:")]
    assert places == sorted(places)
    assert not [line for line in lines if len(line) > 80]
    assert not [line for line in lines if line != line.rstrip()]
    assert text.endswith("\n") and not text.endswith("\n\n")


@each
def test_help_has_two_examples_that_name_it(one: support.Executable) -> None:
    assert len(one.cli.examples) >= 2
    for example in one.cli.examples:
        assert one.name in example and len(example) <= 78


@each
def test_every_option_is_explained_in_one_sentence(one: support.Executable) -> None:
    for option in options(one):
        assert option.help and option.help[0].isupper() and option.help.endswith("."), option.name


@each
def test_the_shared_options_are_there_and_mean_the_same(one: support.Executable) -> None:
    have = {name: option for option in options(one) for name in option.opts}
    assert EVERYWHERE | BY_KIND[one.kind] <= set(have)
    first = {name: option for option in options(support.executables()[0]) for name in option.opts}
    for name in EVERYWHERE:
        assert have[name].help == first[name].help and have[name].opts == first[name].opts, name


def test_one_short_letter_has_one_long_name_in_all_of_them() -> None:
    """-q is the query everywhere it exists. ls-rg keeps the letters that rg gave to its users."""
    meaning: dict[str, tuple[str, str]] = {}
    for one in support.executables():
        if one.name == "ls-rg":
            continue
        for option in options(one):
            longs = [name for name in option.opts if name.startswith("--")]
            for short in (name for name in option.opts if not name.startswith("--")):
                before = meaning.setdefault(short, (longs[0], one.name))
                assert before[0] == longs[0], f"{short} is {before[0]} in {before[1]}, {longs[0]} in {one.name}"


@each
def test_every_short_option_has_a_long_name(one: support.Executable) -> None:
    for option in options(one):
        assert any(name.startswith("--") for name in option.opts), option.opts
        for name in option.opts:
            assert re.fullmatch(r"--[a-z][a-z0-9-]*|-[A-Za-z0-9]", name), name
    have = {short: option for option in options(one) for short in option.opts}
    for short, long in SHORT.items():
        assert long in have[short].opts


@each
def test_a_wrong_option_is_refused_and_the_nearest_named(one: support.Executable, bare: support.Home) -> None:
    nearest_of = {"--reprot=x": "--report", "--sandbox-reprot": "--sandbox-report"}
    for wrong, nearest in nearest_of.items():
        done = bare.run(one.name, wrong)
        assert (done.code, done.out) == (2, b"")
        support.assert_one_line(done.err, one.name)
        assert nearest in done.err.decode()
    assert not bare.state.exists()


@pytest.mark.parametrize("one", [
    one for one in support.executables() if one.kind == "source" or one.name == "ls-query"], ids=str)
@pytest.mark.parametrize("times", [
    ("2026-11-30", "2026-11-29"), ("7d", "30d"), ("today", "yesterday"),
    ("2026-07-20T10:00:00Z", "2026-07-20T09:59:59.999999Z"),
], ids=" ".join)
def test_a_range_of_time_that_is_reversed_is_refused(
    one: support.Executable, times: tuple[str, str], bare: support.Home,
) -> None:
    since, until = times
    done = bare.run(one.name, "--now", support.NOW, "--since", since, "--until", until, "word")
    assert (done.code, done.out) == (2, b"")
    assert done.err.decode() == f"{one.name}: --until is before --since\n"
    done = bare.run(one.name, "--now", support.NOW, "--since", since, "--until", since, "word")
    assert done.code == 5, "an instant and a day are ranges too; here nothing is granted"


def test_the_columns_of_tsv_are_named(bare: support.Home) -> None:
    shown = " ".join(bare.run("ls-show", "--help").out.decode().split())
    assert "without, tsv has rank, score, source, title, url." in shown
    row = b'{"source":"mine","url":"x:","title":"T","rank":1,"score":2}\n'
    named = bare.run("ls-show", "--as", "tsv", "--fields", "rank,score,source,title,url", stdin=row)
    assert bare.run("ls-show", "--as", "tsv", stdin=row).out == named.out == b"1\t2\tmine\tT\tx:\n"


OF_WORDS = ["ls-history", "ls-bookmarks", "ls-tabs", "ls-downloads", "ls-reading", "ls-qmd", "ls-query"]


@pytest.mark.parametrize("name", OF_WORDS)
def test_a_word_that_is_left_out_gets_advice(name: str, bare: support.Home) -> None:
    for wrong, said in (("-async", "No such option '-a'"), ("-nightly", "Invalid value for '-n'")):
        done = bare.run(name, "rust", wrong, "--since", "7d")
        assert (done.code, done.out) == (2, b"")
        first, hint = done.err.decode().splitlines()
        assert first.startswith(f"{name}: {said}")
        assert hint == f"to leave a word out: {name} --since 7d -- rust {wrong}"


@pytest.mark.parametrize(("name", "args", "hint"), [
    ("ls-history", ["-k8s", "rust"], "ls-history -- -k8s rust"),
    ("ls-history", ["-n5", "rust", "-async", "-harmful", "--", "x"], "ls-history -n5 -- rust -async -harmful x"),
    ("ls-history", ["it's", "-a\x1b\xff", "$x"], "ls-history -- 'it'\"'\"'s' $'-a\\x1b\\xff' '$x'"),
    ("ls-history", ["password=hunter2hunter2", "-async"], "ls-history -- password=REDACTED -async"),
    ("ls-query", ["rust", "-token", "--json", "-q"], "ls-query --json -q -- rust -token"),
    ("ls-rg", ["--words", "-t", "py", "rust", "-async", "notes"], "ls-rg --words -t py -- 'rust -async' notes"),
    ("ls-rg", ["--words", "-async", "rust", "notes"], "ls-rg --words -- '-async rust' notes"),
])
def test_the_advice_is_made_of_what_was_typed(
    name: str, args: list[str], hint: str, bare: support.Home,
) -> None:
    done = bare.run(name, *(arg.encode("latin-1") for arg in args))
    assert (done.code, done.out) == (2, b"")
    assert done.err.decode().splitlines()[1:] == [f"to leave a word out: {hint}"]


@pytest.mark.parametrize(("name", "args"), [
    ("ls-history", ["-x"]), ("ls-history", ["-since", "7d"]), ("ls-history", ["-n", "many", "rust"]),
    ("ls-history", ["-n5x"]), ("ls-history", ["--reprot", "-async"]), ("ls-rg", ["rust", "-async"]),
    ("ls-fuse", ["-async"]), ("ls-consent", ["-async"]),
])
def test_what_is_no_word_gets_none(name: str, args: list[str], bare: support.Home) -> None:
    done = bare.run(name, *args)
    assert done.code == 2 and done.err.decode().splitlines()[1:] == [f"try: {name} --help"]


@each
def test_options_are_never_abbreviated(one: support.Executable, bare: support.Home) -> None:
    done = bare.run(one.name, "--vers")
    assert (done.code, done.out) == (2, b"")


@each
@pytest.mark.parametrize("wrong", [
    ["--limit", "-1"], ["--limit", "many"], ["--limit"], ["--timeout", "soon"], ["--now", "then"], ["--log", "xml"],
], ids=" ".join)
def test_a_wrong_value_is_refused_in_one_line(one: support.Executable, wrong: list[str], bare: support.Home) -> None:
    done = bare.run(one.name, *wrong, stdin=b"")
    assert (done.code, done.out) == (2, b"")
    support.assert_one_line(done.err, one.name)


@each
def test_errors_of_usage_are_json_too_where_that_is_asked_for(one: support.Executable, bare: support.Home) -> None:
    import orjson

    from lspipe import schema

    for args in (["--log=json", "--reprot"], ["--limit", "x", "--log", "json"]):
        done = bare.run(one.name, *args)
        assert (done.code, done.out) == (2, b"")
        (line,) = done.err.splitlines()
        error = orjson.loads(line)
        assert schema.explain("error", error) == []
        assert (error["command"], error["level"], error["code"]) == (one.name, "error", 2)


@each
def test_the_version_is_one_line(one: support.Executable, bare: support.Home) -> None:
    done = bare.run(one.name, "--version")
    assert (done.code, done.out, done.err) == (0, f"{one.name} {__version__}\n".encode(), b"")


@each
def test_the_schema_is_the_file(one: support.Executable, bare: support.Home) -> None:
    done = bare.run(one.name, "--schema")
    if one.cli.emits is None:
        assert (done.code, done.out) == (2, b"")
        support.assert_one_line(done.err, one.name)
    else:
        assert (done.code, done.err) == (0, b"")
        assert done.out == (support.ROOT / "schemas" / f"{one.cli.emits}.schema.json").read_bytes()


@each
def test_help_needs_no_home_and_no_folder(one: support.Executable, bare: support.Home) -> None:
    gone = bare.root / "gone"
    gone.mkdir()
    env = bare.env(HOME=None, LSPIPE_CONFIG_HOME=None, LSPIPE_STATE_HOME=None, LSPIPE_CACHE_HOME=None)
    lost = bare.run(one.name, "--help", env=env, cwd=gone, before=lambda: os.rmdir(gone))
    assert lost == bare.run(one.name, "--help")


@each
def test_help_does_not_depend_on_the_locale_or_the_terminal(one: support.Executable, bare: support.Home) -> None:
    plain = bare.run(one.name, "--help")
    for changes in ({"LC_ALL": "C", "PYTHONIOENCODING": "latin-1"},
                    {"COLUMNS": "200", "TERM": "xterm-256color", "FORCE_COLOR": "1"}):
        assert bare.run(one.name, "--help", env=bare.env(**changes)) == plain


BROKEN = ("[show\n", "[show]\nnone = 1\n[query]\nnone = 1\n", "[show]\nlimit = -1\n[query]\nlimit = -1\n")


@pytest.mark.parametrize("one", [one for one in support.executables() if one.name in ("ls-show", "ls-query")], ids=str)
def test_a_broken_configuration_is_one_line_and_help_still_helps(one: support.Executable, bare: support.Home) -> None:
    good = bare.run(one.name, "--help")
    for text in BROKEN:
        configure(bare, text)
        assert bare.run(one.name, "--help") == good
        done = bare.run(one.name, stdin=b"")
        assert done.code in (2, 5) and done.out == b""
        support.assert_one_line(done.err, one.name)


@pytest.mark.parametrize("one", [one for one in support.executables() if one.name not in ("ls-show", "ls-query")],
                         ids=str)
def test_no_other_reads_a_configuration(one: support.Executable, bare: support.Home) -> None:
    configure(bare, BROKEN[0])
    assert b"config.toml" not in bare.run(one.name, stdin=b"").err


def configure(home: support.Home, text: str) -> None:
    config = home.config / "config.toml"
    config.write_text(text)
    config.chmod(0o600)
