"""What every executable promises, one parametrised suite over the registry."""
