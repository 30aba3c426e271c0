"""What pages say of each kind of result: ``<name>_summary`` first, ``<name>_page`` all of it."""
