; y = inclusive prefix sums of the 128 elements of each block of x: steps of 1, 2, 4, ..., two barriers in each.
@sums = internal addrspace(3) global [128 x float] undef, align 4

define ptx_kernel void @scan(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %o = mul i32 %b, 128
  %i = add i32 %o, %t
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %px, align 4
  %mine = getelementptr float, ptr addrspace(3) @sums, i32 %t
  store float %v, ptr addrspace(3) %mine, align 4
  br label %step
step:
  %s = phi i32 [ 1, %entry ], [ %s.next, %stored ]
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %has = icmp uge i32 %t, %s
  br i1 %has, label %read, label %ready
read:
  %j = sub i32 %t, %s
  %left = getelementptr float, ptr addrspace(3) @sums, i32 %j
  %l = load float, ptr addrspace(3) %left, align 4
  br label %ready
ready:
  %addend = phi float [ 0.0, %step ], [ %l, %read ]
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %has, label %store, label %stored
store:
  %m = load float, ptr addrspace(3) %mine, align 4
  %sum = fadd float %m, %addend
  store float %sum, ptr addrspace(3) %mine, align 4
  br label %stored
stored:
  %s.next = mul i32 %s, 2
  %more = icmp ult i32 %s.next, 128
  br i1 %more, label %step, label %done
done:
  %result = load float, ptr addrspace(3) %mine, align 4
  %py = getelementptr float, ptr addrspace(1) %y, i32 %i
  store float %result, ptr addrspace(1) %py, align 4
  ret void
}
