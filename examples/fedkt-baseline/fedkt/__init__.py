"""FedKT: parties send labels of public rows once, and the server's model learns what they agree on."""
