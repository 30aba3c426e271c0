"""A synthetic hospital to try things on: nobody in it exists."""

from sfumato.demo.hospital import (
    people,
    people_batches,
    people_schema,
    write_hospital,
    write_people,
)

__all__ = ["people", "people_batches", "people_schema", "write_hospital", "write_people"]
