"""A shell with job control on a terminal of its own, as a user has it: what is typed there, and what comes.

Imported by the scripts that drive it; whoever waits in vain ends here and says for what.
"""

import os
import pty
import select
import signal
import sys
import time

child, master = pty.fork()
if child == 0:
    # Whoever runs the tests in the background has them ignored, and what is ignored stays so in every child.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.environ["PS1"] = "outer> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

seen = ""


def send(text):
    os.write(master, text.encode())


def until(wanted):
    """Reads on until the text has come, and forgets everything up to it."""
    global seen
    end = time.time() + 20
    while wanted not in seen:
        ready, _, _ = select.select([master], [], [], max(0, end - time.time()))
        if not ready:
            os.kill(child, 9)
            sys.exit(f"waited for {wanted!r} in vain, after {seen[-400:]!r}")
        seen += os.read(master, 4096).decode(errors="replace")
    seen = seen[seen.index(wanted) + len(wanted):]
