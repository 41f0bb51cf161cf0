"""ls-qmd over 1,000 notes, against `qmd search` of the same words."""

import os
import sys

from harness import ROOT, Case, environment, measure, scratch
from orchestration import files, grants

WORDS = ("word17", "word23")


def main() -> bool:
    """The row of the table; nothing where there is no qmd, which is said."""
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    from pathlib import Path

    import support

    if not support.qmd_folders():
        print("ls-qmd: no qmd with Node >= 22 on PATH or in LSPIPE_TEST_QMD: not measured")
        return True
    with scratch() as home:
        env = environment(home)
        env["PATH"] = os.pathsep.join([*support.qmd_folders(), env["PATH"]])
        notes = os.path.join(home, "notes")
        os.makedirs(notes)
        files(notes, 1_000, 3)
        support.make_wiki(Path(home), Path(notes))
        grants(env, {"family": "wiki"})
        qmd = support.shutil.which("qmd", path=env["PATH"])
        assert qmd is not None
        return measure(Case("ls-qmd over 1,000 notes, two words", ["ls-qmd", "-n", "20", " ".join(WORDS)],
                            [qmd, "search", "--format", "json", "-n", "20", " ".join(WORDS)], 1.2), env)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
