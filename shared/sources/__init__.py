"""The sources that models come from: one port and one package for each kind of source."""
