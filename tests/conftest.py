"""What every test may use: an isolated home, and what was measured on the way."""

import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

TESTS = Path(__file__).resolve().parent
for folder in (TESTS, TESTS.parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import support  # noqa: E402
import teeth  # noqa: E402

# Where the suite was started with nohup or in the background, what it starts would ignore these signals, and mean it.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# A slow machine must not fail a good program.
# In a copy without a guard (tests/teeth.py) that something fails is enough: no smaller example is looked for.
PHASES = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain) or not teeth.is_copy()]
# With CI=true the same examples each time: what is red then is red for a change. Elsewhere new ones are searched for.
SAME = os.environ.get("CI") == "true" and not teeth.is_copy()
# Where coverage is measured a few examples go everywhere that many go; and the same ones find the same again.
EXAMPLES = 10 if os.environ.get("LSPIPE_COVERAGE") else 60 if SAME else 100
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=PHASES,
                          derandomize=SAME, max_examples=EXAMPLES)
settings.load_profile("untimed")


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest) -> support.Home:
    """A home of its own with the sample state and grants to all of it; nothing of the real one is in reach.

    With a wiki where a test is about ls-qmd: it does not run where there is no qmd.
    """
    return support.Home(tmp_path, sample=True, wiki=_about_qmd(request))


def _about_qmd(request: pytest.FixtureRequest) -> bool:
    """Whether a parameter of the test is ls-qmd, or its typical golden pair."""
    call = getattr(request.node, "callspec", None)
    return call is not None and not {"ls-qmd", "ls-qmd--typical"}.isdisjoint(map(str, call.params.values()))


@pytest.fixture
def bare(tmp_path: Path) -> support.Home:
    """A home of its own with nothing in it and no grant."""
    return support.Home(tmp_path)


@pytest.fixture(autouse=True)
def nothing_left_open(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A file that a test leaves open makes this process look like a browser that has it loaded (tests/cdpserver.py)."""
    before = _open_files(tmp_path_factory)
    yield
    left = _open_files(tmp_path_factory) - before
    assert not left, f"left open: {sorted(left)}"


def _open_files(factory: pytest.TempPathFactory) -> set[str]:
    """What this process has open below the folders of tests; nothing where there is no /proc."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/self/fd/{name}"))
    return {path for path in found if path.startswith(f"{factory.getbasetemp()}/")}


#: Folders whose tests may use the network.
CONNECTED = (TESTS / "browsers", TESTS / "install")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent in CONNECTED:
            item.add_marker(pytest.mark.network)


#: What tests say of what they tried, a line each: `record_property("count", "28 runs beside 160,000 swaps")`.
SAID: list[str] = []
#: Why tests were not run, and how many.
NOT_RUN: Counter[str] = Counter()
#: The reasons that are none to fail for where everything must run: these folders are no programs to install, and
#: what only root can try, .ci/run tries as root.
ELSEWHERE = ("no real profiles", "no collections", "only root")


#: What tests counted: `record_property("count: points killed", 12)`, added up over all of them.
COUNTED: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        for name, value in report.user_properties:
            if name.startswith("count: "):
                COUNTED[name.removeprefix("count: ")] += int(str(value))
            elif name == "count":
                SAID.append(str(value))
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        NOT_RUN[reason.removeprefix("Skipped: ")] += 1


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With CI=true a test that could not run is a failure."""
    failed = any(not reason.startswith(ELSEWHERE) for reason in NOT_RUN)
    if failed and exitstatus == 0 and os.environ.get("CI") == "true":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Times that are measured and shown, never asserted: a busy machine must not fail a good program."""
    if support.MEASURED:
        name, seconds = max(support.MEASURED, key=lambda pair: pair[1])
        terminalreporter.write_line(
            f"{len(support.MEASURED)} ends by a signal, slowest {seconds * 1000:.0f} ms ({name})"
        )
    if COUNTED:
        terminalreporter.write_line("counted: " + "; ".join(f"{name}: {COUNTED[name]}" for name in sorted(COUNTED)))
    for line in sorted(SAID):
        terminalreporter.write_line(line)
    if NOT_RUN:
        why = "; ".join(f"{count} x {reason}" for reason, count in NOT_RUN.most_common())
        terminalreporter.write_line(f"not run: {NOT_RUN.total()} ({why})")
