"""What Python has on POSIX only, as its manual says: names of functions, flags, signals and modules."""
# ruff: noqa: SIM905 - a list of words is read more easily

import re

FUNCTIONS = frozenset(
    """
    pread preadv pwrite pwritev posix_fadvise posix_fallocate sendfile copy_file_range splice memfd_create fdatasync
    sync fchdir fchmod fchown chown lchown chroot mkfifo mknod major minor makedev statvfs fstatvfs pathconf fpathconf
    register_at_fork sched_getaffinity sched_setaffinity sched_setscheduler nice getpriority setpriority
    geteuid getegid getuid getgid getgroups getpgid getpgrp setsid setuid setgid killpg kill fork forkpty openpty pipe2
    posix_spawn wait waitpid waitid sysconf confstr set_blocking uname getloadavg getxattr setxattr listxattr
    """.split()
)
"""Of `os`. `kill` is there on Windows, but ends the process, or sends it Ctrl-C for signal 0."""

FLAGS = frozenset("O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_CLOEXEC O_DIRECT O_SYNC O_DSYNC O_PATH".split()) | frozenset(
    "POSIX_FADV_WILLNEED POSIX_FADV_DONTNEED POSIX_FADV_SEQUENTIAL POSIX_FADV_RANDOM POSIX_FADV_NORMAL".split()
)
"""Of `os`."""

SIGNALS = frozenset(
    "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGPIPE SIGTSTP SIGCONT SIGSTOP SIGQUIT SIGXFSZ alarm setitimer"
    " pthread_sigmask pthread_kill sigwait siginterrupt".split()
)
"""Of `signal`."""

MAP_FLAGS = frozenset("MAP_SHARED MAP_PRIVATE MAP_POPULATE PROT_READ PROT_WRITE MADV_DONTNEED MADV_WILLNEED".split())
"""Of `mmap`."""

MODULES = frozenset("fcntl resource pwd grp termios tty pty syslog posix".split())

NEEDED_BY_OTHERS = frozenset(
    """
    fork posix_spawn wait waitpid waitid sysconf confstr set_blocking uname register_at_fork SIGCHLD MAP_SHARED
    MAP_PRIVATE kill
    """.split()
)
"""Of all these, what multiprocessing, subprocess, numpy and torch cannot do without on POSIX."""

_USED = re.compile(
    rf"\bos\.({'|'.join(sorted(FUNCTIONS | FLAGS))})\b|\bsignal\.({'|'.join(sorted(SIGNALS))})\b"
    r"|\b(symlink_to|symlink|chmod|mkfifo|strace|resource|start_new_session)\b|/(?:proc|dev)/"
)


_IMPORTED = re.compile(rf"^(import|from) ({'|'.join(sorted(MODULES))}|tests\.fuzz|tests\.disks)\b", re.MULTILINE)


def is_imported_in(source: str) -> bool:
    """Whether a test module imports a module that Windows lacks."""
    return _IMPORTED.search(source) is not None


def used_in(source: str) -> str:
    """Return the first thing in the source of a test that Windows lacks, or keeps from most users; "" if none."""
    found = _USED.search(source)
    return found[0] if found else ""
