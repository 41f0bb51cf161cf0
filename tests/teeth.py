"""Each guard of the three promises, taken out of a copy of the checkout: the tests that notice, as a table.

    python tests/teeth.py [WORD]...

A guard is an exact piece of the source and what stands there without it. With words only the guards whose names hold
one of them are tried. CI tries all; `tests/contract/test_teeth.py` keeps the list true to the source.
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
#: What a copy of the checkout holds: all that the tests need, and nothing that they make.
COPIED = ("bin", "lspipe", "schemas", "tests", "examples", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md",
          "CONTRIBUTING.md", "Makefile", "SECURITY.md")
_MARK = "LSPIPE_TEST_WITHOUT_A_GUARD"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")


class Guard(NamedTuple):
    """A guard by what it does; `old` stands once in `file`, `new` is the same without it; `tests` must fail then.

    `root`: only root can tell.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    root: bool = False

    def __str__(self) -> str:
        return self.name


_RUNDIR, _LEDGER, _REMAINS = "lspipe/rundir.py", "lspipe/ledger.py", "lspipe/remains.py"
_IDENTITY, _SANDBOX, _RUNNER = "lspipe/identity.py", "lspipe/sandbox.py", "lspipe/runner.py"
_LOCKDOWN = "lspipe/lockdown.py"
_CONSENT, _NARROW, _PATHS, _LIVE = "lspipe/consent.py", "lspipe/narrow.py", "lspipe/paths.py", "lspipe/live.py"
_PINNED, _PINNED_TESTS = "lspipe/pinned.py", "tests/unit/test_pinned.py::"
_REAPER_TESTS, _LEDGER_TESTS = "tests/unit/test_reaper.py::", "tests/unit/test_ledger.py::"
_CONSENT_TESTS, _SANDBOX_TESTS = "tests/unit/test_consent.py::", "tests/unit/test_sandbox.py::"
_PORTS, _ENDPOINT, _CDP = "lspipe/browsers/ports.py", "lspipe/browsers/endpoint.py", "lspipe/browsers/cdp.py"
_LIVETABS, _CDP_TESTS = "lspipe/browsers/livetabs.py", "tests/unit/test_cdp.py::"
_CONTRACT = "tests/contract/test_contract.py::"

