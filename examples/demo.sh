#!/usr/bin/env bash
# The main job over a sample state: prints each command before it runs it. Usage: examples/demo.sh [WORDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
words=${1:-rust async cancellation}
bin=${LSPIPE_BIN:-.venv/bin}
PATH=$(cd "$bin" && pwd):$PATH
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
sample=$(python3 examples/sample_state.py "$state/sample")
eval "$sample"

run() {
    local word line='$'
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./=-]*) line+=" ${word@Q}" ;; *) line+=" $word" ;; esac
    done
    printf '\n%s\n' "$line"
    "$@"
}

echo "A made-up state: two browser profiles and a folder of notes, with consent for them."
run ls-consent list
run ls-query "$words"
run ls-tabs -n 1
run ls-query -n 1 --json "$words"
printf '\n$ { ls-history WORDS; ls-bookmarks WORDS; ls-rg --words WORDS NOTES; } | ls-fuse | ls-rerank | ls-show -n 5\n'
{ ls-history "$words"; ls-bookmarks "$words"; ls-rg --words "$words" "$state/sample/notes"; } |
    ls-fuse | ls-rerank | ls-show -n 5
cat <<END

The sample state is gone again. For your own: put $bin on PATH, then
  ls-consent grant browser --data history,bookmarks,tabs
  ls-consent grant files ~/notes
  ls-query WORDS
END
