"""narrow(): whatever is asked, what comes out lies within the grants."""

import os
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lspipe.narrow import (
    AUDIENCES,
    DATA,
    FAMILIES,
    Grant,
    Narrowed,
    Request,
    grant_command,
    narrow,
    plain_path,
    selects,
    within,
)

NOW = 1_700_000_000_000_000
YEAR_9999 = 253_402_300_799_999_999
HISTORY = Grant("browser", "chromium", "Default", data=("history",), path="/c/Default")

# Few names, so that paths and selectors meet often; some that look like tricks.
PARTS = st.sampled_from(
    ["a", "b", "ab", "..", ".", "", "é", "e\u0301", "link", "a ", "\udcff", "-n", "~", "*", "a\nb", "\0"]
)
ABSOLUTE = st.lists(PARTS, max_size=5).map(lambda parts: "/" + "/".join(parts))
PATHS = ABSOLUTE | st.lists(PARTS, max_size=3).map("/".join)
NAMES = st.sampled_from(["chromium", "firefox", "Default", "Profile 1", "Work", "Work/Home", "", "/", "*"])
SELECTORS = NAMES | st.tuples(NAMES, NAMES).map("/".join) | st.text(max_size=5)
TIMES = st.none() | st.sampled_from([0, NOW - 1, NOW, NOW + 1, YEAR_9999, -1])


@st.composite
def grants(draw):
    family = draw(st.sampled_from([*FAMILIES, "other"]))
    return Grant(
        family,
        browser=draw(st.none() | NAMES),
        profile=draw(st.none() | NAMES),
        collection=draw(st.none() | NAMES),
        data=draw(st.lists(st.sampled_from(DATA), unique=True).map(tuple)),
        audience=draw(st.lists(st.sampled_from(AUDIENCES), unique=True).map(tuple)),
        public=draw(st.booleans()),
        expires_at=draw(TIMES),
        path=draw(PATHS | PATHS.map(lambda path: plain_path(path) or "")),
    )


@st.composite
def requests(draw):
    return Request(
        draw(st.sampled_from([*FAMILIES, "other"])),
        data=draw(st.none() | st.sampled_from([*DATA, "cookies", ""])),
        profiles=tuple(draw(st.lists(SELECTORS, max_size=3))),
        paths=tuple(draw(st.lists(PATHS | PATHS.map(lambda path: path + "/"), max_size=3))),
        collections=tuple(draw(st.lists(NAMES, max_size=3))),
        audience=draw(st.sampled_from([*AUDIENCES, "", "root"])),
        names=draw(st.dictionaries(PATHS, NAMES, max_size=3)),
        now=draw(st.sampled_from([NOW, 0, 2**62])),
    )


@st.composite
def meeting(draw):
    """Grants in force and a request that could be for one of them: at random they hardly ever meet."""
    family = draw(st.sampled_from(FAMILIES))
    data = draw(st.sampled_from(DATA[:3])) if family == "browser" else None
    plain = st.lists(st.sampled_from(["a", "b", "ab", "é"]), max_size=3).map(lambda parts: "/" + "/".join(parts))
    some = draw(st.lists(st.builds(
        Grant, st.just(family), browser=NAMES, profile=NAMES, collection=st.none() | NAMES,
        data=st.just(()) if data is None else st.lists(st.sampled_from(DATA[:3]), min_size=1, unique=True).map(tuple),
        audience=st.sampled_from([("shell",), ("shell", "mcp"), ("mcp",)]), public=st.booleans(),
        expires_at=st.sampled_from([None, None, NOW - 1, NOW + 1]), path=plain), min_size=1, max_size=4))
    request = Request(
        family, data, audience="shell", now=NOW, profiles=tuple(draw(st.lists(SELECTORS, max_size=2))),
        paths=tuple(draw(st.lists(plain | PATHS, max_size=3))),
        collections=tuple(draw(st.lists(NAMES, max_size=2))))
    return some, request


ASKED = meeting() | st.tuples(st.lists(grants(), max_size=5), requests())


