"""Link: one open connection to a host. Commands and SFTP share it; every wait has a limit."""

from __future__ import annotations

import contextlib
import errno
import shlex
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from tasks.cloud.calls import calling
from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import SshError, Unfit, Unreachable
from tasks.cloud.ssh_paramiko import paramiko

IO_S = 15.0
"""How long one step of a file transfer may stand still, seconds, before the link counts as lost."""

_CHUNK = 1 << 15


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    code: int
    output: bytes
    errors: str


class Link:
    """An open connection. Safe to use from several threads; files are taken one step at a time.

    Methods raise Unreachable when the link breaks: then it is closed, and its pool dials anew. What the host
    itself refuses is Unfit; a file that is not there is FileNotFoundError.
    """

    def __init__(self, endpoint: Endpoint, transport: paramiko.Transport) -> None:
        self.endpoint = endpoint
        self.transport = transport
        self._sftp: paramiko.SFTPClient | None = None
        self._files = threading.RLock()

    @property
    def alive(self) -> bool:
        """Whether nobody has noticed yet that it is broken."""
        return self.transport.is_active()

    def close(self) -> None:
        """Hangs up."""
        self.transport.close()

    def run(
        self, command: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0, *, called: str = ""
    ) -> Ran:
        """Runs a command to its end, without a terminal, giving it `stdin`; its whole output is returned.

        `called` is what it is for people, where its words say little.
        """
        until = time.monotonic() + timeout_s
        with (
            calling("ssh", f"{self.endpoint} {called or shlex.join(command)}", timeout_s) as call,
            self.lost_when_broken(f"{command[0]} gave no answer within {timeout_s:g} s"),
        ):
            channel = self.transport.open_session(timeout=min(IO_S, timeout_s))
            try:
                channel.settimeout(timeout_s)
                channel.exec_command(shlex.join(command))
                _feed(channel, stdin)
                output = _drain(channel.recv, channel, until)
                errors = _drain(channel.recv_stderr, channel, until)
                if not channel.status_event.wait(max(0.1, until - time.monotonic())):
                    raise TimeoutError
                code = channel.recv_exit_status()
                call.result = f"code {code}"
            finally:
                channel.close()
        if code == -1:  # nobody said how it ended; that the link is dead may not be seen yet
            raise Unreachable(
                str(self.endpoint), "lost", f"the link broke while {command[0]} ran, or it was killed"
            )
        return Ran(code, output, errors.decode("utf-8", "replace"))

    @contextlib.contextmanager
    def talk(self, command: Sequence[str], *, called: str = "") -> Iterator[Talk]:
        """Starts a command that is spoken with, line by line; leaving the context hangs up on it. See `run`."""
        with (
            calling("ssh", f"{self.endpoint} {called or shlex.join(command)}, to talk to", IO_S),
            self.lost_when_broken(f"{command[0]} did not start within {IO_S:g} s"),
        ):
            channel = self.transport.open_session(timeout=IO_S)
            channel.settimeout(IO_S)
            channel.exec_command(shlex.join(command))
        try:
            yield Talk(self, channel)
        finally:
            channel.close()

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Returns at most `size` bytes of a file from `offset` on; fewer only at its end."""
        with self._sftp_step(path) as sftp, sftp.open(path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def home(self) -> str:
        """Returns the user's home there."""
        with self._sftp_step("the home folder") as sftp:
            return sftp.normalize(".")

    def reader(self, path: str) -> Callable[[int, int], bytes]:
        """Returns `read` for one file that is read again and again: it is kept open, so that looking is quick.

        As long as the file is not there, nothing is in it.
        """
        file: paramiko.SFTPFile | None = None

        def read(offset: int, size: int) -> bytes:
            nonlocal file
            with self._sftp_step(path) as sftp:
                if file is None:
                    try:
                        file = sftp.open(path, "rb")
                    except FileNotFoundError:
                        return b""
                file.seek(offset)
                return file.read(size)

        return read

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Puts a file in place as a whole: nobody sees half of it, or sees it with other permissions."""
        temporary = f"{path}.{threading.get_ident():x}.part"
        with self._sftp_step(path) as sftp:
            with sftp.open(temporary, "wb") as file:
                file.chmod(mode)
                file.set_pipelined(True)
                file.write(content)
            sftp.posix_rename(temporary, path)

    def touch(self, path: str) -> None:
        """Writes a little into a file that is there: its time changes, by the host's own clock."""
        with self._sftp_step(path) as sftp, sftp.open(path, "r+b") as file:
            file.write(f"{time.monotonic():.3f}\n".encode())

    def names(self, folder: str) -> Iterator[tuple[str, bool, int]]:
        """Yields name, whether it is a folder, and size of what lies in a folder; links are left out."""
        with self._sftp_step(folder) as sftp:
            entries = sftp.listdir_attr(folder)
        for entry in entries:
            mode = entry.st_mode or 0
            if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                yield entry.filename, stat.S_ISDIR(mode), entry.st_size or 0

    def download(self, path: str, into: IO[bytes], size: int) -> None:
        """Copies a file of `size` bytes into an open one, in steps that let others use the link between."""
        done = 0
        while done < size:
            with self._sftp_step(path) as sftp, sftp.open(path, "rb") as file:
                end = min(size, done + (8 << 20))
                file.seek(done)
                file.prefetch(end, max_concurrent_requests=64)
                while done < end:
                    data = file.read(min(_CHUNK, end - done))
                    if not data:
                        return
                    into.write(data)
                    done += len(data)

    @contextlib.contextmanager
    def _sftp_step(self, path: str) -> Iterator[paramiko.SFTPClient]:
        name = str(self.endpoint)
        with (
            self._files,
            calling("sftp", f"{name} {path}"),
            self.lost_when_broken(f"no answer about {path} within {IO_S:g} s"),
        ):
            try:
                yield self._open_sftp()
            except TimeoutError:
                raise
            except FileNotFoundError:
                raise
            except PermissionError as error:
                raise Unfit(name, "permission", f"{self.endpoint.user} may not use {path}") from error
            except OSError as error:
                if (error.errno is None and str(error) in ("Failure", "")) or error.errno == errno.ENOSPC:
                    raise Unfit(name, "failed", f"{path} cannot be written or read: {error}") from error
                raise

    def _open_sftp(self) -> paramiko.SFTPClient:
        if self._sftp is None:
            channel = self.transport.open_session(timeout=IO_S)
            channel.settimeout(IO_S)
            channel.invoke_subsystem("sftp")
            self._sftp = paramiko.SFTPClient(channel)
        return self._sftp

    @contextlib.contextmanager
    def lost_when_broken(self, when_silent: str) -> Iterator[None]:
        """Closes the link and raises Unreachable for all that a broken one brings."""
        name = str(self.endpoint)
        try:
            yield
        except (SshError, FileNotFoundError):
            raise
        except TimeoutError as error:
            self.close()
            raise Unreachable(name, "timeout", when_silent) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.close()
            told = " ".join(str(error).split()) or type(error).__name__
            raise Unreachable(name, "lost", f"the link broke: {told}") from error


