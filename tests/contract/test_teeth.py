"""Every guard of tests/teeth.py can be taken out, and its tests are there. That they fail then, `make teeth` shows."""

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
    """A change that takes nothing away is noticed by nobody: the table can say so."""
    guard = teeth.Guard("no guard", "lspipe/table.py", "return _UNCLEAN.sub(", "return  _UNCLEAN.sub(",
                        ("tests/unit/test_table.py::test_clean_examples",))
    answer = teeth.bite(guard)
    assert answer is not None and answer.startswith("NOT NOTICED (pytest ended with 0)")


def test_a_guard_that_is_gone_is_noticed() -> None:
    guard = next(guard for guard in teeth.ALL if guard.tests[0].startswith("tests/unit/test_table.py::"))
    assert teeth.bite(guard) is None
