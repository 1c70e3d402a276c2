#!/usr/bin/env bash
# Starts slurmdbd and its database for slurm_up.sh DIRECTORY, which calls it between munged and slurmctld.
# Everyone's account is `lab`; tests set its limits with sacctmgr. Every start is a new database.
set -euo pipefail
DIR=$1
SOCKET=$DIR/mariadb.socket
export PATH=$PATH:/usr/sbin:/sbin SLURM_CONF=$DIR/slurm.conf MYSQL_UNIX_PORT=$SOCKET
fail() { echo "slurm_accounts: $*" >&2 && tail -n 20 "$DIR"/log/{mariadbd,slurmdbd}.out >&2 2>/dev/null; exit 1; }
# shellcheck source=tests/helpers/schedulers/daemons.sh
. "$(dirname "$0")/daemons.sh"

need=()
command -v slurmdbd >/dev/null || need+=(slurmdbd)
command -v mariadb-install-db >/dev/null || need+=(mariadb-server-core mariadb-client-core) # which start no server
if [ ${#need[@]} -gt 0 ]; then
  "$(dirname "$0")/install.sh" "${need[@]}" || fail "apt-get install ${need[*]}"
fi

rm -rf "$DIR/mariadb"
mariadb-install-db --no-defaults --user=root --datadir="$DIR/mariadb" --skip-test-db \
  --auth-root-authentication-method=normal >"$DIR/log/mariadbd.out" 2>&1 || fail "mariadb-install-db"
daemon mariadbd mariadbd --no-defaults --user=root --datadir="$DIR/mariadb" --socket="$SOCKET" --skip-networking \
  --innodb-flush-log-at-trx-commit=0
within 30 test -S "$SOCKET" || fail "mariadbd does not start"

umask 077 # else slurmdbd does not start
cat >"$DIR/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$DIR/munge/socket
DbdHost=localhost
DbdPort=27819
SlurmUser=root
PidFile=$DIR/pid/slurmdbd.self
LogFile=$DIR/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
CONF
daemon slurmdbd slurmdbd -D
within 30 sacctmgr --immediate add cluster labtest || fail "slurmdbd does not answer"
sacctmgr --immediate add account lab cluster=labtest >/dev/null
sacctmgr --immediate add user root account=lab >/dev/null
sacctmgr --immediate modify user root set DefaultAccount=lab >/dev/null
