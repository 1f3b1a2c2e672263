#!/usr/bin/env bash
# Two people with private and shared shopping lists, on SQLite and on PostgreSQL.
# `make demo-sharing` runs it.
#
#     demo.sh PATH_TO_TIDEMARK [sqlite|postgres]...     both without a name
#     DEMO_KEEP=1 keeps the files; NO_COLOR=1 leaves the colours out
#
# Exits with 0 only if the shared list is equal everywhere, and no byte of a private list is on the
# other person's device.
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: demo.sh PATH_TO_TIDEMARK [sqlite|postgres]..." >&2; exit 64; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scripts=$(cd "$here/../../Scripts" && pwd)
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
stores="${*:-sqlite postgres}"
exec 2>&1 # keep output and errors in order, also in a file or pipe
# shellcheck source=../Cities/demo-kit.sh
. "$here/../Cities/demo-kit.sh"

# by NAME COMMAND...: runs a command as a person, who has a machine and tokens of their own.
by() {
    local name=$1
    shift
    XDG_CONFIG_HOME=$work/$name "$@"
}

# type NAME ARGUMENTS...: shows a command of a person, and runs it.
type() {
    local name=$1
    shift
    say "$dim$name\$ tidemark $*$plain"
    by "$name" "$binary" "$@" | indented || fail "the command of $name ended with exit code $?"
}

# quiet NAME ARGUMENTS...: the output of a person's command, for the script.
quiet() {
    local name=$1
    shift
    by "$name" "$binary" "$@"
}

member() { sed -n "s/.*\"$1\" : \"\([^\"]*\)\".*/\1/p" | head -n 1; }

start_server() {
    local place=(--data data --schema "$here/lists.sql")
    where=(--data data)
    if [ "$store" = postgres ]; then
        database=$("$scripts/postgres.sh" start "$work/postgres")
        place=(--store "$database" --schema "$here/lists.sql")
        where=(--store "$database")
    fi
    say "$dim\$ tidemark serve ${place[*]} --users --listen 127.0.0.1:0$plain"
    "$binary" serve "${place[@]}" --users --listen 127.0.0.1:0 > server.log 2>&1 &
    server_pid=$!
    server=$(await_address "$server_pid" server.log) || fail "the server did not start"
    url=http://$server
    say "Listening on $url. Beyond this machine it would want a certificate, and say so."
}

add_people() {
    local name
    for name in anna ben; do
        say "$dim\$ tidemark user add $name --role none ${where[*]}$plain"
        "$binary" user add "$name" --role none "${where[@]}" --json > "$name.json"
    done
    say "Each gets a token to sign in once. The server knows only its hash."
}

join_private() {
    local name
    for name in anna ben; do
        say "$dim$name\$ tidemark device join $url $name.sqlite --zone '~'$plain"
        TIDEMARK_TOKEN=$(member token < "$name.json") by "$name" "$binary" device join "$url" "$name.sqlite" --zone '~' \
            | indented || fail "$name could not join"
    done
    edit anna <<'SQL'
INSERT INTO lists (title) VALUES ('Presents');
INSERT INTO items (list_id, text) SELECT id, 'ANNA-PRIVATE: a clock for Ben' FROM lists;
SQL
    edit ben <<'SQL'
INSERT INTO lists (title) VALUES ('Diary');
INSERT INTO items (list_id, text) SELECT id, 'BEN-PRIVATE: called the dentist' FROM lists;
SQL
    type anna device sync anna.sqlite
    type ben device sync ben.sqlite
}

share() {
    type anna zones create "$url" --title Shopping
    zone=$(quiet anna zones mine "$url" --kind shared --json | member zone)
    say "$dim""anna\$ tidemark zones invite $url $zone$plain"
    invitation=$(quiet anna zones invite "$url" "$zone" --json | member invitation)
    say "Anna sends Ben the secret in a message, behind the # of a link."
    say "$dim""ben\$ tidemark zones accept $url$plain"
    TIDEMARK_INVITATION="https://lists.example/join#$invitation" quiet ben zones accept "$url" | indented
    type ben zones mine "$url"
    type anna device join "$url" anna-shopping.sqlite --zone "$zone"
    type ben device join "$url" ben-shopping.sqlite --zone "$zone"
}