NOTHING_STAYS = (
    Guard("the lock says who is alive", _RUNDIR,
          """        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another""", "        # Another",
          (_LEDGER_TESTS + "test_sweep_removes_the_dead_and_leaves_the_living",)),
    Guard("a lock that was replaced is not believed", _RUNDIR,
          "if os.path.samestat(os.fstat(lock), os.lstat(name)):", "if True:",
          (_LEDGER_TESTS + "test_a_lock_that_was_replaced_between_the_look_and_the_lock_is_not_believed",)),
    Guard("a birth in progress is left alone", _RUNDIR,
          "return sure or time.time() - os.lstat(path).st_mtime > HALF_BORN_SECONDS", "return True",
          (_REAPER_TESTS + "test_a_birth_in_progress_is_kept",)),
    Guard("a signal when the parent dies", _LEDGER, "            prctl(death)\n", "            pass\n",
          ("tests/unit/test_child.py::test_the_program_dies_with_a_killed_owner",)),
    Guard("a parent that is dead already is noticed", _LEDGER,
          "if os.getppid() != self.run.pid:", "if False:",
          (_LEDGER_TESTS + "test_the_death_signal_is_checked_against_a_parent_that_is_dead_already",)),
    Guard("a row before the resource", _LEDGER,
          """        resource.write(f"{self._count}.json", row)\n""", "",
          ("tests/unit/test_child.py::test_the_row_is_there_before_the_program_and_says_who_it_is",)),
    Guard("the token finds what no row names", _REMAINS,
          "[(pid, carries_token) for pid in seen.tokens.get(run.name, ())]", "[]",
          (_REAPER_TESTS + "test_a_child_whose_pid_never_reached_a_row_is_known_by_its_token",)),
    Guard("start ticks tell two processes apart", _IDENTITY,
          "if ticks is not None and ticks != self.facts.start_ticks:", "if False:",
          (_REAPER_TESTS + "test_a_pid_that_is_somebody_else_by_now_is_not_signalled",)),
    Guard("the inode of the pidfd tells two processes apart", _IDENTITY,
          "if inode is not None and (self._descriptor < 0 or inode != _pidfs_inode(self._descriptor)):", "if False:",
          (_REAPER_TESTS + "test_a_pid_that_is_somebody_else_by_now_is_not_signalled",)),
    Guard("another boot is another process", _IDENTITY,
          """        if written.get("boot_id") != boot_id():
            return "another boot"\n""", "",
          (_REAPER_TESTS + "test_a_pid_that_is_somebody_else_by_now_is_not_signalled",)),
    Guard("what was attached to is never signalled", _REMAINS,
          """    if not row["owned"]:
        return "attached to, not ours", None\n""", "",
          (_REAPER_TESTS + "test_what_was_attached_to_is_never_signalled",)),
    Guard("a reaper spares itself and what started it", _REMAINS,
          """    if written["pid"] in spared:""", "    if False:",
          (_REAPER_TESTS + "test_a_row_that_names_the_reaper_or_what_started_it_ends_neither",)),
    Guard("a reaper spares what carries its own token", _REMAINS, "tried = spared | {", "tried = {",
          (_REAPER_TESTS + "test_a_reaper_never_ends_itself_or_what_started_it",)),
    Guard("the folder of a run is removed through no link", _RUNDIR,
          "seen = os.stat(name, dir_fd=folder, follow_symlinks=False)", "seen = os.stat(name, dir_fd=folder)",
          (_LEDGER_TESTS + "test_closing_removes_whatever_a_program_left_in_tmp_and_follows_no_link",)),
    Guard("a dry run does nothing", "lspipe/reaper.py",
          "            if apply:\n                _hide(", "            if True:\n                _hide(",
          (_REAPER_TESTS + "test_a_dry_run_says_what_the_real_one_does",)),
    Guard("the words of a query never reach the disk", _LEDGER,
          "names = [name for name in option_names if _OPTION.fullmatch(name)]", "names = list(option_names)",
          (_LEDGER_TESTS + "test_the_words_of_a_query_never_reach_the_disk",)),
)

