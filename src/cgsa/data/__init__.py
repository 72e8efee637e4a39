"""From files, simulators and live sources to windows that a model can take."""
