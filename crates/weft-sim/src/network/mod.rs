//! The network between hosts: links, switches with shared buffers, routes.
