# What the steps share. A step exits with 0 when everything holds; the first thing that does not is its last line.
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/mnt/bin:$PATH
SHOWN=/mnt/log/$STEP.shown

fail() {
	echo "FAILED: $*"
	exit 1
}

# shown COMMAND: what a person types. It becomes part of the transcript; $said has its output, $code its exit code.
shown() {
	printf '$ %s\n' "$1" | tee -a "$SHOWN"
	said=$(eval "$1" 2>&1)
	code=$?
	# What a terminal shows in the end of a line that is written over.
	said=$(sed 's/.*\r//' <<<"$said")
	[ -z "$said" ] || printf '%s\n' "$said" | tee -a "$SHOWN"
}

# quiet COMMAND: the same, in the log alone.
quiet() {
	printf '$ %s\n' "$1"
	said=$(eval "$1" 2>&1)
	code=$?
	printf '%s\n[exit code %s]\n' "$said" "$code"
}

# says PATTERN [WHY]: the last command's output has a line that matches.
says() { grep -qE -- "$1" <<<"$said" || fail "${2:-no '$1' in the output}"; }
says_not() { grep -qE -- "$1" <<<"$said" && fail "${2:-'$1' is in the output}"; true; }
one_line() { [ "$(wc -l <<<"$said")" = 1 ] || fail "not one line"; }
ended() { [ "$code" = "$1" ] || fail "exit code $code, not $1"; }

# eventually SECONDS COMMAND: it succeeds within that time.
eventually() {
	local until=$((SECONDS + $1))
	until eval "$2" >/dev/null 2>&1; do
		[ $SECONDS -lt $until ] || fail "not within $1 s: $2"
		sleep 0.3
	done
}

# log_since CURSOR_FILE: what the recorder has logged since `log_from` was called.
log_from() { journalctl -n 0 --show-cursor | sed -n 's/^-- cursor: //p' >/mnt/log/cursor; }
log_since() { journalctl -u "${1:-memwright}" -o cat --after-cursor "$(cat /mnt/log/cursor)"; }

main_pid() { systemctl show -P MainPID "$1"; }
now_s() { date +%s.%N; }
since() { awk "BEGIN { printf \"%.1f\", $(now_s) - $1 }"; }
