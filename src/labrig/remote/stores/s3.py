"""Storage with the interface of S3: of Amazon, of a centre (Ceph), or MinIO."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ...errors import Failed, require_package
from .store import Store, StoredFile, stored_files

PART_BYTES = 16 << 20
MAX_PARTS = 1000  # that one answer lists; S3 takes ten times as many


class S3Store(Store):
    """Data files below s3://BUCKET/FOLDER.

    An upload in parts shows nothing until it is completed. Keys and the address of the server are
    those of Amazon's own programs: ~/.aws, AWS_PROFILE, AWS_ENDPOINT_URL.
    """

    def __init__(self, place: str) -> None:
        require_package("s3fs", place)
        from s3fs import S3FileSystem  # optional

        self.place = place
        self.bucket, _, folder = place.removeprefix("s3://").partition("/")
        self.prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
        self.system: Any = S3FileSystem(use_listings_cache=False, skip_instance_cache=True)

    def files(self) -> list[StoredFile]:
        with self.explain_errors():
            try:
                entries = self.system.ls(f"{self.bucket}/{self.prefix}", detail=True)
            except FileNotFoundError:  # a bucket has no empty folders
                return []
        below = f"{self.bucket}/{self.prefix}"
        return stored_files(
            (entry["name"].removeprefix(below), entry["size"], entry["LastModified"].timestamp())
            for entry in entries
            if entry["type"] == "file"
        )

    def push(self, source: Path, file: str, tell: Callable[[int], object]) -> None:
        n_bytes = source.stat().st_size
        part_bytes = max(PART_BYTES, -(-n_bytes // MAX_PARTS))
        with self.explain_errors(), open(source, "rb") as original:
            upload = {"Bucket": self.bucket, "Key": self.prefix + file}
            upload["UploadId"] = self.begun_upload(upload) or self.begin_upload(upload)
            listed = self.system.call_s3("list_parts", **upload).get("Parts", [])
            there = {(part["PartNumber"], part["ETag"]) for part in listed}
            parts = []
            while block := original.read(part_bytes):
                number = len(parts) + 1
                tag = f'"{hashlib.md5(block, usedforsecurity=False).hexdigest()}"'
                if (number, tag) not in there:
                    sent = self.system.call_s3(
                        "upload_part", PartNumber=number, Body=block, **upload
                    )
                    tag = sent["ETag"]
                parts.append({"PartNumber": number, "ETag": tag})
                tell(len(block))
            self.system.call_s3(
                "complete_multipart_upload", MultipartUpload={"Parts": parts}, **upload
            )

    def begun_upload(self, upload: dict[str, str]) -> str | None:
        """The id of the last upload of this file that was cut; None without one."""
        answer = self.system.call_s3(
            "list_multipart_uploads", Bucket=upload["Bucket"], Prefix=upload["Key"]
        )
        ids = [
            each["UploadId"] for each in answer.get("Uploads", []) if each["Key"] == upload["Key"]
        ]
        return ids[-1] if ids else None

    def begin_upload(self, upload: dict[str, str]) -> str:
        return self.system.call_s3("create_multipart_upload", **upload)["UploadId"]

    @contextmanager
    def open(self, file: str, start: int) -> Iterator[IO[bytes]]:
        with (
            self.explain_errors(),
            self.system.open(f"{self.bucket}/{self.prefix}{file}", "rb", PART_BYTES) as stream,
        ):
            stream.seek(start)
            yield stream

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raises Failed, with one line, for whatever the server or its address is not right in."""
        from botocore.exceptions import BotoCoreError, ClientError  # comes with s3fs

        try:
            yield
        except (BotoCoreError, ClientError, PermissionError, FileNotFoundError) as error:
            raise Failed(
                f"{self.place}: {first_line(error)}. Its keys and its server are those of ~/.aws, or "
                "of the variables AWS_PROFILE and AWS_ENDPOINT_URL"
            ) from error


def first_line(error: Any) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
