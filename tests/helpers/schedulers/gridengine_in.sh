#!/usr/bin/env bash
# Runs a command inside the Grid Engine node: gridengine_in.sh DIRECTORY COMMAND...
set -euo pipefail
OUTSIDE=$(cat "$1/pid")
INSIDE=$(cat "/proc/$OUTSIDE/task/$OUTSIDE/children")
# shellcheck source=/dev/null
. "$1/environment"
exec nsenter -t "${INSIDE%% *}" --mount --net --uts --ipc --pid --wd="$PWD" "${@:2}"
