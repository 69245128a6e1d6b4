//! Versions: what is offered to the client, typed conversion between versions.
