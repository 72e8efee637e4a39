"""A folder on a disk or in an object store, by way of pyarrow's filesystems: whole files, listed by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from cgsa.errors import BundleError, ConfigError
from cgsa.files import replacing


class ObjectFolder:
    """A folder that several computers can reach; it is made when something is written.

    A file is written under a name of its own and never changed. On a disk it appears when it is complete, and survives
    a power failure. In an object store, an interrupted upload may leave a part of a file: whoever reads it must be able
    to tell, such as by a hash in it.
    """

    def __init__(self, filesystem: fs.FileSystem, path: str) -> None:
        self._filesystem, self.path = filesystem, path.rstrip("/")

    @classmethod
    def of(cls, place: str) -> ObjectFolder:
        """Return the folder at a path or an address such as ``s3://bucket/fleet?region=eu-north-1``."""
        if "://" not in place:
            return cls(fs.LocalFileSystem(), str(Path(place).resolve()))
        try:
            return cls(*fs.FileSystem.from_uri(place))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ConfigError(f"{place}: no folder of pyarrow ({error}); expected a path, s3:// or gs://") from error

    def below(self, name: str) -> ObjectFolder:
        """Return a folder in this one."""
        return ObjectFolder(self._filesystem, f"{self.path}/{name}")

    def names(self) -> tuple[str, ...]:
        """Return the names of the files, in order."""
        try:
            found = self._filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        except OSError as error:
            raise BundleError(f"{self.path}: cannot be listed ({error})") from error
        return tuple(sorted(info.base_name for info in found if info.type == fs.FileType.File))

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        try:
            with self._filesystem.open_input_stream(f"{self.path}/{name}", compression=None) as stream:
                return bytes(stream.read())
        except OSError as error:
            raise BundleError(f"{self.path}/{name}: cannot be read ({error})") from error

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file."""
        target = f"{self.path}/{name}"
        if isinstance(self._filesystem, fs.LocalFileSystem):
            with replacing(Path(target), BundleError) as fresh, fresh.open("wb") as file:
                file.writelines(pieces)
            return
        try:
            self._filesystem.create_dir(self.path, recursive=True)
            with self._filesystem.open_output_stream(target, compression=None) as stream:
                for piece in pieces:
                    stream.write(piece)
        except OSError as error:
            raise BundleError(f"{target}: cannot be written ({error})") from error

    def remove(self, name: str) -> None:
        """Remove a file, unless it is gone already."""
        try:
            self._filesystem.delete_file(f"{self.path}/{name}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise BundleError(f"{self.path}/{name}: cannot be removed ({error})") from error
