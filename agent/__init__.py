"""Owns one node's disk: downloads, verifies, keeps and labels models."""
