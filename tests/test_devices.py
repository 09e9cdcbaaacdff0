"""Freed memory stays with the process where the C library can do that."""

import sys

import pytest

from anchor.devices import keep_freed_memory


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_glibc_keeps_what_was_freed() -> None:
    resource = pytest.importorskip("resource")
    torch = pytest.importorskip("torch")
    if not keep_freed_memory():
        pytest.skip("another C library")

    def work() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        several = [torch.ones(2**20) for _ in range(16)]  # 64 MB
        del several
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    work()
    assert work() < 8192  # half of the 16,384 pages
