# shellcheck shell=sh
# Installs the packages of a lock ($1) into an image whose base has Python and apt.
set -eu
if ! command -v git >/dev/null; then
  apt-get update
  apt-get install --yes --no-install-recommends git
fi
python3 -m pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes --requirement "$1"
python3 -c 'import h5py, hydra, lightning, torch'
