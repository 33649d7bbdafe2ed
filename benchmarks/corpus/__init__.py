"""The measurements that ship with a3gnn, and how they are made."""
