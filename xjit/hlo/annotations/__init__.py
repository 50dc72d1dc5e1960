"""What modules and instructions carry beside their meaning: metadata, sharding, aliases, backend configs."""
