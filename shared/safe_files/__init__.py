"""Decides by name and content which files cannot be pickles, without ever unpickling or unpacking one."""
