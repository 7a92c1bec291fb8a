//! What an example is: rows, matrices, datasets and the readers that make them
