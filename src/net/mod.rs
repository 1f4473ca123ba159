//! Addresses, listening sockets and TLS for connections to clients and masters.

pub mod address;
pub mod admin_socket;
pub mod socket_file;
pub mod sockets;
pub mod tls;
pub mod write;
