; z[i] = x[i] + y[i] for i < n; the tail threads of the last block return early.
define ptx_kernel void @add(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias readonly %y, ptr addrspace(1) noalias %z, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %o = mul i32 %b, %d
  %i = add i32 %o, %t
  %in = icmp slt i32 %i, %n
  br i1 %in, label %work, label %done
work:
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %py = getelementptr float, ptr addrspace(1) %y, i32 %i
  %pz = getelementptr float, ptr addrspace(1) %z, i32 %i
  %a = load float, ptr addrspace(1) %px, align 4
  %c = load float, ptr addrspace(1) %py, align 4
  %s = fadd float %a, %c
  store float %s, ptr addrspace(1) %pz, align 4
  br label %done
done:
  ret void
}
