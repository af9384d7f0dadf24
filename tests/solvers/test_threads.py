"""The BLAS of NumPy and SciPy works on one thread inside the block, and only there."""

import threading

import pytest

from sojourn.solvers.threads import _switches, one_thread


def counts() -> list[int]:
    return [read() for read, _ in _switches()]


@pytest.fixture(autouse=True)
def two_threads():
    before = counts()
    for _, write in _switches():
        write(2)
    yield
    for (_, write), count in zip(_switches(), before):
        write(count)


def test_one_inside_and_restored_outside():
    before = counts()
    with one_thread():
        with one_thread():
            assert all(count == 1 for count in counts())
        assert all(count == 1 for count in counts())
    assert counts() == before


def test_restored_after_an_error():
    before = counts()
    with pytest.raises(ZeroDivisionError), one_thread():
        _ = 1 / 0
    assert counts() == before


def test_the_last_to_leave_restores():
    before = counts()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        assert inside.wait(10)
    assert all(count == 1 for count in counts())
    leave.set()
    thread.join()
    assert counts() == before
