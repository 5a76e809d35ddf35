#!/usr/bin/env bash
# host.sh up PLACE PORT PACK | host.sh down PLACE
#
# Boot a host in namespaces over an overlay of /: systemd as PID 1, sshd on 127.0.0.1:PORT, the machine's GPUs
# visible inside. PACK is what pack.sh made. Below PLACE: fs (its root), id (a key that may log in as root),
# known_hosts, console. Needs root, overlayfs and cgroup v2; leaves the machine's own files alone.
#
# HOST_BIND: directories that are bound into it (a driver mounted from outside). HOST_SIZE: of its tmpfs.
set -euo pipefail
action=$1 place=$2
group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/gpuhost
fs=$place/fs

down() {
  [ -d "$group" ] && echo 1 >"$group/cgroup.kill"
  sleep 0.5
  umount -l "$fs" "$place" 2>/dev/null || true
  find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
}

lower() {
  mkdir -p "$place"
  mount -t tmpfs -o "mode=755,size=${HOST_SIZE:-24g}" tmpfs "$place"
  mkdir "$place/upper" "$place/work" "$fs"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$fs"
  rm -rf "$fs/tmp" "$fs/run" "$fs/root/.ssh"
  mkdir -p "$fs"/{tmp,run,proc,sys,dev,root/.ssh,etc/ld.so.conf.d,etc/systemd/system/multi-user.target.wants}
  chmod 1777 "$fs/tmp"
  mount --rbind /dev "$fs/dev"
  mount --make-rslave "$fs/dev"
  xz -dc "$pack" | tar -x -C "$fs" --keep-directory-symlink
  echo /opt/hostlib >"$fs/etc/ld.so.conf.d/zz-hostlib.conf"
  for directory in ${HOST_BIND:-/usr/local/nvidia}; do
    [ -d "$directory" ] || continue
    mkdir -p "$fs$directory"
    mount --rbind "$directory" "$fs$directory"
  done
  chroot "$fs" /sbin/ldconfig 2>/dev/null || true
}

settle() {
  local smi user unit
  smi=$(command -v nvidia-smi || true)
  if [ -n "$smi" ] && [ "$smi" != /usr/bin/nvidia-smi ]; then ln -sfn "$smi" "$fs/usr/bin/nvidia-smi"; fi
  for user in messagebus sshd; do
    chroot "$fs" id "$user" >/dev/null 2>&1 || chroot "$fs" useradd -r -s /usr/sbin/nologin -d /run "$user"
  done
  chroot "$fs" getent group systemd-journal >/dev/null || chroot "$fs" groupadd -r systemd-journal
  echo gpu-01 >"$fs/etc/hostname"
  tr -d - </proc/sys/kernel/random/uuid >"$fs/etc/machine-id"
  : >"$fs/etc/fstab"
  # What belongs to a machine's hardware and to its distribution's timers.
  for unit in getty.target console-getty.service systemd-udevd.service systemd-udev-trigger.service \
    systemd-networkd.service systemd-resolved.service systemd-timesyncd.service systemd-logind.service \
    systemd-remount-fs.service systemd-pstore.service systemd-modules-load.service systemd-firstboot.service \
    systemd-binfmt.service systemd-sysctl.service kmod-static-nodes.service dev-hugepages.mount \
    sys-kernel-debug.mount sys-kernel-tracing.mount proc-sys-fs-binfmt_misc.automount ssh.socket apt-daily.timer \
    apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer motd-news.timer; do
    ln -sfn /dev/null "$fs/etc/systemd/system/$unit"
  done
  ln -sfn /usr/lib/systemd/system/multi-user.target "$fs/etc/systemd/system/default.target"
}

login() {
  chroot "$fs" ssh-keygen -q -t ed25519 -N '' -f /root/key
  mv "$fs/root/key" "$place/id"
  mv "$fs/root/key.pub" "$place/id.pub"
  install -m 600 "$place/id.pub" "$fs/root/.ssh/authorized_keys"
  chmod 700 "$fs/root/.ssh"
  rm -f "$fs"/etc/ssh/ssh_host_*
  chroot "$fs" ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
  echo "[127.0.0.1]:$port $(cut -d ' ' -f 1,2 "$fs/etc/ssh/ssh_host_ed25519_key.pub")" >"$place/known_hosts"
  cat >"$fs/etc/ssh/sshd_config" <<X
Port $port
ListenAddress 127.0.0.1
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
MaxStartups 100
MaxSessions 100
Subsystem sftp /usr/lib/openssh/sftp-server
SetEnv PATH=$PATH
X
  cat >"$fs/etc/systemd/system/ssh.service" <<'X'
[Service]
RuntimeDirectory=sshd
ExecStart=/usr/sbin/sshd -D -e
Restart=always
X
  ln -sfn ../ssh.service "$fs/etc/systemd/system/multi-user.target.wants/ssh.service"
}

# A cgroup of its own first, then the namespaces: systemd finds an empty hierarchy that is its own to manage.
boot() {
  local controller
  for controller in cpu memory pids io; do
    echo "+$controller" >"${group%/*}/cgroup.subtree_control" 2>/dev/null || true
  done
  mkdir -p "$group"
  cat >"$place/init.sh" <<X
set -e
mount --make-rprivate /
mount -t proc proc $fs/proc
mount -t sysfs sysfs $fs/sys
mount -t cgroup2 cgroup2 $fs/sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs $fs/run
mount -t tmpfs -o mode=1777 tmpfs $fs/tmp
mkdir -p $fs/oldroot
cd $fs
pivot_root . oldroot
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c '
  umount -l /oldroot
  exec /usr/lib/systemd/systemd --system'
X
  setsid bash -c "echo 0 >$group/cgroup.procs
    exec unshare --mount --pid --ipc --uts --cgroup --fork bash $place/init.sh" </dev/null >"$place/console" 2>&1 &
  for _ in $(seq 100); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "the host does not answer on port $port; its console:" >&2
  cat "$place/console" >&2
  exit 1
}

case $action in
  up)
    port=$3
    pack=$(realpath -- "$4")
    # One by one: joined by && a step that fails inside would not end the script.
    lower
    settle
    login
    boot
    ;;
  down) down ;;
  *) echo "usage: host.sh up PLACE PORT PACK | host.sh down PLACE" >&2 && exit 2 ;;
esac