edit_both() {
    say "Anna is in the shop, without a network; Ben is at home."
    edit anna-shopping <<'SQL'
INSERT INTO lists (title) VALUES ('Saturday');
INSERT INTO items (list_id, text) SELECT id, column1 FROM lists, (VALUES ('bread'), ('milk'), ('apples'));
SQL
    edit ben-shopping <<'SQL'
INSERT INTO lists (title) VALUES ('Party');
INSERT INTO items (list_id, text) SELECT id, 'lemonade' FROM lists;
SQL
    type ben device sync ben-shopping.sqlite
    type anna device sync anna-shopping.sqlite
    type ben device sync ben-shopping.sqlite
    edit ben-shopping <<'SQL'
UPDATE items SET done = 1 WHERE text = 'milk';
SQL
    type ben device sync ben-shopping.sqlite
    type anna device sync anna-shopping.sqlite
    sqlite3 -batch -column -header anna-shopping.sqlite \
        "SELECT title, text, done FROM items JOIN lists ON lists.id = list_id ORDER BY title, text" | indented
}

pry() {
    private=$(quiet anna device status anna.sqlite --json | member zone)
    say "Ben learns the name of Anna's private zone, and asks for it; then for one that does not exist:"
    local absent=z_aaaaaaaaaaaaaaaaaaaaaaaaaa
    quiet ben digest "$url" --zone "$private" > foreign.txt 2>&1 && fail "Ben could read Anna's zone"
    quiet ben digest "$url" --zone "$absent" > absent.txt 2>&1 && fail "a zone is there that nobody made"
    indented < foreign.txt
    check "the server's two answers are the same" diff foreign.txt absent.txt
}

prove() {
    local name other
    quiet anna digest "$url" --zone "$zone" > server.digest
    indented < server.digest
    for name in anna ben; do
        quiet "$name" digest "$name-shopping.sqlite" > "$name.digest"
        check "the shared list of $name equals the server's, byte for byte" diff server.digest "$name.digest"
        quiet "$name" digest "$url" --zone '~' > private.server
        quiet "$name" digest "$name.sqlite" > private.device
        check "so does the private one of $name" diff private.server private.device
    done
    for name in anna ben; do
        other=$([ "$name" = anna ] && echo BEN || echo ANNA)
        check "no byte of $other's private list in any file of $name" absent_from "$other-PRIVATE" "$name"
    done
    check "the search does find Anna's text in Anna's own files" test -n "$(grep -l -a -r ANNA-PRIVATE anna*.sqlite*)"
    check "no token in any database" absent_from "tm[a-z]_" ""
}

# absent_from TEXT NAME: whether no database of a person, nor what SQLite keeps beside it, has the text.
absent_from() { ! grep -l -a -r -- "$1" "$2"*.sqlite*; }

leave() {
    type ben zones leave "$url" "$zone"
    say "${dim}ben\$ tidemark device sync ben-shopping.sqlite$plain"
    quiet ben device sync ben-shopping.sqlite > left.txt 2>&1 || true
    indented < left.txt
    check "Ben's device has removed the rows" test "$(sqlite3 ben-shopping.sqlite 'SELECT count(*) FROM items')" = 0
    check "Anna's list is untouched" test "$(sqlite3 anna-shopping.sqlite 'SELECT count(*) FROM items')" = 4
}

end_all() {
    "$scripts/postgres.sh" stop "$work/postgres" > /dev/null 2>&1 || true
    clean_up
}

tell() {
    printf '\n%s==== on %s ====%s\n' "$bold" "$store" "$plain"
    work=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-demo.XXXXXX")
    chmod 755 "$work"
    cd "$work"
    steps=0
    step start_server "A server with users"
    step add_people "Two people"
    step join_private "A private list for each"
    step share "A shared list, by a link"
    step edit_both "Both edit it, one without a network"
    step pry "Curiosity"
    step prove "The proof: equality and secrecy"
    step leave "Ben leaves"
    [ "$outcome" = equal ] || fail "a check above failed (DEMO_KEEP=1 keeps the files)"
}

command -v sqlite3 > /dev/null || fail "it needs sqlite3"
[ -x "$binary" ] || fail "$binary is not a program; 'make build' makes it"
for store in $stores; do
    if [ "$store" = postgres ] && ! command -v psql > /dev/null; then fail "PostgreSQL is missing"; fi
    trap end_all EXIT
    tell
    end_all
    server_pid="" network_pid=""
done
trap - EXIT
printf '\n%sThe shared lists are equal everywhere, and the private ones are private.%s\n' "$bold$green" "$plain"
