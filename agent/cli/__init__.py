"""Commands of `larder` that need the transfer engine."""