def inside(path: str, root: str) -> bool:
    """Containment said in another way than the code under test says it: by the parts of both."""
    return path.split("/")[: len(root.rstrip("/").split("/"))] == root.rstrip("/").split("/")


@given(ASKED)
@settings(max_examples=500)
def test_what_is_allowed_lies_within_the_grants(asked):
    given_grants, request = asked
    for scope in narrow(given_grants, request).allowed:
        grant = scope.grant
        assert grant in given_grants
        assert grant.family == request.family
        assert request.audience in grant.audience
        assert grant.expires_at is None or request.now < grant.expires_at
        if grant.family == "browser":
            assert request.data in grant.data
            assert scope.paths == (grant.path,)
        else:
            assert request.data is None
        for path in scope.paths:
            assert inside(path, grant.path)
            assert os.path.normpath(path) == path
            assert "\0" not in path
        for name in scope.collections:
            assert grant.collection in (None, name)
        if grant.family == "wiki" and grant.collection is not None:
            assert scope.collections == (grant.collection,)
        if grant.family != "wiki":
            assert scope.paths


@given(ASKED)
def test_a_selection_only_takes_away(asked):
    given_grants, request = asked
    whole = Request(request.family, request.data, audience=request.audience, now=request.now)
    everything = {scope.grant for scope in narrow(given_grants, whole).allowed}
    if request.family == "browser":  # Two grants of one path: either may answer for it.
        assert {s.grant.path for s in narrow(given_grants, request).allowed} <= {g.path for g in everything}
    else:
        assert {scope.grant for scope in narrow(given_grants, request).allowed} <= everything


@given(ASKED)
def test_every_request_has_an_answer(asked):
    given_grants, request = asked
    found = narrow(given_grants, request)
    assert found.allowed or found.refused
    if request.family == "files":
        answered = {path for scope in found.allowed for path in scope.paths}
        answered |= {refusal.path for refusal in (*found.refused, *found.partial)}
        for path in request.paths:
            assert path in answered or plain_path(path) in answered
    for refusal in (*found.refused, *found.partial):
        assert refusal.reason == "no-consent"
        assert refusal.detail
        assert shlex.split(refusal.command)[:2] == ["ls-consent", "grant"]


@given(st.lists(grants(), max_size=5), requests())
def test_one_more_grant_never_takes_anything_away(given_grants, request):
    before = {(s.grant, path) for s in narrow(given_grants, request).allowed for path in s.paths}
    more = Grant("files", path="/a")
    after = {(s.grant, path) for s in narrow([*given_grants, more], request).allowed for path in s.paths}
    assert before <= after


@given(ASKED)
def test_roots_cover_what_is_allowed_once(asked):
    given_grants, request = asked
    found = narrow(given_grants, request)
    for scope in found.allowed:
        for path in scope.paths:
            assert sum(within(path, root) for root in found.roots) == 1


@given(PATHS, PATHS)
def test_within_is_containment_by_parts(one, other):
    one, other = plain_path(one), plain_path(other)
    if one is not None and other is not None:
        assert within(one, other) == inside(one, other) == (os.path.commonpath([one, other]) == other)


@given(st.text(alphabet="/.ab\0\udcff", max_size=12))
def test_plain_path_is_normal_or_none(text):
    plain = plain_path(text)
    if plain is not None:
        assert plain_path(plain) == plain
        assert os.path.normpath(plain) == plain
        assert ".." not in text.split("/")


def ask(grants_, *paths, **more):
    found = narrow(grants_, Request("files", paths=paths, now=NOW, **more))
    return [path for scope in found.allowed for path in scope.paths], found


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/home/me/notes", ["/home/me/notes"]),
        ("/home/me/notes/", ["/home/me/notes"]),
        ("//home/me/./notes//a/", ["/home/me/notes/a"]),
        ("/home/me/notes/a/b.txt", ["/home/me/notes/a/b.txt"]),
        ("/home/me/notes2", []),
        ("/home/me/note", []),
        ("/home/me/notes/../secret", []),
        ("/home/me/notes/..", []),
        ("/home/me/Notes", []),
        ("home/me/notes", []),
        ("", []),
        ("/home/me/notes/\udcff", ["/home/me/notes/\udcff"]),
        ("/home/me/notes\0/../..", []),
        ("/home/me/notes/\0", []),
        ("/home/me", ["/home/me/notes"]),
        ("/", ["/home/me/notes"]),
    ],
)
def test_a_path_against_a_grant(path, allowed):
    found, narrowed = ask([Grant("files", path="/home/me/notes")], path)
    assert found == allowed
    assert len(narrowed.refused) == (0 if allowed else 1)


