; y[v] += how often v is among x[0 .. n), for v in 0..31: counted in shared memory, added up by atomic operations.
@bins = internal addrspace(3) global [32 x i32] undef, align 4

define ptx_kernel void @histogram(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %bin = getelementptr i32, ptr addrspace(3) @bins, i32 %t
  %owns = icmp ult i32 %t, 32
  br i1 %owns, label %clear, label %cleared
clear:
  store i32 0, ptr addrspace(3) %bin, align 4
  br label %cleared
cleared:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %o = mul i32 %b, %d
  %i = add i32 %o, %t
  %in = icmp slt i32 %i, %n
  br i1 %in, label %count, label %counted
count:
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %v = load i32, ptr addrspace(1) %p, align 4
  %q = getelementptr i32, ptr addrspace(3) @bins, i32 %v
  %old = atomicrmw add ptr addrspace(3) %q, i32 1 syncscope("block") monotonic
  br label %counted
counted:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %owns, label %flush, label %done
flush:
  %c = load i32, ptr addrspace(3) %bin, align 4
  %r = getelementptr i32, ptr addrspace(1) %y, i32 %t
  %before = atomicrmw add ptr addrspace(1) %r, i32 %c syncscope("device") monotonic
  br label %done
done:
  ret void
}
