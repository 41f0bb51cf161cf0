"""ls-tabs over 200 tabs of a Chromium that runs, against the bare Target.getTargets round trip from Python."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from harness import Case, environment, measure, scratch

TABS = 200
FLOOR = """
import json, sys
from websockets.sync.client import connect
port, path = open(sys.argv[1]).read().split()
with connect(f"ws://127.0.0.1:{port}{path}", proxy=None, max_size=None) as socket:
    socket.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
    print(socket.recv())
"""
PAGE = "data:text/html,<title>Tab {0}</title><p>Page {0} of the benchmark. " + "Words to read. " * 200
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync", "--disable-extensions", "--password-store=basic",
           "--remote-debugging-port=0")


@contextlib.contextmanager
def chromium(home: str, root: str, tabs: int) -> Iterator[str]:
    """One with so many tabs, all loaded; gives the file that says its port."""
    from websockets.sync.client import connect

    process = subprocess.Popen(
        [shutil.which("chromium") or "chromium", *OPTIONS, f"--user-data-dir={root}"], start_new_session=True,
        env={"HOME": home, "PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    try:
        file = os.path.join(root, "DevToolsActivePort")
        while not (os.path.exists(file) and os.path.getsize(file) > 40):
            if process.poll() is not None:
                raise SystemExit("chromium did not start")
            time.sleep(0.05)
        with open(file) as told:
            port, path = told.read().split()
        with connect(f"ws://127.0.0.1:{port}{path}", proxy=None, max_size=None) as socket:
            for number in range(tabs):
                socket.send(json.dumps({"id": number, "method": "Target.createTarget", "params": {
                    "url": PAGE.format(number), "background": True}}))
            loaded = 0
            while loaded < tabs:
                time.sleep(0.2)
                socket.send(json.dumps({"id": tabs, "method": "Target.getTargets"}))
                while (answer := json.loads(socket.recv()))["id"] != tabs:
                    pass
                loaded = sum(one["title"].startswith("Tab ") for one in answer["result"]["targetInfos"])
        yield file
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> bool:
    """Run the rows of the table."""
    if shutil.which("chromium") is None:
        raise SystemExit("chromium is not installed")
    with scratch() as home:
        root = os.path.join(home, ".config/chromium")
        profile = os.path.join(root, "Default")
        os.makedirs(profile)
        env = environment(home)
        os.makedirs(env["LSPIPE_CONFIG_HOME"], 0o700)
        consent = os.path.join(env["LSPIPE_CONFIG_HOME"], "consent.json")
        with open(os.open(consent, os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
            json.dump({"v": 1, "grants": [{"family": "browser", "browser": "chromium", "profile": "Default",
                                           "data": ["tabs", "tab-text"], "path": profile}]}, out)
        with chromium(home, root, TABS) as file:
            floor = [sys.executable, "-c", FLOOR, file]
            met = [measure(Case(f"ls-tabs --from live, {TABS} tabs", ["ls-tabs", "--from", "live"], floor, 1.3), env),
                   measure(Case(f"ls-tabs --text, {TABS} tabs", ["ls-tabs", "--text"], floor, 4.0), env)]
    return all(met)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
