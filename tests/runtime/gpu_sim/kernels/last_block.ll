; y[0] = sum of x: every block leaves the sum of its 64 elements, the block that ends last adds them up in order.
@sum = internal addrspace(3) global float undef, align 4
@is.last = internal addrspace(3) global i32 undef, align 4

define ptx_kernel void @last_block(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) %y, ptr addrspace(1) %partial, ptr addrspace(1) %counter) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %blocks = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %is.first = icmp eq i32 %t, 0
  br i1 %is.first, label %clear, label %cleared
clear:
  store float 0.0, ptr addrspace(3) @sum, align 4
  br label %cleared
cleared:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %o = mul i32 %b, 64
  %i = add i32 %o, %t
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %p, align 4
  %old = atomicrmw fadd ptr addrspace(3) @sum, float %v syncscope("block") monotonic
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %is.first, label %publish, label %published
publish:
  %s = load float, ptr addrspace(3) @sum, align 4
  %q = getelementptr float, ptr addrspace(1) %partial, i32 %b
  store float %s, ptr addrspace(1) %q, align 4
  fence syncscope("device") acq_rel
  %ticket = atomicrmw add ptr addrspace(1) %counter, i32 1 syncscope("device") monotonic
  fence syncscope("device") acq_rel
  %last = sub i32 %blocks, 1
  %is = icmp eq i32 %ticket, %last
  %is.number = zext i1 %is to i32
  store i32 %is.number, ptr addrspace(3) @is.last, align 4
  br label %published
published:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %flag = load i32, ptr addrspace(3) @is.last, align 4
  %mine = icmp ne i32 %flag, 0
  %adds = and i1 %mine, %is.first
  br i1 %adds, label %add, label %done
add:
  %k = phi i32 [ 0, %published ], [ %k.next, %add ]
  %total = phi float [ 0.0, %published ], [ %total.next, %add ]
  %r = getelementptr float, ptr addrspace(1) %partial, i32 %k
  %part = load float, ptr addrspace(1) %r, align 4
  %total.next = fadd float %total, %part
  %k.next = add i32 %k, 1
  %more = icmp ult i32 %k.next, %blocks
  br i1 %more, label %add, label %write
write:
  store float %total.next, ptr addrspace(1) %y, align 4
  br label %done
done:
  ret void
}
