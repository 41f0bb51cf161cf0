"""Every guard has teeth: a copy of the checkout without it fails a test. `make teeth` prints the table."""

import os

import pytest
import teeth

pytestmark = pytest.mark.skipif(teeth.is_copy(), reason="this is a copy")


@pytest.mark.parametrize("guard", teeth.ALL, ids=str)
def test_what_is_to_be_taken_out_is_there(guard: teeth.Guard) -> None:
    compile(teeth.without(guard), guard.file, "exec")
    assert guard.tests and teeth.missing(guard) == []


def test_a_name_is_given_once() -> None:
    names = [guard.name for guard in teeth.ALL]
    assert len(set(names)) == len(names)


def test_what_is_no_guard_is_not_noticed() -> None:
    """The tests below can fail: a change that takes nothing away is noticed by nobody."""
    guard = teeth.Guard("no guard", "lspipe/table.py", "return _UNCLEAN.sub(", "return  _UNCLEAN.sub(",
                        ("tests/unit/test_table.py::test_clean_examples",))
    answer = teeth.bite(guard)
    assert answer is not None and answer.startswith("NOT NOTICED (pytest ended with 0)")


def _marks(guard: teeth.Guard) -> list[pytest.MarkDecorator]:
    only_root = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="only root can tell")]
    return (only_root if guard.root else []) + ([pytest.mark.network] if guard.sends else [])


@pytest.mark.parametrize("guard", [pytest.param(guard, marks=_marks(guard)) for guard in teeth.ALL], ids=str)
def test_without_it_a_test_fails(guard: teeth.Guard) -> None:
    assert teeth.bite(guard) is None
