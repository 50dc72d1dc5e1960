"""Which instructions compute in bf16, and which in f32."""
