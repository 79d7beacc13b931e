"""Owns one node's disk: fetches, verifies, keeps and labels models."""