class Talk:
    """A command that runs and answers. Used by one thread."""

    def __init__(self, link: Link, channel: paramiko.Channel) -> None:
        self._link = link
        self._channel = channel
        self._heard = b""

    def exchange(self, content: bytes, timeout_s: float) -> Ran:
        """Says something; returns the line that is answered, or what the command came to if it ended instead."""
        until = time.monotonic() + timeout_s
        channel = self._channel
        with self._link.lost_when_broken(f"no answer within {timeout_s:g} s"):
            channel.settimeout(timeout_s)
            try:
                channel.sendall(content)
            except TimeoutError:
                raise
            except OSError:
                pass  # it has ended: its exit code tells
            while b"\n" not in self._heard and (data := channel.recv(1 << 16)):
                self._heard += data
                channel.settimeout(max(0.1, until - time.monotonic()))
            line, ended, self._heard = self._heard.partition(b"\n")
            if ended:
                return Ran(0, line, "")
            errors = _drain(channel.recv_stderr, channel, until)
            if not channel.status_event.wait(max(0.1, until - time.monotonic())):
                raise TimeoutError
            code = channel.recv_exit_status()
        if code == -1:
            raise Unreachable(str(self._link.endpoint), "lost", "the link broke before the answer")
        return Ran(code, line, errors.decode("utf-8", "replace"))


def _feed(channel: paramiko.Channel, content: bytes) -> None:
    # A command that ends without reading everything is no broken link: its exit code tells.
    with contextlib.suppress(OSError):
        if content:
            channel.sendall(content)
        channel.shutdown_write()


def _drain(receive: Callable[[int], bytes], channel: paramiko.Channel, until: float) -> bytes:
    parts = []
    while data := receive(1 << 16):
        parts.append(data)
        remaining = until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        channel.settimeout(remaining)
    return b"".join(parts)
