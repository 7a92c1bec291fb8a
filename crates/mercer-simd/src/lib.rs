//! How the metal does it: packed panels, dot products, exp and log over slices
