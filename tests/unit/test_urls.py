"""Urls: canonical form, hosts, words, and file urls from bytes."""

import os
import urllib.parse

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lspipe import urls

schemes = st.sampled_from(["http", "HTTPS", "https", "file", "FILE", "qmd", "chrome", "data", "ftp", "", "x"])
authorities = st.text(alphabet="aAİzß.:@[]0134489xn-%", max_size=12)
bits = st.text(alphabet="aAzZ/%2f0utm_gcl=&?#:~.-+é\ud800 \n", max_size=16)
queries = st.lists(
    st.sampled_from(["utm_source=a", "utm_=", "gclid=1", "fbclid", "a=b", "", "utmx=1", "=", "UTM_x=1"]), max_size=4
).map("&".join)
fragments = st.sampled_from(["", "#", "#top", "#!/r", "#a=b", "#:~:text=x", "#a:~:text=x:~:text=y", "#/r:~:text=x"])
built = st.builds(
    lambda scheme, authority, path, query, fragment: (
        f"{scheme}{':' if scheme else ''}{authority}{path}{'?' + query if query else ''}{fragment}"
    ),
    schemes, st.one_of(st.just(""), authorities.map("//".__add__)), bits, queries, fragments,
)
anything = st.one_of(built, st.text(max_size=40), bits)


@given(anything)
@example("http://a:80:80/")
@example("http://:80/")
@example("file:///%zz%00")
@example("HTTP://İ/")
def test_nothing_raises_and_canonical_is_idempotent(url: str) -> None:
    once = urls.canonical(url)
    assert urls.canonical(once) == once
    urls.url_words(url)
    assert "".join(urls.split(url)) is not None
    stored, letters = urls.host_forms(url)
    assert stored == urls.host(url) == urls.split(url)[0]
    assert urls.unicode_host(letters) == letters


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTPS://Docs.RS/Tokio", "https://docs.rs/Tokio"),
        ("https://docs.rs:443/", "https://docs.rs"), ("http://docs.rs:80", "http://docs.rs"),
        ("http://docs.rs:443/", "http://docs.rs:443"), ("https://docs.rs:/x", "https://docs.rs/x"),
        ("http://[::1]:80/", "http://[::1]"), ("http://[::1]/", "http://[::1]"),
        ("https://docs.rs/a/", "https://docs.rs/a/"), ("https://docs.rs//", "https://docs.rs//"),
        ("https://docs.rs/?q=1", "https://docs.rs/?q=1"),
        ("https://docs.rs/?utm_source=x#top", "https://docs.rs"),
        ("https://a.b/x?utm_source=1&q=%2F&utm_medium=2&gclid=3&fbclid", "https://a.b/x?q=%2F"),
        ("https://a.b/x?utm_source=1", "https://a.b/x"), ("https://a.b/x?", "https://a.b/x?"),
        ("https://a.b/x?utmost=1&mygclid=2", "https://a.b/x?utmost=1&mygclid=2"),
        ("https://a.b/x#Section-2.1_b", "https://a.b/x"), ("https://a.b/x#", "https://a.b/x"),
        ("https://a.b/x#!/route", "https://a.b/x#!/route"), ("https://a.b/#/route", "https://a.b/#/route"),
        ("https://a.b/x#a=b", "https://a.b/x#a=b"), ("https://a.b/x#:~:text=some%20words", "https://a.b/x"),
        ("https://a.b/x#top:~:text=w", "https://a.b/x"), ("https://a.b/#/r:~:text=w", "https://a.b/#/r"),
        ("https://User:Pass@A.b/", "https://User:Pass@a.b"),
        ("https://a.b/%7Eme/caf%c3%a9", "https://a.b/%7Eme/caf%c3%a9"),
        ("chrome://Settings/", "chrome://settings"), ("chrome://a/#top", "chrome://a/#top"),
        ("qmd://Notes/A.md", "qmd://Notes/A.md"), ("about:blank", "about:blank"), ("a b", "a b"), ("", ""),
        ("data:text/plain,A#b", "data:text/plain,A#b"), ("mailto:Me@Example.org", "mailto:Me@Example.org"),
        ("FILE://localhost/a%20b(1)#l", "file:///a%20b%281%29"), ("file:///a%c3%a9", "file:///a%C3%A9"),
        ("file:///é", "file:///%C3%A9"), ("file://server/x", "file://server/x"),
    ],
)
def test_canonical_examples(url: str, canonical: str) -> None:
    assert urls.canonical(url) == canonical


def test_http_and_https_stay_apart() -> None:
    assert urls.canonical("http://a.b/") != urls.canonical("https://a.b/")


