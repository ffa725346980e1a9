"""Runs a command on a terminal that nobody reads for some seconds, or never before the command's end.

Usage: held.py SECONDS|never COMMAND...; says its status and the last line that came.
"""

import os
import pty
import select
import sys
import time

held, command = sys.argv[1], sys.argv[2:]
child, master = pty.fork()
if child == 0:
    os.execvp(command[0], command)

status = None
if held == "never":
    status = os.waitpid(child, 0)[1]
else:
    time.sleep(float(held))
seen = b""
while select.select([master], [], [], 10)[0]:
    try:
        part = os.read(master, 65536)
    except OSError:
        break
    if not part:
        break
    seen += part
if status is None:
    status = os.waitpid(child, 0)[1]
lines = seen.decode(errors="replace").split()
print(os.waitstatus_to_exitcode(status), lines[-1] if lines else "")
