"""Who owns what is being written: an identity in a file name, and proof that its process is gone."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from recordzoo.base.owner import Owner


def test_comes_back_from_a_file_name():
    owner = Owner.current()
    assert Owner.parse(str(owner)) == owner
    assert "/" not in str(owner)
    assert str(os.getpid()) in owner.description


@pytest.mark.parametrize("text", ["", "free-12ab", "host-1-2", "host-x-2-ab", "ho/st-1-2-ab", "host-1-2-ab.json"])
def test_other_names_are_nobody(text):
    assert Owner.parse(text) is None


def test_two_identities_of_one_process_differ():
    assert Owner.current() != Owner.current()


def test_a_living_process_is_not_gone():
    assert not Owner.current().is_gone()


def test_a_process_that_ended_is_gone():
    code = "from recordzoo.base.owner import Owner; print(Owner.current())"
    owner = Owner.parse(subprocess.check_output([sys.executable, "-c", code], text=True).strip())
    assert owner is not None
    assert owner.is_gone()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="start times are read from /proc")
def test_another_process_with_the_same_number_is_gone():
    owner = Owner.current()
    assert replace(owner, start=owner.start + 1).is_gone()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="process states are read from /proc")
def test_a_zombie_is_gone():
    code = "from recordzoo.base.owner import Owner; print(Owner.current(), flush=True)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    owner = Owner.parse(child.stdout.read().strip())
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, but still in the table: nobody has asked for it
    try:
        assert owner.is_gone()
    finally:
        child.communicate()


def test_nothing_is_known_of_another_host():
    assert not replace(Owner.current(), host="elsewhere_0123abcd", pid=2**22 + 1).is_gone()
    assert not replace(Owner.current(), host="elsewhere_0123abcd").can_be_asked_for
    assert Owner.current().can_be_asked_for
