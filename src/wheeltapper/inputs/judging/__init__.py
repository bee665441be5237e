"""What several documents say together. Pure: samples, states and dumps in, findings out."""
