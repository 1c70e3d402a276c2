#!/usr/bin/env bash
# Stops what gridengine_up.sh DIRECTORY started; its namespaces take all their processes with them.
set -uo pipefail
PID=$(cat "$1/pid" 2>/dev/null) || exit 0
rm -f "$1/pid" "$1/started"
if [ "$(cat "/proc/$PID/comm" 2>/dev/null)" = unshare ]; then kill -KILL "$PID"; fi
exit 0
