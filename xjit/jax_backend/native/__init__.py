"""What of the backend runs without Python: functions of PJRT's interface as LLVM IR."""
