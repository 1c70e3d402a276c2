#!/usr/bin/env bash
# Installs packages of Debian: install.sh PACKAGE... One at a time: both schedulers may be missing, and apt-get waits for nobody.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
# --close: a daemon that a package starts must not keep the lock
exec flock --close /tmp/lab-test-packages.lock bash -c \
  'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' install "$@" >/dev/null
