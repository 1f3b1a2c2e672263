"""The commands that every driver of an application has: create, work and check."""

import sys


class Mismatch(Exception):
    """A check that failed; its text says what differs."""


def require(is_true, what):
    """Throws unless a check holds."""
    if not is_true:
        raise Mismatch(what)


def run(arguments, **commands):
    """Runs the command that the arguments name; an error is one line, and ends with 1."""
    if len(arguments) < 3 or arguments[1] not in commands:
        sys.exit(f"usage: {arguments[0]} {'|'.join(commands)} DATABASE [NAME...]")
    try:
        commands[arguments[1]](*arguments[2:])
    except Exception as error:
        first, *_ = str(error).splitlines() or [""]
        sys.exit(f"{type(error).__name__}: {first}")
