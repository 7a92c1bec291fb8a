//! What the user asked for: parse, print and check component texts such as rbf(gamma=0.5)
