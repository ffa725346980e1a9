"""Puts a launch into the background of a shell on a terminal, types, and brings it back: it reads when it is in front.

Usage: behind.py COMMAND; which is `sed` in a launch that writes b for a. Says `fine`, or what it waited for in vain.
"""

import os
import sys
import time

from outer import child, send, until

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