NOTHING_LEAVES = (
    Guard("the filter of system calls", _SANDBOX,
          'filter_problem = seccomp.restrict(call, used < 3) if filtered else "no seccomp"', "filter_problem = None",
          (_CONTRACT + "test_the_sandbox_tries_its_own_denials[ls-check]",)),
    Guard("the rules for files", _SANDBOX,
          "problem = landlock.restrict(call, used, _grants(rules), not rules.may_signal)", "problem = None",
          (_CONTRACT + "test_the_sandbox_tries_its_own_denials[ls-history]",)),
    Guard("signals reach only what it started", "lspipe/landlock.py",
          "_SCOPE_ABSTRACT_SOCKET | (_SCOPE_SIGNAL if scope_signals else 0)", "_SCOPE_ABSTRACT_SOCKET",
          (_CONTRACT + "test_the_sandbox_tries_its_own_denials[ls-show]",)),
    Guard("no socket whose address comes with the data", "lspipe/seccomp.py",
          '"sendto": [_argument(4), _step(_JUMP_EQUAL, 0, 0, 2), _argument(4, high=True),',
          '"sendto": [_ALLOW, _argument(4), _step(_JUMP_EQUAL, 0, 0, 2), _argument(4, high=True),',
          (_SANDBOX_TESTS + "test_sockets_that_came_unconnected_reach_nobody",)),
    Guard("no call through another architecture's table", "lspipe/seccomp.py",
          "code += [_step(_JUMP_NOT_LESS, _X32, 0, 1), _REFUSE]", "pass",
          (_SANDBOX_TESTS + "test_calls_through_the_x32_table_are_refused",)),
    Guard("of root's privileges only reading stays", _SANDBOX,
          "    _drop_privileges(call, rules.may_signal)\n", "",
          (_SANDBOX_TESTS + "test_root_keeps_no_privilege_but_over_files",), root=True),
    Guard("it locks itself down while it is alone", _SANDBOX, "    if threads > 1:\n", "    if False:\n",
          (_SANDBOX_TESTS + "test_other_threads_are_a_bug",)),
    Guard("locked down before input is read", _RUNNER,
          "    if tool.locks or run.options.sandbox_report:\n        lockdown.enter(run)\n",
          "    if run.options.sandbox_report:\n        lockdown.enter(run)\n",
          ("tests/contract/test_frame.py::test_what_is_locked_down_before_any_input_is_read",)),
    Guard("the coordinator locks itself down", "lspipe/commands/query.py",
          "    line.start()\n    lockdown.enter(run)\n", "    line.start()\n",
          ("tests/contract/test_sandbox_promises.py::test_every_process_of_lspipe_locks_itself_down[ls-query]",)),
    Guard("a sandbox that is demanded is whole", _LOCKDOWN,
          "    if weak:\n        raise", "    if False:\n        raise",
          ("tests/contract/test_lesser_kernel.py::test_where_the_whole_is_demanded_nothing_is_read[neither-ls-check]",)),
    Guard("every stage knows that the whole sandbox is demanded", "lspipe/request.py",
          "    if query.require_sandbox:\n", "    if False:\n",
          ("tests/contract/test_lesser_kernel.py::test_each_stage_is_told_that_the_whole_is_demanded",)),
    Guard("a child knows little of our environment", "lspipe/child.py",
          "known = {name: os.environ[name] for name in _KEPT if name in os.environ}", "known = dict(os.environ)",
          ("tests/unit/test_child.py::test_the_environment_is_a_few_named_variables",)),
    Guard("the configuration of rg is not read", "lspipe/ripgrep.py",
          '["--no-config", "--no-ignore-global"]', '["--no-ignore-global"]',
          ("tests/unit/test_ripgrep.py::test_nothing_that_is_typed_becomes_an_option",
           "tests/pipeline/test_rg.py::test_a_configuration_of_rg_is_not_read")),
    Guard("no path becomes an option of rg", "lspipe/ripgrep.py",
          'return [*argv, "--file=-", "--", *roots]', 'return [*argv, "--file=-", *roots]',
          ("tests/unit/test_ripgrep.py::test_nothing_that_is_typed_becomes_an_option",)),
    Guard("a program that anybody can change is not run", "lspipe/child.py",
          "elif _anybody_writes(program) or _anybody_writes(os.path.realpath(program)):", "elif False:",
          ("tests/unit/test_child.py::test_a_program_that_anybody_can_change_is_passed_over",)),
    Guard("a debugging port is one of the loopback, as a literal", _PORTS,
          r"""re.compile(r"(127\.0\.0\.1|\[::1\]):""", r"""re.compile(r"([^:]+|\[.*\]):""",
          (_CDP_TESTS + "test_no_other_address[localhost:9222]",)),
    Guard("a connection leads where it was meant to", _ENDPOINT,
          "if found.getpeername()[:2] != self.address:", "if False:",
          (_CDP_TESTS + "test_a_connection_that_leads_elsewhere",)),
    Guard("a redirect is no answer", _ENDPOINT, "    if status == 200:\n", "    if status // 100 in (2, 3):\n",
          (_CDP_TESTS + "test_what_is_no_plain_answer_says_nothing",)),
    Guard("a port names the path of a browser's own socket", _ENDPOINT,
          "if found and ports.is_path(found[1]) and isinstance(", "if found and isinstance(",
          (_CDP_TESTS + "test_json_of_another_shape",)),
    Guard("of the url that a port tells only the path is taken", _ENDPOINT, "                return found[1]\n",
          """                host, port = facts["webSocketDebuggerUrl"].split("/")[2].split(":")
                wires.address = Address(host, int(port))
                wires.socket = wires._connect(limit.left())
                return found[1]\n""",
          (_CDP_TESTS + "test_a_websocket_on_another_host",)),
    Guard("a port has one deadline for all it says", _ENDPOINT,
          """        if left <= 0:
            raise Unusable("late", "its debugging port did not answer in time")
        return left\n""", "        return max(left, 1.0)\n",
          (_CDP_TESTS + "test_one_deadline_for_all_that_is_read",)),
    Guard("a port may say so much and no more", _ENDPOINT, "if self.bytes_left < 0:", "if False:",
          (_CDP_TESTS + "test_one_count_of_bytes_for_all_that_is_read",)),
    Guard("a message of a browser has a largest size", _CDP, "max_size=ANSWER_MOST", "max_size=None",
          (_CDP_TESTS + "test_messages_of_another_kind[a gigabyte announced]",)),
)