def test_a_folder_above_a_grant_gives_the_granted_part_and_says_so():
    notes, work = Grant("files", path="/home/me/notes"), Grant("files", path="/home/me/work")
    found, narrowed = ask([notes, work], "/home/me")
    assert found == ["/home/me/notes", "/home/me/work"]
    assert narrowed.refused == ()
    assert [refusal.path for refusal in narrowed.partial] == ["/home/me"]
    assert narrowed.partial[0].detail == "only as far as granted: /home/me/notes, /home/me/work"
    assert narrowed.partial[0].command == "ls-consent grant files /home/me"


@pytest.mark.parametrize("path", ["", "notes", "/notes/", "//notes", "/./notes", "/a/../notes", "/notes\0"])
def test_a_grant_of_a_path_that_is_not_plain_grants_nothing(path):
    for family, data in (("files", None), ("browser", "history")):
        grant = Grant(family, "chromium", "Default", data=("history",), path=path)
        for asked in ((), (path,), ("/notes",), ("/",)):
            assert narrow([grant], Request(family, data, paths=asked, now=NOW)).allowed == ()


def test_the_root_of_the_file_system_can_be_granted():
    assert ask([Grant("files", path="/")], "/etc/x", "/")[0] == ["/etc/x", "/"]


def test_no_path_is_every_granted_folder_in_the_order_of_the_file():
    found, narrowed = ask([Grant("files", path="/b"), Grant("files", path="/a"), Grant("files", path="/b/c")])
    assert found == ["/b", "/a", "/b/c"]
    assert narrowed.roots == ("/b", "/a")


def test_roots_keep_the_order_of_the_request():
    assert ask([Grant("files", path="/g")], "/g/z", "/g/a", "/g/z/y")[1].roots == ("/g/z", "/g/a")


def test_a_public_folder_inside_a_private_one_stays_public():
    home, site = Grant("files", path="/home"), Grant("files", path="/home/site", public=True)
    for paths in ((), ("/home",), ("/",), ("/home/site/a",), ("/home/site",)):
        narrowed = ask([home, site], *paths)[1]
        assert narrowed.is_public("/home/site/a/b") is True
        assert narrowed.is_public("/home/sitemap") is False
        assert narrowed.is_public("/home/x") is False


def test_an_expired_grant_says_when_it_ended():
    found, narrowed = ask([Grant("files", path="/a", expires_at=NOW)], "/a/b")
    assert found == []
    assert "2023-11-14T22:13:20" in narrowed.refused[0].detail
    assert ask([Grant("files", path="/a", expires_at=NOW + 1)], "/a/b")[0] == ["/a/b"]


def test_the_clock_of_a_request_is_the_real_one_unless_told():
    ended = Grant("files", path="/a", expires_at=NOW)
    assert narrow([ended], Request("files")).allowed == ()


def history(*selectors, audience="shell", data="history", grants_=(HISTORY,), names=None):
    request = Request("browser", data, profiles=selectors, audience=audience, now=NOW, names=names or {})
    return narrow(grants_, request)


@pytest.mark.parametrize("selector", ["chromium/Default", "Default", "chromium", "Me", "chromium/Me"])
def test_a_profile_by_each_of_its_names(selector):
    assert [s.grant for s in history(selector, names={"/c/Default": "Me"}).allowed] == [HISTORY]


@pytest.mark.parametrize("selector", ["chrome", "default", "chromium/", "/Default", "*", "", "Default/"])
def test_no_other_word_is_a_profile(selector):
    found = history(selector, names={"/c/Default": "Me"})
    assert found.allowed == ()
    assert len(found.refused) == 1


