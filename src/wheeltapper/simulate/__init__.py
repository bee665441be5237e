"""A replay of the policy on a trace of faults, with a virtual clock. It calls the policy's own functions."""