NOTHING_WITHOUT_CONSENT = (
    Guard("a request is narrowed", "lspipe/access.py",
          "return narrow(granted.grants, request)",
          "return Narrowed(tuple(Scope(grant, (grant.path,)) for grant in granted.grants))",
          ("tests/contract/test_consented.py::test_rows_lie_within_the_grants",
           "tests/contract/test_consented.py::test_what_is_not_granted_is_never_opened")),
    Guard("a path outside the grants is refused", _NARROW,
          "inside = [grant for grant in usable if within(path, grant.path)]", "inside = list(usable)",
          ("tests/unit/test_narrow.py::test_what_is_allowed_lies_within_the_grants",)),
    Guard("a kind of data implies no other", _NARROW,
          'and (request.data in grant.data if grant.family == "browser" else request.data is None)', "",
          ("tests/unit/test_narrow.py::test_kinds_of_data_imply_nothing",)),
    Guard("an audience is never implied", _NARROW, "if request.audience not in grant.audience:", "if False:",
          ("tests/unit/test_narrow.py::test_an_audience_is_never_implied",)),
    Guard("a wiki grant is for one index", _NARROW,
          "if grant.index and request.index not in (None, grant.index):", "if False:",
          ("tests/unit/test_narrow.py::test_a_wiki_grant_is_for_one_index",)),
    Guard("a grant that has ended grants nothing", _NARROW,
          "if (end := grant.ended(request.now)) is not None:", "if (end := None) is not None:",
          ("tests/unit/test_narrow.py::test_an_expired_grant_says_when_it_ended",)),
    Guard("no option brings a grant back to life", "lspipe/access.py",
          "return narrow(granted.grants, request)",
          "import dataclasses\n    return narrow(granted.grants, dataclasses.replace(request, now=run.now))",
          ("tests/contract/test_consented.py::test_a_grant_that_has_ended_stays_ended",)),
    Guard("a replaced folder asks again", _PINNED, "if grant.ino is None:\n        return None\n    same_boot",
          "return None\n    same_boot",
          (_PINNED_TESTS + "test_a_replaced_folder_asks_again",)),
    Guard("a profile of another user is refused", _PINNED,
          'if grant.family == "browser" and found.st_uid != os.geteuid():', "if False:",
          (_PINNED_TESTS + "test_a_profile_of_another_user_is_refused",), root=True),
    Guard("no link on the way to a granted folder", _PINNED,
          "os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC", "os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC",
          (_PINNED_TESTS + "test_no_symbolic_link_on_the_way",)),
    Guard("no link in the place of a browser's file", _LIVE,
          "_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK", "_OPEN = os.O_RDONLY | os.O_NONBLOCK",
          ("tests/unit/test_snapshot.py::test_a_link_that_comes_between_the_look_and_the_opening",)),
    Guard("a browser's file is looked at before it is opened", _LIVE,
          "why = _objection(os.stat(name, dir_fd=folder, follow_symlinks=False))", "why = None",
          ("tests/contract/test_consented.py::test_a_fifo_in_a_granted_profile_is_not_opened_either",)),
    Guard("names in databases only while the grant is in force", "lspipe/browsers/granted.py",
          'if obstacle(grant, Request("browser", kind)) is None]', "]",
          ("tests/contract/test_consented.py::test_a_profile_whose_grant_has_ended_is_never_opened[ls-history]",)),
    Guard("rg gets the granted folders and no other", _LOCKDOWN,
          "read=(*sandbox.program_paths(), *run.reach.read)", 'read=("/",)',
          ("tests/contract/test_watched.py::test_after_lock_down_only_what_is_granted_is_opened[ls-rg]",)),
    Guard("a consent file that others can write is refused", _PATHS,
          "if found.st_mode & _WRITABLE_BY_OTHERS:", "if False:",
          (_CONSENT_TESTS + "test_a_file_that_others_can_read_or_write_is_refused",
           _CONSENT_TESTS + "test_a_folder_that_others_can_write_is_refused")),
    Guard("a consent file that others can read is refused", _CONSENT,
          "if os.fstat(fd).st_mode & 0o077:", "if False:",
          (_CONSENT_TESTS + "test_a_file_that_others_can_read_or_write_is_refused",)),
    Guard("a consent folder that others can write is refused", _CONSENT,
          "    paths.check_private(config_dir)\n    return", "    return",
          (_CONSENT_TESTS + "test_a_folder_that_others_can_write_is_refused",)),
    Guard("a consent file of another user is refused", _PATHS,
          "if found.st_uid != os.geteuid():\n        raise Precondition(f\"refusing {name}", "if False:\n        "
          "raise Precondition(f\"refusing {name}",
          (_CONSENT_TESTS + "test_what_belongs_to_another_user_is_refused",), root=True),
    Guard("our own files are opened through no link", _PATHS,
          "flags | os.O_NOFOLLOW | os.O_NONBLOCK", "flags | os.O_NONBLOCK",
          (_CONSENT_TESTS + "test_what_is_not_a_plain_file_is_refused_and_never_waited_for",)),
    Guard("two writers of consent take turns", _CONSENT,
          "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass",
          (_CONSENT_TESTS + "test_writers_at_the_same_time_lose_nothing",)),
    Guard("consent is replaced whole", _CONSENT,
          "        os.rename(new, consent.file)\n", """        with open(consent.file, "wb") as stream:
            stream.write(data[:20])
            stream.flush()
            stream.write(data[20:])
        os.unlink(new)\n""",
          (_CONSENT_TESTS + "test_death_at_any_moment_leaves_the_old_file_or_the_new",)),
    Guard("a person at the terminal answers", "lspipe/commands/consent.py",
          'if terminal.ask(before.terminal, "Grant it? [y/N]", left()).casefold() not in ("y", "yes"):', "if False:",
          ("tests/contract/test_consent_command.py::test_any_other_answer_grants_nothing",)),
    Guard("what was typed before a question is no answer", "lspipe/terminal.py",
          "        termios.tcflush(terminal, termios.TCIFLUSH)\n", "        pass\n",
          ("tests/contract/test_consent_command.py::test_neither_stdin_nor_what_was_typed_before_is_an_answer",)),
    Guard("only named tables of a database are read", "lspipe/confine.py",
          "    conn.set_authorizer(_authorizer(readable))\n", "",
          ("tests/unit/test_snapshot.py::test_only_named_tables_can_be_read",)),
    Guard("a port is its browser's own: who has the profile open listens", _PORTS,
          "if not sockets.isdisjoint(links) and (loaded", "if (loaded",
          (_CDP_TESTS + "test_a_port_that_its_browser_does_not_hold",)),
    Guard("a port is its browser's own: who listens has the profile open", _PORTS,
          "(loaded := _profiles(links, above, root)):", "(loaded := _profiles(links, above, root) or people(root)):",
          (_CDP_TESTS + "test_a_port_of_another_program_is_not_connected_to",)),
    Guard("a port of another user is nobody's", _PORTS,
          "ours = all(int(user) == os.geteuid() for user, _ in found)", "ours = True",
          (_CDP_TESTS + "test_a_port_of_another_user_is_not_connected_to",), root=True),
    Guard("a port shows granted profiles alone", _LIVETABS, "    if loaded - set(names):\n", "    if False:\n",
          (_CDP_TESTS + "test_a_profile_that_is_not_granted_is_never_shown",)),
    Guard("a port is what its browser's file says", _LIVETABS,
          "if line.path is not None and path != line.path:", "if False:",
          (_CDP_TESTS + "test_another_browser_than_the_file_says",)),
    Guard("where nobody says who listens the file must", _LIVETABS, "    elif path is None:\n", "    elif False:\n",
          (_CDP_TESTS + "test_without_proc_the_path_must_be_the_files",)),
    Guard("a private window has a context of its own", _CDP, 'if info.get("browserContextId") != default:', "if False:",
          (_CDP_TESTS + "test_the_tabs_of_a_browser_that_listens",)),
    Guard("a browser says which context is the default one", _CDP,
          "if not isinstance(default, str) or not default or (isinstance(others, list) and default in others):",
          "if False:",
          (_CDP_TESTS + "test_a_browser_that_does_not_say_what_is_private",)),
    Guard("the text of tabs is granted by name", "lspipe/commands/tabs.py",
          "texts = granted.profiles_of(access.obtain(run, granted.request(made.TAB_TEXT, opts.profile), exists))",
          "texts = asked",
          (_CDP_TESTS + "test_text_is_nothing_that_another_grant_implies",)),
    Guard("the lists of live tabs are granted as their text is", "lspipe/navigated.py",
          "chromium = [one for one in texts if", "chromium = [one for one in tabs if",
          ("tests/unit/test_history_told.py::test_the_text_of_tabs_is_granted_by_name",)),
    Guard("a page is read in a world of its own", "lspipe/browsers/pagetext.py",
          '"contextId": world["executionContextId"], ', "",
          (_CDP_TESTS + "test_a_page_is_asked_in_a_world_of_its_own_and_may_change_nothing",)),
    Guard("what reads a page may change nothing", "lspipe/browsers/pagetext.py",
          '"throwOnSideEffect": True', '"throwOnSideEffect": False',
          (_CDP_TESTS + "test_a_page_is_asked_in_a_world_of_its_own_and_may_change_nothing",)),
    Guard("a person is asked only for who can wait", "lspipe/attached.py",
          "        if not person:\n            raise\n", "",
          (_CDP_TESTS + "test_a_browser_that_asks_a_person_first",)),
    Guard("one dialog at a time", _LIVETABS,
          "        fcntl.flock(line.waits, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", "        pass\n",
          (_CDP_TESTS + "test_dialogs_do_not_pile_up",)),
)

