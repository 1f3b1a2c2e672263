# The functions of demo.sh: output, processes and comparisons. Needs bash 3.2 or later.

bold="" dim="" green="" red="" plain=""
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\033[1m' dim=$'\033[2m' green=$'\033[32m' red=$'\033[31m' plain=$'\033[0m'
fi
TIMEFORMAT="    ${dim}took %1R s${plain}"

# ----------------------------------------------------------------------------------------- output

steps=0

# step FUNCTION TITLE: runs one numbered step of the story, and prints its duration.
step() {
    steps=$((steps + 1))
    printf '\n%s%2d. %s%s\n' "$bold" "$steps" "$2" "$plain"
    time "$1"
}

say() { printf '    %s\n' "$*"; }
indented() { sed 's/^/    /'; }

fail() {
    local log
    printf '\n%sThe demo failed: %s%s\n' "$red" "$*" "$plain"
    for log in server.log network.log second.log; do
        [ ! -s "$log" ] || { echo "--- the end of $log"; tail -n 20 "$log"; }
    done
    exit 1
}

# run CODES COMMAND...: prints a command, runs it, and fails unless it exits with one of the codes.
run() {
    local codes=$1 code=0
    shift
    say "$dim\$ $*$plain"
    "$@" 2>&1 | indented || code=$?
    case " $codes " in
        *" $code "*) ;;
        *) fail "'$*' ended with exit code $code, expected $codes" ;;
    esac
}

# join ADDRESS NAME: joins a device, with output directly to the terminal for the progress bar.
join() {
    say "$dim\$ tidemark device join http://$1 $2.sqlite$plain"
    tidemark device join "http://$1" "$2.sqlite" || fail "$2 could not join: exit code $?"
}

tidemark() { "$binary" "$@"; }

# edit NAME: prints the SQL from standard input, and runs it in the plain sqlite3 shell.
edit() {
    local sql
    sql=$(cat)
    say "$dim\$ sqlite3 $1.sqlite$plain"
    printf '%s\n' "$sql" | sed 's/^/      /'
    printf '%s\n' "$sql" | sqlite3 -batch -bail "$1.sqlite" || fail "sqlite3 refused the edit"
}

# ------------------------------------------------------------------------------ server and network

work="" server_pid="" network_pid=""

clean_up() {
    stop "$network_pid"
    stop "$server_pid"
    cd /
    if [ -n "${DEMO_KEEP:-}" ]; then echo "The files are in $work"; else rm -rf "$work"; fi
}

stop() {
    [ -n "$1" ] || return 0
    kill "$1" 2> /dev/null || true
    wait "$1" 2> /dev/null || true
}

# await_address PID LOG: prints the HOST:PORT that the process listens on, once its log names it.
await_address() {
    local tries=0 address=""
    while [ -z "$address" ]; do
        address=$(sed -n 's|^[a-z ]* http://\([^ /]*\).*|\1|p' "$2")
        [ -n "$address" ] || kill -0 "$1" 2> /dev/null || return 1
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || return 1
        [ -n "$address" ] || sleep 0.1
    done
    echo "$address"
}

# ------------------------------------------------------------------------------------- comparisons

outcome="equal"

# check TEXT COMMAND...: prints one line of the verdict; the command's output only if it fails.
check() {
    local text=$1
    shift
    if "$@" > check.log 2>&1; then
        say "${green}OK$plain  $text"
    else
        say "${red}NO$plain  $text"
        head -n 6 check.log | sed 's/^/        /'
        outcome="different"
    fi
}

# expect TEXT VALUE SQL: checks that a query on the server's file returns VALUE.
expect() {
    sqlite3 -batch world.sqlite "$3" > found.txt || true
    printf '%s\n' "$2" > expected.txt
    check "$1" diff expected.txt found.txt
}

# dump NAME TABLE: prints every value as an SQL literal, one row per line, ordered by primary key.
dump() {
    local values key
    values=$(sqlite3 world.sqlite "SELECT group_concat('quote(' || name || ')', ' || '','' || ')
        FROM pragma_table_info('$2')")
    key=$(sqlite3 world.sqlite "SELECT group_concat(name)
        FROM (SELECT name FROM pragma_table_info('$2') WHERE pk > 0 ORDER BY pk)")
    sqlite3 -batch "$1.sqlite" "SELECT $values FROM $2 ORDER BY $key"
}

# compare_table TABLE: prints the table's verdicts in one line, with a column for each device.
compare_table() {
    local device verdict
    dump world "$1" > world.dump
    printf '    %-16s%9d   ' "$1" "$(wc -l < world.dump)"
    for device in $devices; do
        verdict="${green}OK    $plain"
        dump "$device" "$1" > "$device.dump" || true
        if ! cmp -s world.dump "$device.dump"; then
            verdict="${red}NO    $plain"
            outcome="different"
            diff world.dump "$device.dump" > "$device.$1.diff" || true
        fi
        printf '%s' "$verdict"
    done
    echo
}
