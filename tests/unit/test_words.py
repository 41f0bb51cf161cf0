"""The query language: folding, tokens, parsing, matching, coverage."""

import math
import re
import sqlite3
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lspipe import folding, matching, row, words
from lspipe.matching import Field, Match, Matcher
from lspipe.words import parse

#: Letters that are awkward to fold or to cut, beside what hypothesis draws by itself.
AWKWARD = (
    "aBcİıIßſﬁﬀǅǆⅫ½①㏂ﷺΣςσée\u0301\u0308\u0345\u200d\u200b\u00ad\u202e_-.9٣ 東京カがﾊﾞ\u3099"
    "한ㅎㅏㄴ\u1112\u1161\u11ab\u0627\u0640\u0650मि\U0001d504𠮷\ud800"
)
texts = st.text(alphabet=st.one_of(st.sampled_from(AWKWARD), st.characters()), max_size=40)
hangul = st.text(
    alphabet=st.sampled_from("\u1100\u1112\u1161\u1175\u11a8\u11c2\u11a7한하ㅏㅎㄴa \u0301"), max_size=12
)
anything = st.one_of(texts, hangul, st.text(max_size=40), st.text(alphabet="abAB1 _-.\"':", max_size=40))


def matches(query: str, text: str, name: str = "title") -> float:
    """The strength of a one-word query in one field, 0.0 for no match."""
    found = Matcher(parse(query)).match([Field(name, text)])
    return max(found.strengths) if found else 0.0


# Folding


@given(anything)
def test_fold_is_idempotent(text: str) -> None:
    assert folding.fold(folding.fold(text)) == folding.fold(text)


@given(anything)
def test_fold_is_the_same_for_every_normalization_form(text: str) -> None:
    forms = {folding.fold(unicodedata.normalize(form, text)) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert forms == {folding.fold(text)}


@given(anything)
def test_fold_leaves_no_marks_and_no_case(text: str) -> None:
    folded = folding.fold(text)
    assert not any(unicodedata.category(char).startswith("M") for char in folded)
    assert folded == folded.casefold()


def test_fold_of_every_character() -> None:
    for code in (*range(0x32400), *range(0xE0000, 0xE0200)):  # Beyond, nothing is assigned but private use.
        once = folding.fold(chr(code))
        assert folding.fold(once) == once == unicodedata.normalize("NFKC", once), hex(code)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Straße", "strasse"), ("GROẞ", "gross"), ("Müller", "muller"), ("cafe\u0301", "cafe"),
        ("İstanbul", "istanbul"), ("ISIRGAN", "isirgan"), ("ısırgan", "isirgan"),
        ("ΣΊΣΥΦΟΣ", "σισυφοσ"), ("ﬁle", "file"), ("Ⅻ", "xii"), ("ｆｕｌｌ", "full"), ("①", "1"),
        ("ﾊﾞﾝｸﾞ", folding.fold("バング")), ("مُحَمَّد", "محمد"), ("مـحـمـد", "محمد"), ("أحمد", "احمد"),
        ("한국", "한국"), (unicodedata.normalize("NFD", "한국"), "한국"), ("שָׁלוֹם", "שלום"),
        ("soft\u00adware", "software"), ("\u202eabc", "abc"), ("a\u200bb", "a\u200bb"),
        ("𝔘nicode", "unicode"),
    ],
)
def test_fold_examples(text: str, folded: str) -> None:
    assert folding.fold(text) == folded


# Tokens


@given(anything)
@example("㏂").via("one character that holds two tokens")
@example("가\u11a8a각\u11a8")
def test_a_token_is_the_fold_of_its_place(text: str) -> None:
    for token in folding.tokens(text):
        place = text[token.start : token.end]
        assert 0 <= token.start < token.end <= len(text)
        # A single character such as ½ can fold to more than the token, with a sign between.
        whole = folding.fold(place)
        assert token.text == whole or token.text in re.split(r"[\W_]+", whole)


