"""known_hosts files: revoked keys are not trusted, and one bad line does not cut off a whole fleet."""

from __future__ import annotations

from pathlib import Path

from fleetbench.transport.known_hosts import known_lines, trusted_file

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAINYUyAJUTH7z7iNFmbWXy1kFJI2RKRtpyUGU0JlQXqsS"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIHqQ2qBBqnUMTVWKBZ5mkvbHE3gFPhvrUNHXsVqN8WRt"


def test_a_revoked_key_is_known_nowhere(tmp_path: Path) -> None:
    user, system = tmp_path / "user", tmp_path / "system"
    user.write_text(f"h1,10.0.0.1 ssh-ed25519 {KEY} of h1\nh1 ssh-ed25519 {OTHER}\n")
    system.write_text(f"@revoked * ssh-ed25519 {KEY}\n")
    assert known_lines((str(user), str(system))) == (f"h1 ssh-ed25519 {OTHER}",)


def test_authorities_comments_and_bad_lines_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(
        f"# h0 ssh-ed25519 {KEY}\n@cert-authority *.x ssh-ed25519 {KEY}\n\ngarbage\nh1 ssh-rsa {KEY}\n"
        f"h2 ssh-ed25519 AAAA=\nh3 ssh-ed25519\n|1|c2FsdA==|aGFzaA== ssh-ed25519 {KEY}\n"
    )
    assert known_lines((str(file), str(tmp_path / "absent"))) == (f"|1|c2FsdA==|aGFzaA== ssh-ed25519 {KEY}",)


def test_the_file_that_is_given_to_the_library_is_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text(f"h ssh-ed25519 {KEY}\n")
    with trusted_file((str(tmp_path / "known_hosts"),)) as name:
        assert Path(name).read_text() == f"h ssh-ed25519 {KEY}\n"
    assert not Path(name).exists()
