"""Real hosts on one machine, for demonstrations and tests: systemd, sshd, journald and dnf in nspawn."""
