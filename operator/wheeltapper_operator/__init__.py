"""The Kubernetes side. Reserved, so that its name and its import contract hold from the first day; still empty."""