@pytest.mark.parametrize(
    ("url", "host", "letters"),
    [
        ("https://Docs.RS:8443/x", "docs.rs", "docs.rs"), ("https://u:p@docs.rs/", "docs.rs", "docs.rs"),
        ("https://xn--mnchen-3ya.de/", "xn--mnchen-3ya.de", "münchen.de"),
        ("https://münchen.de/", "münchen.de", "münchen.de"),
        ("https://XN--WGV71A119E.jp", "xn--wgv71a119e.jp", "日本語.jp"),
        ("http://[::1]:80/", "[::1]", "[::1]"), ("file:///x", "", ""), ("docs.rs/x", "", ""),
        ("qmd://Notes/x", "Notes", "notes"),
        # Labels that stand for nothing, for plain ASCII, for the syntax of a url, or are too long.
        ("http://xn--a.b/", "xn--a.b", "xn--a.b"), ("http://xn--abc-/", "xn--abc-", "xn--abc-"),
        ("http://xn--99999999999/", "xn--99999999999", "xn--99999999999"), ("http://xn--/", "xn--", "xn--"),
        ("http://xn--" + "a" * 90 + "/", "xn--" + "a" * 90, "xn--" + "a" * 90),
    ],
)
def test_hosts(url: str, host: str, letters: str) -> None:
    assert urls.host_forms(url) == (host, letters)


@given(st.text(alphabet="äöü日本語abc-é", min_size=1, max_size=20))
def test_a_label_survives_the_way_to_ascii_and_back(label: str) -> None:
    name = urls.ascii_host(label)
    assert name.isascii()
    assert urls.unicode_host(name) == label
    assert urls.ascii_host(name) == name


def test_no_label_is_decoded_to_something_that_reads_as_another_url() -> None:
    for letters in ("ä。com", "ä．com", "ä⒈com", "ä／x", "Ä", "a\u0308", "ä\u3000x", "ä\x85", "plain"):
        label = "xn--" + letters.encode("punycode").decode("ascii")
        assert urls.unicode_host(label) == label


@given(st.binary(max_size=60).filter(lambda path: b"\0" not in path))
def test_a_path_survives_its_url(path: bytes) -> None:
    path = b"/" + path
    url = urls.file_url(path)
    assert url.isascii() and url.isprintable()
    assert url == "file://" + urllib.parse.quote_from_bytes(path, safe="/")
    assert urls.file_path(url) == path
    assert urls.canonical(url) == url


@pytest.mark.parametrize("path", [b"", b"a/b", b"/a\0b"])
def test_a_path_without_a_url_is_refused(path: bytes) -> None:
    with pytest.raises(ValueError):
        urls.file_url(path)


@pytest.mark.parametrize(
    "url", ["https://a.b/", "file://server/x", "file:x", "file:", "", "file:///a%00b", "file:///\ud800", "/etc/passwd"]
)
def test_a_url_without_a_path_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        urls.file_path(url)


def test_file_paths() -> None:
    assert urls.file_path("file:///a%20b%FF?x#y") == b"/a b\xff"
    assert urls.file_path("FILE://LOCALHOST/a%2Fb") == b"/a/b"
    assert urls.file_path("file:///100%/%zz/% a/%4") == b"/100%/%zz/% a/%4"
    assert urls.file_path("file:///é") == os.fsencode("/é")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://Docs.rs/caf%C3%A9/a-b?q=x%20y&z#s%C3%A4", "docs.rs /café/a-b q=x y&z sä"),
        ("https://u:secret@xn--mnchen-3ya.de/", "xn--mnchen-3ya.de münchen.de /"),
        ("https://a.b/%FF%41", "a.b /\ufffdA"), ("https://a.b/100%", "a.b /100%"),
        ("file:///a%20b", "/a b"),
        ("data:text/html;base64,QUJD", "text/html;base64"), ("about:blank", "blank"), ("", ""),
        ("words", "words"),
    ],
)
def test_the_words_of_a_url(url: str, words: str) -> None:
    assert urls.url_words(url) == words


def test_a_huge_url_is_searched_in_part() -> None:
    assert len(urls.url_words("https://a.b/" + "x" * 5_000_000)) < 2 * urls.SEARCHED


def test_split_gives_back_what_is_stored() -> None:
    assert urls.split("https://U@Docs.rs:8/A%20b?Q#F") == ("docs.rs", "/A%20b", "?Q#F")
    assert urls.split("") == ("", "", "")


@pytest.mark.parametrize(("url", "expected"), [
    ("http://user:secret@a.test:80/x?q=a@b#c", "http://a.test:80/x?q=a@b#c"),
    ("http://a.test/x@y", "http://a.test/x@y"),
    ("HTTP://M\u00dcNCHEN.test/\u00fc", "HTTP://xn--mnchen-3ya.test/\u00fc"),
    ("http://u@\u4f8b\u3048.test:8765/", "http://xn--r8jz45g.test:8765/"),
    ("http://\u2100.test/", "http://\u2100.test/"),
    ("data:text/html,a@b", "data:text/html,a@b"), ("//u@a.test/", "//u@a.test/"), ("", ""), ("file:///x", "file:///x"),
])
def test_what_a_history_makes_of_an_address(url: str, expected: str) -> None:
    assert urls.recorded(url) == expected


@given(st.text(max_size=60))
def test_recorded_addresses_stay_as_they_are(text: str) -> None:
    once = urls.recorded(f"http://{text}")
    assert urls.recorded(once) == once