@given(anything)
def test_tokens_are_letters_and_digits_in_order_and_all_of_them(text: str) -> None:
    found = folding.tokens(text)
    assert all(token.text.isalnum() for token in found)
    assert "".join(token.text for token in found) == re.sub(r"[\W_]", "", folding.fold(text))
    assert [token.start for token in found] == sorted(token.start for token in found)


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=40))
def test_the_ascii_path_gives_the_tokens_of_the_general_one(text: str) -> None:
    general = [token for token in folding.tokens(text + " é") if token.start < len(text)]
    assert general == folding.tokens(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fooBar_baz", "foo bar baz"), ("HTMLParser", "htmlparser"), ("utf8String x2Y", "utf8string x2y"),
        ("GitHub's API", "git hub s api"), ("caféBar cafe\u0301Bar", "cafe bar cafe bar"),
        ("東京Tower2020 非同期の", "東京 tower2020 非同期の"), ("カフェ・バー", "カフェ ハー"),
        ("한국어 API", "한국어 api"), ("e-mail: a.b@c", "e mail a b c"), ("½", "1 2"), ("+++ — …", ""),
        ("", ""),
    ],
)
def test_token_examples(text: str, expected: str) -> None:
    assert [token.text for token in folding.tokens(text)] == expected.split()


def test_token_places_are_in_the_text_as_it_was() -> None:
    text = "ﬁn Straße cafe\u0301s"
    assert [text[token.start : token.end] for token in folding.tokens(text)] == ["ﬁn", "Straße", "cafe\u0301s"]


def test_the_cjk_class_and_the_cjk_letters_are_the_same() -> None:
    inside = re.compile(f"[{folding.CJK}]")
    assert all(bool(inside.match(chr(code))) == folding.is_cjk(chr(code)) for code in range(0x33000))
    assert "".join(filter(folding.is_cjk, "東カがﾊ한ㄅaéя・。")) == "東カが한ㄅ"


# Parsing


@given(anything)
def test_parse_takes_every_text(text: str) -> None:
    query = parse(text)
    assert query.text == text
    for term in query.terms:
        assert term.words and all(term.words)
        assert term.field in (None, "title", "url", "site")
        assert term.key == " ".join(term.words)


def test_the_whole_language() -> None:
    query = parse('rust "Async  await" -java -"go lang" site:docs.rs -site:x.org title:tokio url:"a b')
    assert [(term.text, term.words, term.phrase, term.field, term.exclude) for term in query.terms] == [
        ("rust", ("rust",), False, None, False),
        ("Async  await", ("async", "await"), True, None, False),
        ("java", ("java",), False, None, True),
        ("go lang", ("go", "lang"), True, None, True),
        ("docs.rs", ("docs.rs",), False, "site", False),
        ("x.org", ("x.org",), False, "site", True),
        ("tokio", ("tokio",), False, "title", False),
        ("a b", ("a", "b"), True, "url", False),
    ]
    assert [term.text for term in query.wanted] == ["rust", "Async  await", "tokio", "a b"]
    assert [term.text for term in query.excluded] == ["java", "go lang"]
    assert [term.text for term in query.sites] == ["docs.rs"]
    assert [term.text for term in query.excluded_sites] == ["x.org"]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("--force", ["force"]), ("- --", []), ('""', []), ("+++ C++", ["c"]), ("node.js", ["node js"]),
        ("JavaScript fooBar", ["javascript", "foobar"]), ("snake_case", ["snake case"]),
        ("Python入門", ["python 入門"]), ("title: foo", ["title", "foo"]), ("foo:bar", ["foo bar"]),
        ("TITLE:foo", ["foo"]), ('say"hello you"', ["say", "hello you"]),
        ('"open to the end', ["open to the end"]),
        ("site:", ["site"]), ('title:"', []), ("a\u3000b\nc", ["a", "b", "c"]), ("", []), ("   ", []),
    ],
)
def test_parse_examples(text: str, keys: list[str]) -> None:
    assert [term.key for term in parse(text).terms] == keys


def test_a_word_twice_is_one_wanted_term_and_two_terms() -> None:
    query = parse("rust Rust")
    assert len(query.terms) == 2
    assert [term.text for term in query.wanted] == ["rust"]


def test_normalize_is_what_query_id_hashes() -> None:
    assert row.normalize_query("  a \n b ") == "a b"
    assert row.query_id(" a  b") == row.query_id(row.normalize_query(" a  b"))


# Matching


