; y = each block's elements of x in reverse, through shared memory whose size the launch gives.
@memory = external addrspace(3) global [0 x i8], align 16

define ptx_kernel void @dynamic_reverse(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %o = mul i32 %b, %d
  %i = add i32 %o, %t
  %px = getelementptr i16, ptr addrspace(1) %x, i32 %i
  %v = load i16, ptr addrspace(1) %px, align 2
  %slot = getelementptr i16, ptr addrspace(3) @memory, i32 %t
  store i16 %v, ptr addrspace(3) %slot, align 2
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %last = sub i32 %d, 1
  %u = sub i32 %last, %t
  %from = getelementptr i16, ptr addrspace(3) @memory, i32 %u
  %w = load i16, ptr addrspace(3) %from, align 2
  %py = getelementptr i16, ptr addrspace(1) %y, i32 %i
  store i16 %w, ptr addrspace(1) %py, align 2
  ret void
}
