"""Programs for several devices: where values lie, and which of their parts are addends."""
