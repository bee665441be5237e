"""The Kubernetes side. The room is reserved here, so that its name and its import contract hold from the first day; it is empty."""
