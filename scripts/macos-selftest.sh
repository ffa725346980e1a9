#!/bin/bash
# Tries the fence on a Mac: attacks that must fail, their benign twins that must work, and real programs.
#
#   scripts/macos-selftest.sh [PATH-TO-SBX]        (default: sbx on the PATH)
#
# Everything happens in a new directory below $TMPDIR, which is removed; nothing leaves this machine. Prints one
# table to paste into an issue; the last line is `N passed, M failed`.
#
# An attack is first tried without sbx, where it must succeed, and then behind it, where it must begin and fail. So a
# row cannot say "held" because a program is missing, because sbx did not start, or because the attack never worked.
# With SBX_SELFTEST_BARE=1 everything runs without sbx: every attack must then be told as an ESCAPE, and passes for
# it, which is how this script is tested itself. It runs on Linux too, without the rows that only a Mac has.
set -uo pipefail

bare=${SBX_SELFTEST_BARE:-}
if [ -z "$bare" ]; then
    sbx=${1:-$(command -v sbx || true)}
    case $sbx in /*) ;; *) sbx=$PWD/$sbx ;; esac
    [ -x "$sbx" ] || { echo "where is sbx? usage: $0 PATH-TO-SBX" >&2; exit 2; }
fi

base=$(cd "$(mktemp -d)" && pwd -P) || exit 1
tidy() {
    if [ -n "${server:-}" ]; then
        kill "$server"
        wait "$server"
    fi 2> /dev/null
    rm -rf "$base" "/tmp/sbx-selftest-$$"
}
trap tidy EXIT
W=$base/ws RO=$base/ro OUT=$base/out

# What Seatbelt does not give, accepted by name; see docs/macos.md.
degraded=fs-hidden,pid-hidden,ipc-hidden,private-tmp,syscall-filter,net-ports,net-names,loopback,teardown,teardown-killed
record() { # NAME, further capabilities
    cat > "$base/$1.yml" << R
id: agents/$1
class: agent
capabilities:
  - fs.read: {in: $W}
  - fs.write: {in: $W}
  - fs.read: {in: $RO}
$2
R
}
record open "  - fs.delete: {in: $W}
  - proc.exec: {in: $W}
  - proc.eval: {in: $W}"
record keep "  - proc.exec: {in: $W}"
record listed "  - proc.exec: {in: $W, cmds: [/usr/bin/find, /bin/cat]}"

# The same files for every row, so that no row depends on another.
fresh() {
    rm -rf "$W" "$RO" "$OUT" "${base:?}/home" "/tmp/sbx-selftest-$$"
    mkdir -p "$W/.git/hooks" "$W/dir" "$RO" "$OUT" "$base/home"
    echo canary > "$OUT/canary-file"
    echo readme > "$RO/readme"
    echo needle > "$W/hay.txt"
    echo old > "$W/.git/hooks/pre-commit"
    echo file > "$W/file"
}

passed=0 failed=0
row() { # WORD, TITLE, DETAIL
    local good=ok
    if [ -n "$bare" ] && [ "$3" != works ]; then case $1 in ESCAPE | LEFT) good=$1 ;; ok) good=ESCAPE ;; esac; fi
    if [ "$1" = "$good" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '| %-6s | %-44s | %s |\n' "$1" "$2" "$3"
}
outside() { (cd "$W" && "$@") > "$base/stdout" 2> "$base/err" < /dev/null; }
inside() { # AGENT, COMMAND…
    local agent=$1
    shift
    if [ -n "$bare" ]; then HOME="$base/home" TMPDIR="$base" outside "$@"; return; fi
    (cd "$W" && HOME="$base/home" "$sbx" exec --agent "$base/$agent.yml" --in "$W" \
        --allow-degraded "$degraded" -- "$@") > "$base/stdout" 2> "$base/err" < /dev/null
}
detail() { tail -1 "$base/err" | tr '|\n' '/ ' | cut -c1-70; }

# An attack is a shell script that says BEGIN first and leaves what CHECK finds: it is true when the attack got through.
attack() { # TITLE, CHECK, SCRIPT [, AGENT]
    local title=$1 check=$2 script="echo BEGIN; $3" agent=${4:-open}
    fresh
    outside /bin/sh -c "$script"
    eval "$check" || { row DULL "$title" "does not even work without sbx: $(detail)"; return; }
    fresh
    inside "$agent" /bin/sh -c "$script"
    grep -q BEGIN "$base/stdout" || { row BROKEN "$title" "never began: $(detail)"; return; }
    if eval "$check"; then row ESCAPE "$title" "$(detail)"; else row ok "$title" held; fi
}
# The same for a program that has no shell around it: it must have been started, which its words show.
attack_listed() { # TITLE, BEGUN (words it prints), CHECK, COMMAND…
    local title=$1 begun=$2 check=$3
    shift 3
    fresh
    outside "$@"
    eval "$check" || { row DULL "$title" "does not even work without sbx: $(detail)"; return; }
    fresh
    inside listed "$@"
    grep -q "$begun" "$base/stdout" || { row BROKEN "$title" "never began: $(detail)"; return; }
    if eval "$check"; then row ESCAPE "$title" "$(detail)"; else row ok "$title" held; fi
}
works() { # TITLE, WANTED, AGENT, COMMAND…
    local title=$1 want=$2
    shift 2
    fresh
    inside "$@"
    if grep -q -- "$want" "$base/stdout"; then row ok "$title" works; else row BROKEN "$title" "$(detail)"; fi
}
said() { grep -q -- "$1" "$base/stdout"; }
only_on_mac() { [ "$(uname -s)" = Darwin ]; }

if only_on_mac; then about="macOS $(sw_vers -productVersion), $(uname -m)"; else about="$(uname -sm)"; fi
if [ -n "$bare" ]; then echo "without sbx, $about"; else echo "$("$sbx" --version 2> /dev/null), $about"; fi
echo "| result | case | detail |"
echo "|---|---|---|"

works "a command runs at all" hello open /bin/echo hello
works "read a read-only place" readme open /bin/cat "$RO/readme"
works "write a granted place" made open /bin/sh -c 'echo made > f && cat f'
works "move within" file open /bin/sh -c 'mv file dir/file && cat dir/file'
works "replace a file by another" new open /bin/sh -c 'echo new > n && mv n file && cat file'
works "delete with fs.delete" deleted open /bin/sh -c 'rm file && echo deleted'
works "execute what is listed" needle listed /bin/cat hay.txt
# shellcheck disable=SC2016
works "temporary files" tmp-ok open /bin/sh -c 't=$(mktemp) && echo tmp-ok > "$t" && cat "$t"'
# shellcheck disable=SC2016
works "a home of its own" home-ok open /bin/sh -c 'echo home-ok > "$HOME/x" && cat "$HOME/x"'

attack "read outside" "said canary" "cat '$OUT/canary-file'"
attack "read through a link" "said canary" "ln -s '$OUT/canary-file' l; cat l"
attack "read through a hard link" "said canary" "ln '$OUT/canary-file' hl; cat hl"
attack "list outside" "said canary-file" "ls '$OUT'"
attack "write outside" "[ -e '$OUT/new' ]" "echo x > '$OUT/new'"
attack "write a read-only place" "grep -q x '$RO/readme'" "echo x > '$RO/readme'"
attack "move a file outwards" "[ -e '$OUT/file' ]" "mv file '$OUT/file'"
attack "delete without fs.delete" "[ ! -e '$W/file' ]" "rm -f file" keep
attack "rename without fs.delete" "[ ! -e '$W/file' ]" "mv file file2" keep
attack "overwrite a git hook" "grep -q x '$W/.git/hooks/pre-commit'" "echo x > .git/hooks/pre-commit"
attack "make a git hook" "[ -e '$W/.git/hooks/post-merge' ]" "echo x > .git/hooks/post-merge"
attack "rename .git away" "[ ! -d '$W/.git' ]" "mv .git .git.old"
attack "move a prepared .git in" "[ -e '$W/n/.git' ]" "mkdir -p n/x/hooks; mv n/x n/.git"
attack "make .vscode" "[ -e '$W/.vscode' ]" "mkdir .vscode"
attack "set user on execution" "[ -u '$W/suid' ]" "cp /bin/echo suid; chmod u+s suid"
attack "temporary files of others" "[ -e /tmp/sbx-selftest-$$ ]" "echo x > /tmp/sbx-selftest-$$"
attack_listed "execute what is not listed" hay.txt "[ -e '$W/ran' ]" \
    /usr/bin/find "$W/hay.txt" -print -exec /usr/bin/touch "$W/ran" \;

# Names in other letters mean the same file only where the file system says so.
fresh
if [ -e "$W/.GIT" ]; then
    attack "make a git hook, other letters" "[ -e '$W/.git/hooks/post-merge' ]" "echo x > .GIT/HOOKS/post-merge"
    # In the words of Unicode the long s is an s.
    attack "make .vscode, other letters" "[ -e '$W/.vscode' ]" "mkdir .VSCODE"
    attack "make .vscode, long s" "[ -e '$W/.vscode' ]" "mkdir .v$(printf '\305\277')code"
else
    printf '| %-6s | %-44s | %s |\n' absent "other letters" "the file system here tells them apart"
fi

# A server of this machine, which no fenced command may reach.
# shellcheck disable=SC2016
perl -MIO::Socket::INET -e '
    $| = 1;
    my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 8) or die;
    print $s->sockport, "\n";
    while (my $c = $s->accept) { print $c "reached\n"; close $c }' > "$base/port" 2> /dev/null &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -s "$base/port" ] && break; sleep 0.3; done
port=$(cat "$base/port")
attack "connect to this machine" "said reached" "exec /bin/bash -c 'cat < /dev/tcp/127.0.0.1/${port:-0}'"

if only_on_mac; then
    attack "list the keychains" "said keychain" "/usr/bin/security list-keychains"
    # Its own name, which the system's resolver knows without asking anybody, and no file does.
    name=$(scutil --get LocalHostName).local
    attack "ask for a name" "said ip" "/usr/bin/dscacheutil -q host -a name '$name'"
    attack "read preferences by their service" "said AppleLanguages" "/usr/bin/defaults read -g"
    app="mkdir -p T.app/Contents/MacOS; printf '#!/bin/sh\ntouch $W/opened\n' > T.app/Contents/MacOS/T; chmod +x T.app/Contents/MacOS/T"
    plist='<plist version="1.0"><dict><key>CFBundleExecutable</key><string>T</string><key>CFBundleIdentifier</key><string>sbx.selftest</string><key>CFBundlePackageType</key><string>APPL</string></dict></plist>'
    attack "start a program by its service" "[ -e '$W/opened' ]" \
        "$app; echo '$plist' > T.app/Contents/Info.plist; /usr/bin/open -n '$W/T.app'; for i in 1 2 3 4 5 6; do [ -e opened ] || sleep 0.5; done"
fi

# A child in a session of its own, which shows for a while that it lives.
fresh
# shellcheck disable=SC2016
life='i=0; while [ $i -lt 50 ]; do echo > alive; sleep 0.2; i=$((i + 1)); done'
inside open /bin/sh -c "nohup /bin/sh -c '$life' > /dev/null 2>&1 & sleep 1; echo BEGIN"
if ! { said BEGIN && rm "$W/alive"; } 2> /dev/null; then
    row BROKEN "a child left behind" "never began: $(detail)"
else
    sleep 1
    if [ -e "$W/alive" ]; then row LEFT "a child left behind" "still there"; else row ok "a child left behind" ended; fi
fi

# Real programs, doing what they are for.
program() { # NAME, WANTED, SCRIPT [, TITLE]
    local at title=${4:-$1}
    at=$(command -v "$1") || { printf '| %-6s | %-44s | %s |\n' absent "$title" "not installed here"; return; }
    case $at in
        "$HOME"/*) printf '| %-6s | %-44s | %s |\n' absent "$title" "stands in the home, which the record does not open" ;;
        *) works "$title" "$2" open /bin/sh -c "$3" ;;
    esac
}
program git first "cd \"\$(mktemp -d)\" && git init -q r && cd r && echo x > f && git add f && git -c user.name=t -c user.email=t@t commit -qm first && git log --format=%s" "git: a repository in scratch"
if command -v git > /dev/null; then
    fresh() {
        rm -rf "$W" "$RO" "$OUT" "${base:?}/home"
        mkdir -p "$W" "$RO" "$OUT" "$base/home"
        echo needle > "$W/hay.txt"
        (cd "$W" && git init -q . && git add hay.txt && git -c user.name=t -c user.email=t@t commit -qm first)
    }
fi
program git second "echo more >> hay.txt && git add hay.txt && git -c user.name=t -c user.email=t@t commit -qm second && git log --format=%s"
program node 42 "echo 'console.log(6*7)' > t.js && node t.js"
program python3 42 "echo 'import json,tempfile,subprocess; print(json.loads(\"42\"))' > t.py && python3 t.py"
program cargo "built 42" "mkdir -p c/src && printf '[package]\nname = \"c\"\nversion = \"0.1.0\"\nedition = \"2021\"\n' > c/Cargo.toml && printf 'fn main() { println!(\"built {}\", 6 * 7); }\n' > c/src/main.rs && cd c && cargo run -q --offline"
program rg "hay.txt:1" "rg -c needle ."
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
