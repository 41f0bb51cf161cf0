"""The table of browsers: names, engines, roots on Linux and macOS, and the files that hold each kind of data (pure)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Browser(NamedTuple):
    """A browser. Roots begin with what they are relative to: `home`, `config` and `data` (XDG), `mac` (Application
    Support) or `library` (macOS); `*` is any one name."""

    name: str
    engine: str
    roots: tuple[str, ...]


def _chromium(name: str, folder: str, mac: str, *, flatpak: Sequence[str] = (), snaps: Sequence[str] = ()) -> Browser:
    roots = [f"config/{folder}", *(f"home/snap/{snap}" for snap in snaps)]
    roots += [f"home/.var/app/{app}/config/{folder}" for app in flatpak]
    return Browser(name, "chromium", (*roots, f"mac/{mac}"))


def _firefox(name: str, roots: Sequence[str], mac: str, *, flatpak: Sequence[str] = ()) -> Browser:
    """The XDG root, in `config`, is what Firefox 147 and its children use where the older one never was."""
    return Browser(name, "firefox", (*roots, *(f"home/.var/app/{place}" for place in flatpak), f"mac/{mac}"))


#: A derived browser is one more line. Of two roots of one browser the first keeps the plain profile names.
BROWSERS: tuple[Browser, ...] = (
    _chromium("chromium", "chromium", "Chromium", flatpak=["org.chromium.Chromium"],
              snaps=["chromium/common/chromium", "chromium/*/.config/chromium"]),
    Browser("ungoogled-chromium", "chromium", (
        "config/ungoogled-chromium",
        "home/.var/app/io.github.ungoogled_software.ungoogled_chromium/config/chromium",
        "home/.var/app/com.github.Eloston.UngoogledChromium/config/chromium")),
    _chromium("chrome", "google-chrome", "Google/Chrome", flatpak=["com.google.Chrome"]),
    _chromium("chrome-beta", "google-chrome-beta", "Google/Chrome Beta", flatpak=["com.google.ChromeBeta"]),
    _chromium("chrome-dev", "google-chrome-unstable", "Google/Chrome Dev", flatpak=["com.google.ChromeDev"]),
    _chromium("chrome-canary", "google-chrome-canary", "Google/Chrome Canary"),
    _chromium("brave", "BraveSoftware/Brave-Browser", "BraveSoftware/Brave-Browser", flatpak=["com.brave.Browser"],
              snaps=["brave/*/.config/BraveSoftware/Brave-Browser"]),
    _chromium("brave-beta", "BraveSoftware/Brave-Browser-Beta", "BraveSoftware/Brave-Browser-Beta"),
    _chromium("brave-nightly", "BraveSoftware/Brave-Browser-Nightly", "BraveSoftware/Brave-Browser-Nightly"),
    _chromium("brave-origin", "BraveSoftware/Brave-Origin", "BraveSoftware/Brave-Origin"),
    _chromium("brave-origin-beta", "BraveSoftware/Brave-Origin-Beta", "BraveSoftware/Brave-Origin-Beta"),
    _chromium("brave-origin-nightly", "BraveSoftware/Brave-Origin-Nightly", "BraveSoftware/Brave-Origin-Nightly"),
    _chromium("edge", "microsoft-edge", "Microsoft Edge", flatpak=["com.microsoft.Edge"]),
    _chromium("edge-beta", "microsoft-edge-beta", "Microsoft Edge Beta"),
    _chromium("edge-dev", "microsoft-edge-dev", "Microsoft Edge Dev", flatpak=["com.microsoft.EdgeDev"]),
    Browser("edge-canary", "chromium", ("mac/Microsoft Edge Canary",)),
    _chromium("vivaldi", "vivaldi", "Vivaldi", flatpak=["com.vivaldi.Vivaldi"], snaps=["vivaldi/*/.config/vivaldi"]),
    _chromium("vivaldi-snapshot", "vivaldi-snapshot", "Vivaldi Snapshot"),
    # Opera keeps its files in the root itself, newer ones in `Default` below it.
    _chromium("opera", "opera", "com.operasoftware.Opera", flatpak=["com.opera.Opera"],
              snaps=["opera/*/.config/opera"]),
    _chromium("opera-beta", "opera-beta", "com.operasoftware.OperaNext", snaps=["opera-beta/*/.config/opera-beta"]),
    _chromium("opera-developer", "opera-developer", "com.operasoftware.OperaDeveloper",
              snaps=["opera-developer/*/.config/opera-developer"]),
    _chromium("opera-gx", "opera-gx", "com.operasoftware.OperaGX"),
    _chromium("thorium", "thorium", "Thorium"),
    _chromium("helium", "net.imput.helium", "net.imput.helium"),
    _chromium("yandex", "yandex-browser", "Yandex/YandexBrowser"),
    Browser("arc", "chromium", ("mac/Arc/User Data",)),
    Browser("dia", "chromium", ("mac/Dia/User Data",)),
    Browser("comet", "chromium", ("mac/Comet",)),
    Browser("atlas", "chromium", ("mac/com.openai.atlas/browser-data/host",)),
    _firefox("firefox", ["home/.mozilla/firefox", "config/mozilla/firefox",
                         "home/snap/firefox/common/.mozilla/firefox",
                         "home/snap/firefox/common/.config/mozilla/firefox"], "Firefox",
             flatpak=["org.mozilla.firefox/.mozilla/firefox", "org.mozilla.firefox/config/mozilla/firefox"]),
    _firefox("librewolf", ["home/.librewolf", "config/librewolf/librewolf", "config/librewolf"], "LibreWolf",
             flatpak=["io.gitlab.librewolf-community/.librewolf",
                      "io.gitlab.librewolf-community/config/librewolf/librewolf"]),
    _firefox("zen", ["home/.zen", "config/zen"], "zen",
             flatpak=["app.zen_browser.zen/.zen", "app.zen_browser.zen/config/zen", "io.github.zen_browser.zen/.zen"]),
    _firefox("waterfox", ["home/.waterfox", "config/waterfox"], "Waterfox",
             flatpak=["net.waterfox.waterfox/.waterfox"]),
    _firefox("floorp", ["home/.floorp", "config/floorp"], "Floorp", flatpak=["one.ablaze.floorp/.floorp"]),
    Browser("safari", "safari", ("library/Safari", "library/Containers/com.apple.Safari/Data/Library/Safari")),
    Browser("orion", "orion", ("mac/Orion",)),
    Browser("orion-rc", "orion", ("mac/Orion RC",)),
    Browser("epiphany", "epiphany", ("data/epiphany", "home/.var/app/org.gnome.Epiphany/data/epiphany")),
)

#: Beside the profiles of a Chromium: on which port it listens, if it does.
PORT = "../DevToolsActivePort"

FILES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "chromium": {
        "history": ("History", "Sync Data/LevelDB"), "downloads": ("History",),
        "bookmarks": ("Bookmarks", "AccountBookmarks"),
        "tabs": ("Sessions", "Current Session", "Last Session", "Current Tabs", "Last Tabs",
                 "Sync Data/LevelDB", PORT),
        "reading": ("Sync Data/LevelDB",), "tab-text": (PORT,),
    },
    "firefox": {
        "history": ("places.sqlite",), "downloads": ("places.sqlite",), "bookmarks": ("places.sqlite",),
        "tabs": ("sessionstore.jsonlz4", "sessionstore-backups", "zen-sessions.jsonlz4", "zen-sessions-backup",
                 "containers.json", "synced-tabs.db"),
    },
    # Safari keeps some of these beside a profile, one file for all of them: `places` says where.
    "safari": {
        "history": ("History.db",), "downloads": ("Downloads.plist",), "bookmarks": ("Bookmarks.plist",),
        "tabs": ("SafariTabs.db", "LastSession.plist", "CloudTabs.db"), "reading": ("Bookmarks.plist",),
    },
    "orion": {
        "history": ("history",), "bookmarks": ("favourites.plist",), "reading": ("reading_list.plist",),
    },
    "epiphany": {
        "history": ("ephy-history.db",), "bookmarks": ("bookmarks.gvdb",), "tabs": ("session_state.xml",),
    },
}

#: Files that lie outside the profile, by browser and kind of data; the path is from the profile's directory.
BESIDE: Mapping[tuple[str, str], str] = {("arc", "bookmarks"): "../../StorableSidebar.json"}
