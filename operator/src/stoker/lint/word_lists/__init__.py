"""Names that `stoker lint` and admission know, as data: launchers, tools, packages and images."""
