"""Drives a shell with job control on a terminal, as a user would: sbx exec --tty, sbx shell, size, Ctrl-C, Ctrl-Z, fg.

Usage: drive.py SBX BACKEND-OPTIONS...; the record is agent.yml. Says `fine`, or what it waited for in vain.
"""

import fcntl
import os
import struct
import sys
import termios
import time

from outer import child, master, send, until

sbx, options = sys.argv[1], " ".join(sys.argv[2:])


def size(rows, columns):
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


run = f"{sbx} exec --agent agent.yml {options} --tty"
until("outer> ")
size(33, 91)
# The words that are waited for are not those that are typed, which come back as an echo.
send(f"{run} -- sh -c 'stty size; trap \"stty size\" WINCH; echo rea''dy; while :; do sleep 0.1; done'\n")
until("33 91")
until("ready")
size(34, 92)
until("34 92")
send("\x03")
until("outer> ")
send("echo co''de=$?\n")
until("code=130")
until("outer> ")

send(f"{run} -- sh -c 'echo rea''dy; exec sleep 300'\n")
until("ready")
time.sleep(0.3)
send("\x1a")
until("Stopped")
until("outer> ")
send("stty -a | grep -c ' icanon'; jobs\n")
until("1")
until("Stopped")
until("outer> ")
send("fg\n")
until("exec sleep 300")
time.sleep(0.3)
send("\x1a")
until("Stopped")
until("outer> ")
send("fg\n")
until("exec sleep 300")
time.sleep(0.3)
send("\x03")
until("outer> ")
send("echo co''de=$?\n")
until("code=130")
until("outer> ")

send(f"{sbx} shell --agent agent.yml {options}\n")
time.sleep(0.5)
send("PS1='in''ner> '\n")
until("inner> ")
send("stty size; sleep 300\n")
until("34 92")
time.sleep(0.3)
send("\x1a")
until("Stopped")
until("inner> ")
send("fg\n")
until("sleep 300")
time.sleep(0.3)
send("\x03")
until("inner> ")
send("exit 7\n")
until("outer> ")
send("echo co''de=$?\n")
until("code=7")
send("exit\n")
os.waitpid(child, 0)
print("fine")