def test_a_shown_name_may_hold_a_slash():
    assert selects("a/b", "chromium", "Default", "a/b")
    assert selects("chromium/a/b", "chromium", "Default", "a/b")


def test_kinds_of_data_imply_nothing():
    for kind in DATA:
        grant = Grant("browser", "chromium", "Default", data=(kind,), path="/p")
        for other in DATA:
            assert bool(history(data=other, grants_=[grant]).allowed) is (other == kind)
    assert history(data=None).allowed == ()


def test_a_profile_granted_for_something_else_says_for_what():
    refusal, = history("chromium/Default", data="tabs").refused
    assert refusal.detail == "granted for history, not for tabs"
    assert (refusal.source, refusal.browser, refusal.profile) == ("tabs", "chromium", "Default")
    assert refusal.command == "ls-consent grant browser --data tabs chromium/Default"


def test_an_unknown_profile_is_refused_beside_a_known_one():
    found = history("Default", "firefox/x")
    assert [scope.grant for scope in found.allowed] == [HISTORY]
    assert [(r.browser, r.profile, r.detail) for r in found.refused] == [("firefox", "x", "no grant")]


def test_one_profile_is_read_once_however_often_it_is_granted():
    again = Grant("browser", "chromium", "Default", data=("history", "tabs"), path="/c/Default")
    ended = Grant("browser", "chromium", "Default", data=("history",), path="/c/Default", expires_at=1)
    found = history(grants_=[ended, HISTORY, again])
    assert [scope.grant for scope in found.allowed] == [HISTORY]
    assert found.refused == ()


def test_an_audience_is_never_implied():
    assert history(audience="mcp").allowed == ()
    refusal, = history(audience="mcp").refused
    assert refusal.detail == "granted to shell, not to mcp"
    assert refusal.command == (
        "ls-consent grant browser --data history --audience shell,mcp chromium/Default"
    )


def test_nothing_granted_names_the_command():
    for family, data, command in (
        ("browser", "bookmarks", "ls-consent grant browser --data bookmarks"),
        ("files", None, "ls-consent grant files ."),
        ("wiki", None, "ls-consent grant wiki"),
    ):
        found = narrow([], Request(family, data, now=NOW))
        assert [refusal.command for refusal in found.refused] == [command]


def test_a_command_is_quoted_for_the_shell():
    assert grant_command("files", "/a b/$(x)") == "ls-consent grant files '/a b/$(x)'"
    assert grant_command("browser", "-x", "history") == "ls-consent grant browser --data history -- -x"


def test_wiki_collections():
    notes, everything = Grant("wiki", collection="notes"), Grant("wiki")

    def names(grants_, *collections):
        found = narrow(grants_, Request("wiki", collections=collections, now=NOW))
        return [scope.collections for scope in found.allowed], [gone.collection for gone in found.refused]

    assert names([notes]) == ([("notes",)], [])
    assert names([notes], "notes", "diary") == ([("notes",)], ["diary"])
    assert names([everything]) == ([()], [])
    assert names([everything], "diary", "diary") == ([("diary",)], [])
    assert names([], "diary") == ([], ["diary"])


def test_a_wiki_grant_is_for_one_index():
    """An environment that leads qmd to another index, with a collection of the same name, gets nothing of it."""
    grant = Grant("wiki", collection="notes", index="/a/index.sqlite")

    def allowed(index):
        return bool(narrow([grant], Request("wiki", index=index, now=NOW)).allowed)

    assert [allowed(index) for index in ("/a/index.sqlite", None, "/b/index.sqlite", "/a", "")] == [
        True, True, False, False, False]
    refused, = narrow([grant], Request("wiki", collections=("notes",), index="/b/i", now=NOW)).refused
    assert refused.detail == "granted for another index of qmd, '/a/index.sqlite'"


def test_an_unknown_family_gets_nothing():
    assert narrow([Grant("mail", path="/a")], Request("mail", now=NOW)) == Narrowed(
        refused=narrow([], Request("mail", now=NOW)).refused
    )
