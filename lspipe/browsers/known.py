"""The table of browsers: names, engines, roots on Linux and macOS, and the files that hold each kind of data (pure)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Browser(NamedTuple):
    """A browser. Roots begin with what they are relative to: `home`, `config` (XDG) or `mac`; `*` is any one name."""

    name: str
    engine: str
    roots: tuple[str, ...]


def _chromium(name: str, folder: str, mac: str, *, flatpak: str = "", snaps: Sequence[str] = ()) -> Browser:
    roots = [f"config/{folder}", *(f"home/snap/{snap}" for snap in snaps)]
    if flatpak:
        roots.append(f"home/.var/app/{flatpak}/config/{folder}")
    return Browser(name, "chromium", (*roots, f"mac/{mac}"))


#: A derived browser is one more line. Of two roots of one browser the first keeps the plain profile names.
BROWSERS: tuple[Browser, ...] = (
    _chromium("chromium", "chromium", "Chromium", flatpak="org.chromium.Chromium",
              snaps=("chromium/common/chromium", "chromium/*/.config/chromium")),
    _chromium("chrome", "google-chrome", "Google/Chrome", flatpak="com.google.Chrome"),
    _chromium("chrome-beta", "google-chrome-beta", "Google/Chrome Beta", flatpak="com.google.ChromeBeta"),
    _chromium("chrome-dev", "google-chrome-unstable", "Google/Chrome Dev", flatpak="com.google.ChromeDev"),
    _chromium("chrome-canary", "google-chrome-canary", "Google/Chrome Canary"),
    _chromium("brave", "BraveSoftware/Brave-Browser", "BraveSoftware/Brave-Browser", flatpak="com.brave.Browser",
              snaps=("brave/*/.config/BraveSoftware/Brave-Browser",)),
    _chromium("brave-beta", "BraveSoftware/Brave-Browser-Beta", "BraveSoftware/Brave-Browser-Beta"),
    _chromium("brave-nightly", "BraveSoftware/Brave-Browser-Nightly", "BraveSoftware/Brave-Browser-Nightly"),
    _chromium("brave-origin", "BraveSoftware/Brave-Origin", "BraveSoftware/Brave-Origin"),
    _chromium("edge", "microsoft-edge", "Microsoft Edge", flatpak="com.microsoft.Edge"),
    _chromium("edge-beta", "microsoft-edge-beta", "Microsoft Edge Beta"),
    _chromium("edge-dev", "microsoft-edge-dev", "Microsoft Edge Dev", flatpak="com.microsoft.EdgeDev"),
    _chromium("vivaldi", "vivaldi", "Vivaldi", flatpak="com.vivaldi.Vivaldi"),
    _chromium("vivaldi-snapshot", "vivaldi-snapshot", "Vivaldi Snapshot"),
    Browser("firefox", "firefox", (
        "home/.mozilla/firefox", "config/mozilla/firefox", "home/snap/firefox/common/.mozilla/firefox",
        "home/.var/app/org.mozilla.firefox/.mozilla/firefox",
        "home/.var/app/org.mozilla.firefox/config/mozilla/firefox", "mac/Firefox")),
    Browser("librewolf", "firefox", (
        "home/.librewolf", "config/librewolf/librewolf",
        "home/.var/app/io.gitlab.librewolf-community/.librewolf", "mac/LibreWolf")),
)

FILES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "chromium": {
        "history": ("History",), "downloads": ("History",), "bookmarks": ("Bookmarks", "AccountBookmarks"),
        "tabs": ("Sessions", "Current Session", "Last Session", "Current Tabs", "Last Tabs"),
        "reading": ("Sync Data/LevelDB",), "tab-text": ("DevToolsActivePort",),
    },
    "firefox": {
        "history": ("places.sqlite",), "downloads": ("places.sqlite",), "bookmarks": ("places.sqlite",),
        "tabs": ("sessionstore.jsonlz4", "sessionstore-backups", "zen-sessions.jsonlz4", "zen-sessions-backup",
                 "containers.json"),
    },
}
