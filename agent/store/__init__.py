"""The store on a node's disk: blobs, snapshots, partial files and reservations under one root."""