@pytest.mark.parametrize(
    ("query", "text", "strength"),
    [
        ("cancel", "Cancellation safety", 0.8), ("rust", "trust", 0.0), ("rust", "The Rust Book", 1.0),
        ("rust", "rusty rust", 1.0), ("github", "GitHub", 1.0), ("hub", "GitHub", 1.0),
        ("git", "GitHub", 1.0),
        ("ithub", "GitHub", 0.0), ("GitHub", "github", 1.0), ("JavaScript", "javascript", 1.0),
        ("getuser", "getUserName", 1.0), ("username", "getUserName", 1.0), ("usern", "getUserName", 0.8),
        ("parse", "HTMLParser", 0.0), ("bar", "foo_bar", 1.0), ("foo_bar", "foo bar", 1.0),
        ("foo-bar", "foobar", 0.0), ("node.js", "Node JS guide", 1.0), ("node.j", "Node JS", 0.8),
        ("nod.js", "node js", 0.0), ("strasse", "Straße", 1.0), ("STRASSE", "straße", 1.0),
        ("stras", "Straße", 0.8),
        ("muller", "Müller", 1.0), ("Müller", "Mu\u0308ller", 1.0), ("istanbul", "İSTANBUL", 1.0),
        ("istanbul", "ISTANBUL", 1.0), ("ısırgan", "ISIRGAN", 1.0), ("محمد", "مُحَمَّد", 1.0),
        ("file", "ﬁle", 1.0),
        ("京都", "東京都庁", 0.8), ("東京都庁", "東京都庁", 1.0), ("入門", "Python入門", 1.0),
        ("python", "Python入門", 1.0),
        ("Python入門", "Python 入門書", 0.8), ("学校", "初等學校", 0.0), ("학교", "초등학교", 0.8),
        ("한국", unicodedata.normalize("NFD", "한국어"), 0.8),
        ("하", unicodedata.normalize("NFD", "한"), 0.0),
        ("カフェ", "ｶﾌｪ", 1.0), ("tower", "東京Tower", 1.0), ("software", "soft\u00adware", 1.0),
    ],
)
def test_a_word_begins_a_token(query: str, text: str, strength: float) -> None:
    assert matches(query, text) == pytest.approx(strength)


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ('"async await"', "async/await", True), ('"async await"', "async_await", True),
        ('"git hub"', "GitHub", True),
        ('"async await"', "await async", False), ('"async await"', "async and await", False),
        ('"async await"', "async awaiting", False), ('"rust"', "rusty", False), ('"rust"', "a rust.", True),
        ('"東京 大学"', "東京大学", True), ('"東京"', "新東京駅", True), ('"a b"', "a a b", True),
        ('"don t"', "don't", True), ('"a b', "x a - b", True),
    ],
)
def test_a_phrase_is_adjacent_whole_tokens(query: str, text: str, found: bool) -> None:
    assert bool(matches(query, text)) is found


@given(anything, anything)
@example("a½", "1⁄2 1")
def test_what_matches_begins_a_token(query: str, text: str) -> None:
    """Whatever spans() marks is, folded, a text that begins with the term and begins where a token does."""
    parsed = parse(query)
    starts = {token.start for token in folding.tokens(text)}
    for start, end, number in matching.places(text, parsed):
        first = parsed.wanted[number].words[0]
        marked = folding.fold(text[start:end])
        assert first in marked
        assert start in starts or re.match(f"[{folding.CJK}]", first)


@given(anything)
def test_every_token_is_found_by_itself_and_by_its_beginning(text: str) -> None:
    for token in folding.tokens(text):
        for part in (token.text, token.text[:1]):
            term = words.Term(part, (part,))
            found = Matcher(words.Query(part, (term,))).match([Field("title", text)])
            assert found and found.strengths[0] >= matching.PREFIX


@given(anything, anything)
def test_matching_and_places_agree(query: str, text: str) -> None:
    parsed = parse(query)
    plain = words.Query(query, tuple(t._replace(field=None) for t in parsed.wanted))
    found = Matcher(plain).match([Field("text", text)])
    numbers = {number for _start, _end, number in matching.places(text, plain)}
    if plain.terms:
        assert {at for at, strength in enumerate(found.strengths) if strength} == numbers if found else not numbers


@given(anything, anything, st.floats(0.1, 9))
def test_strengths_are_one_per_wanted_term_and_scores_finite(query: str, text: str, weight: float) -> None:
    parsed = parse(query)
    found = Matcher(parsed).match([Field("title", text, weight), Field("host", text)])
    if found:
        assert len(found.strengths) == len(parsed.wanted)
        score = matching.coverage_score(found, parsed, 10, {})
        assert math.isfinite(score) and score >= 0
        assert (score > 0) == bool(found.terms)


