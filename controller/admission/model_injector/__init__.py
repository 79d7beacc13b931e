"""The webhook that gives pods the Models that they name, by `models.example.com/inject`."""
