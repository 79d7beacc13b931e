"""The node's disk: blobs, snapshots, partial files and reservations below one root."""