WHAT_LEAVES_IS_SAFE = (
    Guard("all that is made is private", _RUNNER, "    os.umask(0o077)\n", "    os.umask(0)\n",
          (_CONTRACT + "test_everything_that_is_made_is_private",)),
    Guard("a report replaces nothing but a report", "lspipe/reportfile.py",
          "        if found.st_size > _LONGEST or not _REPORT.fullmatch(os.pread(fd, _LONGEST, 0)):\n",
          "        if False:\n",
          ("tests/contract/test_report_file.py::test_a_file_that_is_no_report_is_left_as_it_is",)),
    Guard("a program has a limit of memory", "lspipe/child.py",
          "        _limit(limits.RLIMIT_DATA, memory)\n", "",
          ("tests/unit/test_child.py::test_it_has_a_limit_of_memory",)),
    Guard("a line has a longest length", "lspipe/stream.py", "        if len(rest) > cap:\n", "        if False:\n",
          ("tests/unit/test_stream.py::test_a_line_at_the_cap_cut_anywhere",)),
    Guard("a row has a deepest level", "lspipe/stream.py",
          'if data.count(b"{") + data.count(b"[") > DEPTH_CAP and depth(value) > DEPTH_CAP:', "if False:",
          ("tests/unit/test_stream.py::test_rows_are_at_most_32_deep",)),
    Guard("JSON holds no raw control character", "lspipe/stream.py",
          'if (not data.isascii() or b"\\x7f" in data) and _MAYBE_UNSAFE.search(data):', "if False:",
          ("tests/unit/test_stream.py::test_every_unsafe_character_leaves_as_an_escape",)),
    Guard("a terminal gets no control character", "lspipe/table.py",
          'return _UNCLEAN.sub("", _SEPARATORS.sub(" ", text))', "return text",
          ("tests/unit/test_table.py::test_clean_examples",
           "tests/pipeline/test_rg.py::test_nothing_raw_reaches_the_terminal")),
    Guard("an answer is redacted last", "lspipe/request.py",
          '        stages.append(Stage("ls-redact", public, "redact"))\n',
          '        stages.append(Stage("ls-show", ("--as=jsonl", *public), "redact"))\n',
          ("tests/pipeline/test_redaction.py::test_no_answer_shows_a_secret",)),
    Guard("a row is redacted", "lspipe/commands/redact.py",
          "shown, count = redact.row(item)", "shown, count = item, 0",
          ("tests/pipeline/test_redaction.py::test_no_answer_shows_a_secret",)),
    Guard("--public leaves out what is private", "lspipe/commands/redact.py",
          "if opts.public and row.is_private(item):", "if False:",
          ("tests/pipeline/test_redaction.py::test_public_leaves_out_what_is_private_or_not_marked",)),
    Guard("--public asks only what is public", "lspipe/request.py",
          "usable = [grant for grant in grants if grant.public] if query.public else grants", "usable = grants",
          ("tests/contract/test_consented.py::test_public_asks_nothing_that_is_private",)),
    Guard("private is sticky", "lspipe/merge.py", "if any(map(is_private, rows)):", "if False:",
          ("tests/unit/test_fuse.py::test_private_is_sticky",)),
)

