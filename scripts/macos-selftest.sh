#!/bin/bash
# Tries the fence on a Mac: attacks that must fail, their benign twins that must work, and real programs.
#
#   scripts/macos-selftest.sh [PATH-TO-SBX]        (default: sbx on the PATH)
#
# Everything happens in a new directory below $TMPDIR, which is removed; nothing leaves this machine. Prints one
# table to paste into an issue; the last line is `N passed, M failed`.
set -uo pipefail

sbx=${1:-$(command -v sbx || true)}
[ -x "$sbx" ] || { echo "where is sbx? usage: $0 PATH-TO-SBX" >&2; exit 2; }
[ "$(uname -s)" = Darwin ] || { echo "this is for macOS; on Linux run scripts/test" >&2; exit 2; }

base=$(cd "$(mktemp -d)" && pwd -P) || exit 1
trap 'rm -rf "$base"' EXIT
mkdir -p "$base/ws/.git/hooks" "$base/ro" "$base/out" "$base/home"
echo canary > "$base/out/secret"; echo readme > "$base/ro/readme"; echo needle > "$base/ws/hay.txt"
echo old > "$base/ws/.git/hooks/pre-commit"; echo old > "$base/ws/gone"

# What Seatbelt does not give, accepted by name; see docs/macos.md.
degraded=fs-hidden,pid-hidden,ipc-hidden,private-tmp,syscall-filter,net-ports,net-names,loopback,teardown,teardown-killed
record() { # NAME, further capabilities
    cat > "$base/$1.yml" <<R
id: agents/$1
class: agent
capabilities:
  - fs.read: {in: $base/ws}
  - fs.write: {in: $base/ws}
  - fs.read: {in: $base/ro}
$2
R
}
record open "  - fs.delete: {in: $base/ws}
  - proc.exec: {in: $base/ws}
  - proc.eval: {in: $base/ws}"
record keep "  - proc.exec: {in: $base/ws}"
record listed "  - proc.exec: {in: $base/ws, cmds: [/bin/cat]}"

passed=0 failed=0
row() { # WORD, TITLE, DETAIL
    if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '| %-6s | %-44s | %s |\n' "$1" "$2" "$3"
}
inside() { # AGENT, COMMAND…
    local agent=$1; shift
    (cd "$base/ws" && HOME="$base/home" "$sbx" exec --agent "$base/$agent.yml" --in "$base/ws" \
        --allow-degraded "$degraded" -- "$@") 2> "$base/err" < /dev/null
}
detail() { tail -1 "$base/err" | tr '|\n' '/ ' | cut -c1-70; }
denies() { # TITLE, CHECK (outside, true when contained), AGENT, COMMAND…
    local title=$1 check=$2; shift 2
    local out; out=$(inside "$@")
    if eval "$check" && [[ $out != *canary* ]]; then row ok "$title" "held"; else row ESCAPE "$title" "$(detail)"; fi
}
works() { # TITLE, WANTED, AGENT, COMMAND…
    local title=$1 want=$2; shift 2
    local out; out=$(inside "$@")
    if [[ $out == *"$want"* ]]; then row ok "$title" "works"; else row BROKEN "$title" "$(detail)"; fi
}

echo "sbx $("$sbx" --version 2> /dev/null), macOS $(sw_vers -productVersion), $(uname -m)"
echo "| result | case | detail |"
echo "|---|---|---|"
works  "a command runs at all" hello open /bin/echo hello
denies "read outside" true open /bin/cat "$base/out/secret"
works  "read a read-only place" readme open /bin/cat "$base/ro/readme"
denies "read through a link" true open /bin/sh -c "ln -s '$base/out/secret' l; cat l"
denies "read through a hard link" true open /bin/sh -c "ln '$base/out/secret' hl; cat hl"
denies "list outside" true open /bin/ls "$base/out"
denies "write outside" "[ ! -e '$base/out/new' ]" open /bin/sh -c "echo x > '$base/out/new'"
denies "write a read-only place" "grep -q readme '$base/ro/readme'" open /bin/sh -c "echo x > '$base/ro/readme'"
works  "write a granted place" made open /bin/sh -c "echo made > f; cat f"
denies "move a file outwards" "[ ! -e '$base/out/f' ]" open /bin/mv f "$base/out/f"
works  "move within" made open /bin/sh -c "mkdir -p s; mv f s/f; cat s/f"
denies "delete without fs.delete" "[ -e '$base/ws/gone' ]" keep /bin/rm -f gone
denies "rename without fs.delete" "[ -e '$base/ws/gone' ]" keep /bin/mv gone gone2
works  "delete with fs.delete" deleted open /bin/sh -c "rm gone && echo deleted"
denies "overwrite a git hook" "grep -q old '$base/ws/.git/hooks/pre-commit'" open /bin/sh -c "echo x > .git/hooks/pre-commit"
denies "make a git hook, other letters" "[ ! -e '$base/ws/.git/hooks/post-merge' ]" open /bin/sh -c "echo x > .GIT/HOOKS/post-merge"
denies "rename .git away" "[ -d '$base/ws/.git' ]" open /bin/mv .git .git.old
denies "move a prepared .git in" "[ ! -e '$base/ws/n/.git' ]" open /bin/sh -c "mkdir -p n/x/hooks; mv n/x n/.git"
denies "make .vscode" "[ ! -e '$base/ws/.vscode' ]" open /bin/mkdir .vscode
denies "set user on execution" "[ ! -u '$base/ws/s' ]" open /bin/sh -c "cp /bin/echo s; chmod u+s s"
denies "keychain" true open /usr/bin/security list-keychains
denies "open another program by its service" true open /usr/bin/open -a Calculator
denies "execute what is not listed" "[ ! -e '$base/ws/ran' ]" listed /bin/sh -c "touch ran"
works  "execute what is listed" needle listed /bin/cat hay.txt
denies "connect to this machine" true open /usr/bin/nc -z -w 2 127.0.0.1 22
denies "ask for a name" "! grep -q 'has address' '$base/err'" open /usr/bin/dscacheutil -q host -a name example.org
works  "temporary files and home" tmp-ok open /bin/sh -c 't=$(mktemp) && echo tmp-ok > "$t" && cat "$t"; touch "$HOME/x"'
denies "temporary files of others" "[ ! -e /tmp/sbx-selftest-$$ ]" open /bin/sh -c "echo x > /tmp/sbx-selftest-$$"
inside open /bin/sh -c 'nohup sleep 300 > /dev/null 2>&1 & echo $! > child' > /dev/null
sleep 1
if kill -0 "$(cat "$base/ws/child" 2> /dev/null || echo 999999)" 2> /dev/null; then row LEFT "a child left behind" "still there"; else row ok "a child left behind" "ended"; fi
for pair in "git:--version:git version" "node:-p 6*7:42" "python3:-c print(6*7):42" "cargo:--version:cargo" "rg:-c needle hay.txt:1"; do
    IFS=: read -r name arguments want <<< "$pair"
    if command -v "$name" > /dev/null; then
        # shellcheck disable=SC2086
        works "$name" "$want" open "$name" $arguments
    else
        printf '| %-6s | %-44s | %s |\n' absent "$name" "not installed here"
    fi
done
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
