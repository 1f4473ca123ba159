//! Addresses, listening sockets and TLS: what clients and masters are reached by.

pub mod address;
pub mod socket_file;
pub mod sockets;
pub mod tls;
pub mod write;
