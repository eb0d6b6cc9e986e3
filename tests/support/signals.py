"""How programs of tests take signals, whoever has started the tests."""

import signal


def take_hangups() -> None:
    """Has a child that is being started end by SIGHUP, which nohup has everything below it ignore: its `preexec_fn`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
