"""Owns one node's disk: fetches, verifies, keeps and labels models."""

__version__ = "0.1.0"
