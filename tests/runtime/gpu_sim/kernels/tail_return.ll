; y[i] = x[n - 1 - i] within blocks of 64 threads: those that have no element return before the barrier.
@line = internal addrspace(3) global [64 x i32] undef, align 4

define ptx_kernel void @tail_return(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias %y, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %in = icmp slt i32 %t, %n
  br i1 %in, label %work, label %leave
leave:
  ret void
work:
  %px = getelementptr i32, ptr addrspace(1) %x, i32 %t
  %v = load i32, ptr addrspace(1) %px, align 4
  %slot = getelementptr i32, ptr addrspace(3) @line, i32 %t
  store i32 %v, ptr addrspace(3) %slot, align 4
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %last = sub i32 %n, 1
  %u = sub i32 %last, %t
  %from = getelementptr i32, ptr addrspace(3) @line, i32 %u
  %w = load i32, ptr addrspace(3) %from, align 4
  %py = getelementptr i32, ptr addrspace(1) %y, i32 %t
  store i32 %w, ptr addrspace(1) %py, align 4
  ret void
}
