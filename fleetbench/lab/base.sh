#!/bin/bash
# Builds the base tree of the lab's hosts: packages of this machine's own release, dressed as Rocky Linux 9.
# In a mount namespace of its own, so that nothing stays mounted however it ends.
#
# Environment: TREE (to be made), REPOSITORY, DOWNLOADS (kept .deb files), SUITE, SOURCE (a sources.list
# line, or empty), PACKAGES (comma-separated), PROXY (an apt option, or empty). Prints `stage: TEXT` lines.
set -euo pipefail
trap 'echo "base.sh: line $LINENO: $BASH_COMMAND ended with status $?" >&2' ERR
umask 022

echo "stage: installing distribution packages ($SUITE)"
options=()
for directory in man locale info lintian bash-completion zsh; do
    options+=(--dpkgopt="path-exclude=/usr/share/$directory/*")
done
options+=(--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright')
[ -z "$PROXY" ] || options+=(--aptopt="$PROXY")
export DOWNLOADS
mmdebstrap --quiet --variant=minbase --include="$PACKAGES" --format=directory "${options[@]}" \
    --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' --skip=download/empty \
    --setup-hook='mkdir -p "$1/var/cache/apt/archives"' \
    --setup-hook='cp "$DOWNLOADS"/*.deb "$1/var/cache/apt/archives/" 2>/dev/null || :' \
    --customize-hook='rm -f "$DOWNLOADS"/*.deb; cp "$1"/var/cache/apt/archives/*.deb "$DOWNLOADS"/' \
    "$SUITE" "$TREE" ${SOURCE:+"$SOURCE"}

echo "stage: dressing it as Rocky Linux 9"
cd "$TREE"
inside() { chroot "$TREE" "$@"; }

rm -f etc/debian_version etc/os-release etc/lsb-release
cat > usr/lib/os-release <<'TEXT'
NAME="Rocky Linux"
VERSION="9.6 (Blue Onyx)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.6"
PLATFORM_ID="platform:el9"
PRETTY_NAME="Rocky Linux 9.6 (Blue Onyx)"
ANSI_COLOR="0;32"
LOGO="fedora-logo-icon"
CPE_NAME="cpe:/o:rocky:rocky:9::baseos"
SUPPORT_END="2032-05-31"
ROCKY_SUPPORT_PRODUCT="Rocky-Linux-9"
ROCKY_SUPPORT_PRODUCT_VERSION="9.6"
REDHAT_SUPPORT_PRODUCT="Rocky Linux"
REDHAT_SUPPORT_PRODUCT_VERSION="9.6"
TEXT
ln -s ../usr/lib/os-release etc/os-release
ln -sfn bash usr/bin/sh    # on Rocky sh is bash: `source` works in sh -c

# Debian's useradd makes no home and gives /bin/sh; Rocky's makes a private home and gives bash.
sed -i 's/^#\?USERGROUPS_ENAB.*/USERGROUPS_ENAB yes/; s/^UMASK.*/UMASK 022/' etc/login.defs
printf 'CREATE_HOME yes\nHOME_MODE 0700\n' >> etc/login.defs
sed -i 's#^SHELL=.*#SHELL=/bin/bash#' etc/default/useradd
inside groupadd --force --system wheel
printf '%%wheel ALL=(ALL) ALL\n' > etc/sudoers.d/wheel
chmod 440 etc/sudoers.d/wheel

# dnf runs on the distribution's Python. It moves out of the way, with its standard library, so that the
# packages of the repository find /usr/bin/python3.* and /usr/lib/python3.* free; Rocky calls this
# arrangement platform-python.
python=$(readlink usr/bin/python3)
platform=usr/libexec/platform-python.d
mkdir -p "$platform/bin" "$platform/lib"
mv "usr/bin/$python" "$platform/bin/"
mv "usr/lib/$python" "$platform/lib/"
rm -f "$platform/lib/$python/EXTERNALLY-MANAGED"
ln -s /usr/lib/python3 "$platform/lib/python3"
ln -s "platform-python.d/bin/$python" usr/libexec/platform-python
{ grep -lIE '^#! ?/usr/bin/(env )?python3' usr/bin/* usr/sbin/* 2>/dev/null || :; } \
    | xargs -r sed -i -E '1s|^#! ?/usr/bin/(env )?python3[.0-9]*|#!/usr/libexec/platform-python|'
ln -sfn ../libexec/platform-python usr/bin/python3
rm -f usr/bin/py3* usr/bin/pydoc3* usr/bin/pygettext3*
ln -sfn dnf-3 usr/bin/dnf
ln -sfn dnf-3 usr/bin/yum
find usr/lib/python3 "$platform/lib/$python" -name test -type d -prune -exec rm -rf {} +

mkdir -p etc/yum.repos.d etc/dnf srv/repo srv/wheels usr/lib/lab

# Hosts come without nginx, and `dnf install nginx` brings it: the distribution's files move into a package.
echo "stage: packaging nginx"
packages=$(inside dpkg-query -W -f '${Package}\n' | grep -E '^(nginx|libnginx-)')
version=$(inside dpkg-query -W -f '${Version}' nginx | sed 's/^[0-9]*://; s/[-~+].*//')
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
inside dpkg -L $packages | grep -vxE '/(s?bin|lib)' | sed -E 's#^/(s?bin|lib)/#/usr/\1/#' | sort -u | while read -r file; do
    if [ -f ".$file" ] || [ -L ".$file" ]; then
        mkdir -p "$work/root${file%/*}"
        cp -a ".$file" "$work/root$file"
    fi
done
inside dpkg --purge --force-depends $packages > /dev/null
cat > "$work/nginx.spec" <<TEXT
%define debug_package %{nil}
%define __os_install_post %{nil}
%define _build_id_links none
Name: nginx
Epoch: 1
Version: $version
Release: 1.el9
Summary: A high performance web server and reverse proxy server (fleetbench lab)
License: BSD-2-Clause
AutoReqProv: no
%description
The nginx of this machine's distribution, repackaged for lab hosts.
%install
mkdir -p %{buildroot}
cp -a $work/root/. %{buildroot}/
%files
$(cd "$work/root" && find . ! -type d -printf '/%P\n')
TEXT
mkdir -p srv/distribution
rpmbuild -bb --quiet --define "_topdir $work/top" --define "_dbpath $work/db" --define "_tmppath $work" \
    --define "_rpmdir $TREE/srv/distribution" --define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' \
    "$work/nginx.spec"
createrepo_c --quiet --no-database srv/distribution
rm -f etc/yum.repos.d/*
cat > etc/yum.repos.d/rocky.repo <<'TEXT'
[appstream]
name=Rocky Linux $releasever - AppStream (lab)
baseurl=file:///srv/repo
enabled=1
gpgcheck=0
metadata_expire=6h

[distribution]
name=Rocky Linux $releasever - packages of the base image (lab)
baseurl=file:///srv/distribution
enabled=1
gpgcheck=0
metadata_expire=6h
TEXT
cat > etc/dnf/dnf.conf <<'TEXT'
[main]
gpgcheck=0
installonly_limit=3
clean_requirements_on_remove=True
best=True
skip_if_unavailable=False
TEXT

# Nothing for consoles, networking or timers: the network namespace is configured from outside.
for unit in console-getty.service getty.target getty-static.service ssh.socket systemd-networkd.service \
    systemd-networkd.socket systemd-resolved.service systemd-timesyncd.service apt-daily.timer \
    apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
    dnf-makecache.timer motd-news.timer systemd-pstore.service remote-fs.target \
    systemd-network-generator.service sys-fs-fuse-connections.mount dev-hugepages.mount \
    systemd-ask-password-console.path systemd-ask-password-wall.path nftables.service \
    rpmdb-migrate.service rpmdb-rebuild.service; do
    ln -sfn /dev/null "etc/systemd/system/$unit"
done
ln -sfn /lib/systemd/system/multi-user.target etc/systemd/system/default.target
ln -sfn /lib/systemd/system/ssh.service etc/systemd/system/sshd.service    # Rocky's name of the unit
mkdir -p etc/systemd/system/multi-user.target.wants etc/systemd/system/ssh.service.d \
    etc/systemd/journald.conf.d var/log/journal
ln -sfn /lib/systemd/system/ssh.service etc/systemd/system/multi-user.target.wants/ssh.service
printf '[Service]\nExecStartPre=\nRestartPreventExitStatus=\n' > etc/systemd/system/ssh.service.d/lab.conf
printf '[Journal]\nStorage=persistent\nForwardToConsole=no\nSystemMaxUse=64M\n' \
    > etc/systemd/journald.conf.d/lab.conf

# sshd speaks what Rocky 9's DEFAULT crypto policy allows (OpenSSH 8.7: no sntrup761 key exchange, which
# would cost each connection tens of milliseconds).
rm -f etc/ssh/ssh_host_*
cat > etc/ssh/sshd_config.d/50-redhat.conf <<'TEXT'
SyslogFacility AUTHPRIV
GSSAPIAuthentication no
UsePAM yes
X11Forwarding no
PrintMotd no
PermitRootLogin prohibit-password
HostKey /etc/ssh/ssh_host_ed25519_key
KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,diffie-hellman-group14-sha256,diffie-hellman-group16-sha512,diffie-hellman-group18-sha512
Ciphers aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,aes128-gcm@openssh.com,aes128-ctr
MACs hmac-sha2-256-etm@openssh.com,hmac-sha1-etm@openssh.com,umac-128-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha1,umac-128@openssh.com,hmac-sha2-512
TEXT
: > etc/motd
echo 'LANG=C.UTF-8' > etc/locale.conf
cp etc/locale.conf etc/default/locale
ln -sfn /usr/share/zoneinfo/UTC etc/localtime
rm -f etc/machine-id etc/hostname etc/resolv.conf
: > etc/resolv.conf
rm -rf var/lib/apt/lists/* var/cache/apt/* var/cache/debconf/* usr/share/doc/*
rm -rf var/lib/rpm
mkdir -p var/lib/rpm

echo "stage: installing rocky-release and the system Python"
mount --bind "$REPOSITORY" srv/repo
inside rpmdb --initdb
inside rpm -i --nodeps /srv/repo/Packages/rocky-release-*.rpm
if compgen -G "srv/repo/base/*.rpm" > /dev/null; then
    inside sh -c 'rpm -i --nodeps /srv/repo/base/*.rpm'
    system=$(basename "$(ls -d usr/bin/python3.[0-9] usr/bin/python3.[0-9][0-9] 2>/dev/null | head -1)")
    ln -sfn "$system" usr/bin/python3
fi
ln -sfn python3 usr/bin/python
inside ldconfig
inside dnf --quiet makecache
inside "/usr/libexec/platform-python" -m compileall -q /usr/lib/python3/dist-packages "/$platform/lib/$python" \
    > /dev/null 2>&1 || :    # a third-party file with a syntax error is no reason to stop
umount srv/repo