#: By the promise that they keep.
GUARDS = {
    "nothing stays": NOTHING_STAYS, "nothing leaves": NOTHING_LEAVES,
    "nothing is read without consent": NOTHING_WITHOUT_CONSENT, "what leaves is safe": WHAT_LEAVES_IS_SAFE,
}
ALL: tuple[Guard, ...] = tuple(guard for guards in GUARDS.values() for guard in guards)


def without(guard: Guard, root: Path = ROOT) -> str:
    """The guard's file without it. Raises ValueError where the piece does not stand there exactly once."""
    text = (root / guard.file).read_text()
    count = text.count(guard.old)
    if count != 1:
        raise ValueError(f"{guard.name}: what is to be taken out stands {count} times in {guard.file}")
    return text.replace(guard.old, guard.new)


def missing(guard: Guard, root: Path = ROOT) -> list[str]:
    """The tests of a guard that are not there."""
    return [test for test in guard.tests if not _there(test, root)]


def _there(test: str, root: Path) -> bool:
    file, _, name = test.partition("::")
    path = root / file
    return path.is_file() and f"def {name.partition('[')[0]}" in path.read_text()


def is_copy() -> bool:
    """Whether this is a copy without a guard."""
    return _MARK in os.environ


def copy(folder: Path) -> Path:
    """The checkout, in `folder`."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=_LEFT_OUT)
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run(tests: Sequence[str], checkout: Path) -> "subprocess.CompletedProcess[str]":
    """pytest on these tests of a checkout, until the first that fails."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    with tempfile.TemporaryDirectory(prefix="teeth-") as base:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", f"--basetemp={base}/t", *tests], cwd=checkout,
            env=env | {"PYTHONDONTWRITEBYTECODE": "1", _MARK: "1"}, capture_output=True, text=True,
            stdin=subprocess.DEVNULL)


