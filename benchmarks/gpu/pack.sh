#!/usr/bin/env bash
# pack.sh OUT: make OUT, a tar.xz of Debian's systemd, D-Bus, OpenSSH and iproute2 with the libraries they link,
# for a machine that has none of them and no network. 9 MB. Run it on Debian 12.
set -euo pipefail
out=$(realpath -- "$1")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
chmod 755 "$work"
mkdir "$work/debs" "$work/root"
cd "$work/debs"
programs=(systemd libsystemd-shared systemd-sysv dbus dbus-bin dbus-daemon dbus-system-bus-common
  openssh-server openssh-client openssh-sftp-server iproute2)
libraries=(libdbus-1-3 libwrap0 libnsl2 libfido2-1 libedit2 libcbor0.8 libbsd0 libmd0 libcryptsetup12 libip4tc2
  libkmod2 libapparmor1 libfdisk1 libjson-c5 libargon2-1 libdevmapper1.02.1 libseccomp2 libxtables12 libmnl0 libbpf1
  libelf1 libcap2 libtirpc3 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libkeyutils1 libcom-err2
  libatm1 libaudit1 libcap-ng0 libdb5.3 libmount1 libblkid1 libselinux1 libpcre2-8-0 libacl1 libgcrypt20
  libgpg-error0 libp11-kit0 libffi8 libexpat1 liblz4-1 libzstd1 liblzma5 libcrypt1 libpam0g libsystemd0)
apt-get download -qq "${programs[@]}" "${libraries[@]}" 2>/dev/null
for package in *.deb; do dpkg-deb -x "$package" "$work/root"; done
cd "$work/root"
rm -rf usr/share/{doc,man,locale,lintian,bug,zsh,bash-completion,mime,polkit-1} lib/udev usr/lib/systemd/catalog \
  etc/init.d etc/default etc/rc?.d
# The libraries go to a directory of their own, which the machine's linker asks last: its own come first.
mkdir -p opt/hostlib
find lib usr/lib -path '*x86_64-linux-gnu*' -name '*.so*' -not -path '*/security/*' \( -type f -o -type l \) \
  -exec cp -a -t opt/hostlib {} +
rm -rf lib/x86_64-linux-gnu usr/lib/x86_64-linux-gnu
# /bin, /sbin and /lib are links into /usr on the machine.
for place in bin sbin lib; do
  [ -d "$place" ] || continue
  mkdir -p "usr/$place"
  cp -a "$place/." "usr/$place/"
  rm -rf "$place"
done
tar -C "$work/root" -cf - . | xz -9e -T0 >"$out"
ls -l "$out"