def row_fields() -> list[Field]:
    return [
        Field("title", "Cancellation - Tokio docs", 2.0), Field("host", "docs.rs", 1.5),
        Field("path", "/tokio/latest", 1.0), Field("url", "docs.rs /tokio/latest q=async", 0.5),
    ]


def found(query: str, all_terms: bool = False) -> Match | None:
    return Matcher(parse(query), all_terms).match(row_fields())


def test_any_word_matches_and_all_terms_asks_for_every_one() -> None:
    assert found("tokio nothing") == Match(("tokio",), (2.0, 0.0))
    assert found("tokio nothing", all_terms=True) is None
    assert found("TOKIO Async", all_terms=True) == Match(("TOKIO", "Async"), (2.0, 0.5))
    assert found("nothing") is None


def test_the_best_field_counts() -> None:
    assert found("docs") == Match(("docs",), (2.0,))
    assert found("lat") == Match(("lat",), (0.8,))
    assert found("doc") == Match(("doc",), (1.6,))


def test_exclusions() -> None:
    assert found("tokio -java") is not None
    assert found("tokio -docs") is None
    assert found("-java") == Match((), ())
    assert found("-cancel") is None
    assert found('-"latest tokio"') == Match((), ())
    assert found('-"tokio latest"') is None
    assert found("-title:async") == Match((), ())


def test_field_terms_are_required_and_ranked() -> None:
    assert found("tokio title:cancel") == Match(("tokio", "cancel"), (2.0, 1.6))
    assert found("tokio title:latest") is None
    assert found("title:rs") is None
    assert found("url:latest") == Match(("latest",), (1.0,))
    assert found("url:cancellation") is None
    assert found("url:docs.rs/tokio") == Match(("docs.rs/tokio",), (0.5,))


def test_a_blank_query_matches_and_one_without_letters_does_not() -> None:
    assert found("") == found("  \n") == Match((), ())
    assert found("+++") is found("→") is found("- --") is None


@pytest.mark.parametrize(
    "form", ["xn--mnchen-3ya.de", "XN--MNCHEN-3YA.de", "münchen.de", "MÜNCHEN.DE", "mu\u0308nchen.de"]
)
@pytest.mark.parametrize("stored", ["xn--mnchen-3ya.de", "www.münchen.de", "münchen.de."])
def test_a_site_matches_in_both_forms(form: str, stored: str) -> None:
    fields = [Field("title", "Rathaus"), Field("host", stored)]
    assert Matcher(parse(f"site:{form}")).match(fields) == Match((), ())
    assert Matcher(parse(f"rathaus -site:{form}")).match(fields) is None
    assert Matcher(parse(f"rathaus site:{form} site:x.org")).match(fields) == Match(("rathaus",), (1.0,))


@pytest.mark.parametrize("query", ["münchen", "munchen", "xn--mnchen-3ya", "de", '"münchen de"', "url:münchen"])
@pytest.mark.parametrize("stored", ["xn--mnchen-3ya.de", "münchen.de", "xn--mnchen-3ya.de münchen.de"])
def test_a_word_finds_a_host_in_both_forms(query: str, stored: str) -> None:
    assert matches(query, stored, "host") == 1.0


@pytest.mark.parametrize(
    ("site", "url", "at"),
    [
        ("docs.rs", "https://docs.rs/x", True), ("docs.rs", "https://DOCS.rs:8443/x", True),
        ("docs.rs", "https://www.docs.rs/", True), ("docs.rs", "https://mydocs.rs/", False),
        ("docs.rs", "https://docs.rs.evil.example/", False), ("rs", "https://docs.rs/", True),
        ("docs", "https://docs.rs/", False), ("*.docs.rs", "https://a.docs.rs/", True),
        (".docs.rs.", "https://docs.rs/", True), ("https://docs.rs/y", "https://docs.rs/x", True),
        ("localhost:8080", "http://localhost:8080/", True), ("[::1]", "http://[::1]:80/", True),
        ("docs.rs", "file:///docs.rs", False), ("docs.rs", "docs.rs", False),
        ("munchen.de", "http://münchen.de/", False),
        ("straße.de", "https://xn--strae-oqa.de/", True),
    ],
)
def test_site_is_a_host_and_its_subdomains(site: str, url: str, at: bool) -> None:
    assert (Matcher(parse(f"site:{site}")).match([Field("url", url)]) is not None) is at
    assert (Matcher(parse(f"-site:{site}")).match([Field("url", url)]) is None) is at


