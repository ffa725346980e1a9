"""Puts a launch into the background of a shell on a terminal, types, and brings it back: it reads when it is in front.

Usage: behind.py COMMAND; which is `sed` in a launch that writes b for a. Says `fine`, or what it waited for in vain.
"""

import os
import pty
import select
import signal
import sys
import time

child, master = pty.fork()
if child == 0:
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


until("outer> ")
send(f"{sys.argv[1]} &\n")
until("outer> ")
time.sleep(1)
# What is typed is for the shell.
for _ in range(3):
    send("echo ty''ped\n")
    until("typed\r\n")
    time.sleep(0.3)
send("jobs -r | grep -c sed\n")
until("1\r\n")
send("fg\n")
until("sed")
time.sleep(1)
send("xax\n")
until("xbx")
send("\x04")
until("outer> ")
send("echo co''de=$?\n")
until("code=0")
print("fine")
os.kill(child, 9)
