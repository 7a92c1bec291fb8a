//! Is it true: double-double references, generators and laws over every registry entry
