#!/usr/bin/env bash
# A real Grid Engine of one node on this machine (Debian or Ubuntu, root): gridengine_up.sh DIRECTORY
# It lives in namespaces of its own: host name g1, an address that is no loopback, own processes and /dev/shm.
# gridengine_in.sh DIRECTORY COMMAND... runs a command inside; gridengine_down.sh DIRECTORY stops it.
set -euo pipefail
DIR=$1
fail() { echo "gridengine_up: $*" >&2 && cat "$DIR"/*.out >&2; exit 1; }
# shellcheck source=tests/helpers/schedulers/daemons.sh
. "$(dirname "$0")/daemons.sh"
[ "$(id -u)" = 0 ] || fail "needs root, for namespaces and daemons"
if ! command -v sge_qmaster >/dev/null; then
  "$(dirname "$0")/install.sh" gridengine-master gridengine-exec gridengine-client || fail "apt-get install gridengine-master"
fi
"$(dirname "$0")/gridengine_down.sh" "$DIR"
rm -rf "$DIR"/{root,spool,execd} # every start is a new cell
mkdir -p "$DIR"/{spool,execd}
chmod 755 "$DIR"

# ---- a cell of its own; programs and libraries are Debian's
ROOT=$DIR/root
mkdir -p "$ROOT/default/common"
for part in bin lib util utilbin; do ln -sfn "/var/lib/gridengine/$part" "$ROOT/$part"; done
cat >"$ROOT/default/common/bootstrap" <<CONF
admin_user none
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params $ROOT/default/common;$DIR/spool
binary_path /usr/sbin
qmaster_spool_dir $DIR/spool
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
CONF
echo g1 >"$ROOT/default/common/act_qmaster"
sed -e "s|^execd_spool_dir.*|execd_spool_dir $DIR/execd|; s|^min_.id.*|min_uid 0|; s|^mailer.*|mailer /bin/true|" \
  -e 's|^load_report_time.*|load_report_time 00:00:05|' /usr/share/gridengine/default-configuration >"$DIR/configuration"
printf '127.0.0.1 localhost\n10.79.0.11 g1\n' >"$DIR/hosts"
cat >"$DIR/environment" <<CONF
export SGE_ROOT=$ROOT SGE_CELL=default SGE_QMASTER_PORT=27444 SGE_EXECD_PORT=27445 SGE_ND=1
CONF
cat >"$DIR/node.sh" <<CONF
. $DIR/environment
hostname g1
ip link set lo up
ip addr add 10.79.0.11/32 dev lo # Grid Engine refuses host names of loopback addresses
mount --bind $DIR/hosts /etc/hosts
mount -t tmpfs -o size=2g,mode=1777 tmpfs /dev/shm
tools=/usr/lib/gridengine
\$tools/spoolinit classic libspoolc "$ROOT/default/common;$DIR/spool" init
\$tools/spooldefaults configuration $DIR/configuration
\$tools/spooldefaults complexes /usr/share/gridengine/util/resources/centry
\$tools/spooldefaults usersets /usr/share/gridengine/util/resources/usersets
\$tools/spooldefaults managers root
sge_qmaster >$DIR/qmaster.out 2>&1 &
for _ in \$(seq 100); do qconf -ss >/dev/null 2>&1 && break; sleep 0.2; done
qconf -ah g1; qconf -as g1
sge_execd >$DIR/execd.out 2>&1 &
echo started >$DIR/started
while kill -0 \$! 2>/dev/null; do wait -n; done # the first process of a pid namespace buries the orphans
CONF
setsid unshare --fork --kill-child --pid --mount-proc --net --uts --ipc --mount bash "$DIR/node.sh" </dev/null >"$DIR/node.out" 2>&1 &
echo $! >"$DIR/pid"
within 60 test -e "$DIR/started" || fail "sge_qmaster does not start"
inside() { "$(dirname "$0")/gridengine_in.sh" "$DIR" "$@"; }

# ---- one queue, whatever the load, and a parallel environment
cat >"$DIR/schedule.sh" <<'CONF'
edit() { sed -e "$1" "$2" >"$2.new" && mv "$2.new" "$2"; }
dir=$1
qconf -sconf global >/dev/null
qconf -ssconf >"$dir/sched" && edit 's|^schedule_interval.*|schedule_interval 0:0:2|; s|^flush_submit_sec.*|flush_submit_sec 1|; s|^flush_finish_sec.*|flush_finish_sec 1|' "$dir/sched" && qconf -Msconf "$dir/sched"
qconf -shgrp @allhosts >/dev/null 2>&1 || { printf 'group_name @allhosts\nhostlist g1\n' >"$dir/group" && qconf -Ahgrp "$dir/group"; }
printf 'pe_name node\nslots 8\nuser_lists NONE\nxuser_lists NONE\nstart_proc_args NONE\nstop_proc_args NONE\nallocation_rule $pe_slots\ncontrol_slaves TRUE\njob_is_first_task TRUE\nurgency_slots min\naccounting_summary FALSE\nqsort_args NONE\n' >"$dir/pe" && qconf -Ap "$dir/pe"
qconf -sq >"$dir/queue" && edit 's|^qname.*|qname all.q|; s|^hostlist.*|hostlist @allhosts|; s|^load_thresholds.*|load_thresholds NONE|; s|^slots.*|slots 4|; s|^pe_list.*|pe_list node|; s|^shell_start_mode.*|shell_start_mode unix_behavior|; s|^rerun.*|rerun TRUE|' "$dir/queue" && qconf -Aq "$dir/queue"
CONF
inside bash "$DIR/schedule.sh" "$DIR" >"$DIR/schedule.out" 2>&1 || fail "qconf"
up() { inside qstat -f | grep -q 'all.q@g1.*lx-amd64 *$'; }
within 60 up || fail "the queue does not come up: $(inside qstat -f)"
inside qstat -f
