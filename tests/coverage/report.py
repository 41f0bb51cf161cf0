"""Put together what tests/coverage/sitecustomize.py measured in a folder, and print it: python report.py FOLDER."""

import sys
import tempfile
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parent.parent.parent


def main(folder: str) -> None:
    files = [path for path in Path(folder).iterdir() if path.stat().st_size]
    with tempfile.NamedTemporaryFile() as place:
        whole = coverage.CoverageData(place.name)
        for path in files:
            part = coverage.CoverageData(no_disk=True)
            part.loads(path.read_bytes())
            whole.update(part)
        whole.write()
        shown = coverage.Coverage(data_file=place.name, branch=True, source=[str(ROOT / "lspipe")], config_file=False)
        shown.load()
        shown.report(precision=1, skip_covered=True, show_missing=False, sort="cover")
    print(f"{len(files)} processes")


if __name__ == "__main__":
    main(sys.argv[1])