@pytest.mark.parametrize(
    ("query", "text", "count"),
    [
        ("a", "a", 1), ('"a b"', "a ", 0), ("a.b", "a  b ", 2 * 10**4), ("京", "東京", 2 * 10**4),
        ("é", "ée", 1),
        ("한국", unicodedata.normalize("NFD", "한국"), 1),
        ("한국", unicodedata.normalize("NFD", "한국 "), 2 * 10**4),
    ],
)
def test_long_texts(query: str, text: str, count: int) -> None:
    """Milliseconds each; what looks at every place once for every other would not come to an end."""
    long = text * 2 * 10**4
    assert len(matching.spans(long, parse(query))) == count
    assert bool(matches(query, long)) == bool(count)


@pytest.mark.parametrize(("piece", "terms"), [('"', 0), ("-", 0), ("site:", 1), ("a ", 10**5), ('"a', 10**5)])
def test_long_queries(piece: str, terms: int) -> None:
    assert len(parse(piece * 10**5).terms) == terms


# Places


@given(anything, anything)
def test_spans_are_in_order_and_apart(query: str, text: str) -> None:
    last = -1
    for start, end in matching.spans(text, parse(query)):
        assert last < start < end <= len(text)
        last = end


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("cancel", "Cancellation, uncancelled", ["Cancel"]), ("strasse", "die Straße!", ["Straße"]),
        ("stra", "Straße", ["Stra"]), ("cafe", "un cafe\u0301.", ["cafe\u0301"]), ("fi", "ﬁle", ["ﬁ"]),
        ("京都", "東京都と京都", ["京都", "京都"]), ('"foo bar"', "a foo_bar", ["foo_bar"]),
        ("hub", "GitHub", ["Hub"]),
        ("한", unicodedata.normalize("NFD", "한국"), [unicodedata.normalize("NFD", "한")]),
        ("title:a site:b.c -d e", "a b.c d e", ["a", "e"]), ("ab a", "abc", ["ab"]), ("", "abc", []),
    ],
)
def test_span_examples(query: str, text: str, marked: list[str]) -> None:
    assert [text[start:end] for start, end in matching.spans(text, parse(query))] == marked


# Scores


def test_idf_is_the_formula_and_never_negative() -> None:
    assert matching.idf(100, 10) == pytest.approx(math.log(1 + 90.5 / 10.5))
    assert matching.idf(10, 10) > 0
    assert matching.idf(100, 1) > matching.idf(100, 2) > matching.idf(100, 100)


@given(st.integers(-5, 10**12), st.integers(-5, 10**12))
def test_idf_takes_figures_that_cannot_be(n: int, df: int) -> None:
    assert math.isfinite(matching.idf(n, df)) and matching.idf(n, df) >= 0


def test_coverage_is_rarity_times_strength() -> None:
    query = parse('rust "a b" -x site:y.org')
    match = Match(("rust", "a b"), (2.0, 0.8))
    expected = 2.0 * matching.idf(50, 5) + 0.8 * matching.idf(50, 1)
    assert matching.coverage_score(match, query, 50, {"rust": 5, "a b": 1}) == pytest.approx(expected)
    assert matching.coverage_score(Match((), ()), parse("-x"), 50, {}) == 0.0


# The SQL prefilter


@given(
    st.text(alphabet="abAB1 _-.\"':", max_size=12),
    st.text(alphabet=st.characters(min_codepoint=1, max_codepoint=127), max_size=30),
)
def test_the_prefilter_loses_no_ascii_row(query: str, text: str) -> None:
    parsed = parse(query)
    likes = matching.ascii_likes(parsed)
    if likes is not None and Matcher(parsed).match([Field("title", text), Field("url", text)]):
        with sqlite3.connect(":memory:") as base:
            assert any(base.execute("SELECT ? LIKE ?", (text, f"%{word}%")).fetchone()[0] for word in likes)


def test_prefilter_examples() -> None:
    assert matching.ascii_likes(parse('Rust "async await" node.js -x site:y.z rust')) == ["rust", "async", "node"]
    assert matching.ascii_likes(parse("Müller Straße")) == ["muller", "strasse"]
    assert matching.ascii_likes(parse("rust 東京")) is None
    assert matching.ascii_likes(parse("-x site:y.z")) is None
    assert matching.ascii_likes(parse("")) is None
