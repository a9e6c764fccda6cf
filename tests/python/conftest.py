"""Settings of all tests: Ctrl-C reaches the processes that tests start, also where this run itself was started in the background,
which makes a shell ignore it for all below."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
