//! The software NIC: ports, descriptor rings, doorbells, segmentation and the transmit worker.