def bite(guard: Guard) -> str | None:
    """Take the guard out and run its tests; None where they failed as they should, else what happened instead."""
    try:
        text = without(guard)
    except ValueError as error:
        return f"CANNOT BE TAKEN OUT: {error}"
    with tempfile.TemporaryDirectory(prefix="teeth-") as folder:
        checkout = copy(Path(folder))
        (checkout / guard.file).write_text(text)
        done = run(guard.tests, checkout)
    # 1: tests were run and one failed. 2, 4, 5 mean that none could be run.
    if done.returncode == 1 and " failed" in done.stdout:
        return None
    return f"NOT NOTICED (pytest ended with {done.returncode})\n{done.stdout[-2000:]}{done.stderr[-1000:]}"


def main(words: Sequence[str]) -> int:
    """Print the table; 1 where a guard can be taken out unnoticed."""
    chosen = [guard for guard in ALL if not words or any(word in guard.name for word in words)]
    tried = [guard for guard in chosen if not guard.root or os.geteuid() == 0]
    tests = sorted({test for guard in tried for test in guard.tests})
    with tempfile.TemporaryDirectory(prefix="teeth-") as folder:
        whole = run(tests, copy(Path(folder)))
    if whole.returncode != 0:
        print(f"with every guard in its place tests fail already:\n{whole.stdout[-4000:]}", file=sys.stderr)
        return 1
    width = max(len(guard.name) for guard in chosen)
    bitten = unnoticed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = {guard: pool.submit(bite, guard) for guard in tried}
        for promise, guards in GUARDS.items():
            print(f"\n{promise}")
            for guard in (guard for guard in guards if guard in chosen):
                answer = found[guard].result() if guard in found else "not tried: only root can tell"
                bitten += guard in found
                unnoticed += guard in found and answer is not None
                print(f"  {guard.name:<{width}}  {answer or 'noticed':<7}  {guard.tests[0].removeprefix('tests/')}",
                      flush=True)
    print(f"\n{bitten - unnoticed} of {bitten} guards were missed by a test when they were gone")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
