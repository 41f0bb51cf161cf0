"""Folders by the environment, and what is refused because others own it or can write it."""

import os
import socket
import stat
from pathlib import Path

import pytest

from lspipe import paths
from lspipe.exits import Precondition

VARIABLES = ("LSPIPE_CONFIG_HOME", "LSPIPE_STATE_HOME", "LSPIPE_CACHE_HOME",
             "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME")
HOMES = {
    paths.config_home: ("LSPIPE_CONFIG_HOME", "XDG_CONFIG_HOME", ".config"),
    paths.state_home: ("LSPIPE_STATE_HOME", "XDG_STATE_HOME", ".local/state"),
    paths.cache_home: ("LSPIPE_CACHE_HOME", "XDG_CACHE_HOME", ".cache"),
}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.skipif(os.uname().sysname == "Darwin", reason="macOS has folders of its own")
def test_our_variable_wins_then_xdg_then_home(home, monkeypatch) -> None:
    own, xdg, below = HOMES[home]
    monkeypatch.setenv("HOME", "/home/someone")
    assert home() == f"/home/someone/{below}/lspipe"
    monkeypatch.setenv(xdg, "relative/is/ignored")
    assert home() == f"/home/someone/{below}/lspipe"
    monkeypatch.setenv(xdg, "/xdg/")
    assert home() == "/xdg/lspipe"
    monkeypatch.setenv(own, "/own/place/")
    assert home() == "/own/place"


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("value", [None, "", "not/absolute"])
@pytest.mark.skipif(os.uname().sysname == "Darwin", reason="macOS has folders of its own")
def test_no_home_is_a_precondition(home, value, monkeypatch) -> None:
    if value is not None:
        monkeypatch.setenv("HOME", value)
    with pytest.raises(Precondition, match="HOME is not set"):
        home()


def test_our_variable_may_be_relative_and_needs_a_working_directory_then(tmp_path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setenv("LSPIPE_STATE_HOME", "state")
    assert paths.state_home() == str(gone / "state")
    gone.rmdir()
    with pytest.raises(Precondition, match="working directory is gone"):
        paths.state_home()


def test_run_root_is_below_the_state_home(monkeypatch) -> None:
    monkeypatch.setenv("LSPIPE_STATE_HOME", "/s")
    assert paths.run_root() == "/s/run"


def test_ensure_dir_makes_every_missing_level_private(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    before = os.umask(0)
    try:
        assert paths.ensure_dir(str(deep)) == str(deep)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(p.stat().st_mode) for p in (deep, deep.parent, deep.parent.parent)] == [0o700] * 3
    assert paths.ensure_dir(str(deep)) == str(deep)


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(Precondition, match="others can write it"):
        paths.ensure_dir(str(folder))


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(Precondition, match="not a folder"):
        paths.ensure_dir(str(tmp_path / "f"))
    with pytest.raises(Precondition, match="Not a directory"):
        paths.ensure_dir(str(tmp_path / "f" / "below"))


def test_a_link_of_ours_is_followed_a_broken_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "broken").symlink_to("nowhere")
    assert paths.ensure_dir(str(tmp_path / "link")) == str(tmp_path / "link")
    with pytest.raises(Precondition):
        paths.ensure_dir(str(tmp_path / "broken"))


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    os.chown(other, 12345, 12345)
    with pytest.raises(Precondition, match="belongs to another user"):
        paths.ensure_dir(str(other))
    with pytest.raises(Precondition, match="belongs to another user"):
        paths.ensure_dir(str(other / "below"))
    assert not list(other.iterdir())
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "planted").symlink_to("mine")
    os.chown(tmp_path / "planted", 12345, 12345, follow_symlinks=False)
    with pytest.raises(Precondition, match="another user's symbolic link"):
        paths.ensure_dir(str(tmp_path / "planted"))
    (tmp_path / "file").write_text("x")
    os.chown(tmp_path / "file", 12345, 12345)
    with pytest.raises(Precondition, match="belongs to another user"):
        paths.open_private(str(tmp_path / "file"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_made_is_a_precondition(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Precondition, match="cannot make the folder"):
        paths.ensure_dir(str(tmp_path / "new"))


def test_open_private_makes_0600_and_opens_again(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        descriptor = paths.open_private(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.fstat(descriptor).st_mode) == 0o600
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)
    os.close(paths.open_private(str(tmp_path / "f")))
    with pytest.raises(FileNotFoundError):
        paths.open_private(str(tmp_path / "missing"))


def test_open_private_refuses_links_fifos_sockets_folders_and_open_modes(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "f").chmod(0o600)
    (tmp_path / "link").symlink_to("f")
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "loose").write_text("x")
    (tmp_path / "loose").chmod(0o620)
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name in ("link", "fifo", "socket", "loose", "."):
            with pytest.raises(Precondition):
                paths.open_private(str(tmp_path / name))


def test_check_private_takes_a_descriptor(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "f").chmod(0o602)
    with open(tmp_path / "f", "rb") as file, pytest.raises(Precondition, match="an open file: others can"):
        paths.check_private(file.fileno())
    (tmp_path / "f").chmod(0o600)
    with open(tmp_path / "f", "rb") as file:
        assert paths.check_private(file.fileno()).st_size == 1
