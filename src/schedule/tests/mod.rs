//! What no single part can prove alone.

mod facts;
