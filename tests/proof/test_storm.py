"""A storm of owners beside reapers; LSPIPE_STORM=SECONDS, and `make storm` for ten minutes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import support


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_nothing_is_left_and_nobody_is_harmed(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    seconds = os.environ.get("LSPIPE_STORM", "20")
    done = subprocess.run([sys.executable, str(support.ROOT / "tests/proof/storm.py"), seconds, str(tmp_path)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for name in ("owners", "killed", "reapers", "processes ended by reapers"):
        record_property(f"count: storm, {name}", said[name])
    assert said["folders"] == said["processes"] == said["undone"] == [], said
    assert said["decoys"] == [None] * len(said["decoys"]), said
    assert said["complaints"] == [] and said["last"] == "", said
    assert said["killed"] > 0 and said["processes ended by reapers"] > 0, said
