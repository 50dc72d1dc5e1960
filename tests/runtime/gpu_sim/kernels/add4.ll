; z = x + y, four elements a thread in one access of 16 bytes.
define ptx_kernel void @add4(ptr addrspace(1) noalias readonly align 16 %x, ptr addrspace(1) noalias readonly align 16 %y, ptr addrspace(1) noalias align 16 %z, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %o = mul i32 %b, %d
  %q = add i32 %o, %t
  %i = mul i32 %q, 4
  %in = icmp slt i32 %i, %n
  br i1 %in, label %work, label %done
work:
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %py = getelementptr float, ptr addrspace(1) %y, i32 %i
  %pz = getelementptr float, ptr addrspace(1) %z, i32 %i
  %a = load <4 x float>, ptr addrspace(1) %px, align 16
  %c = load <4 x float>, ptr addrspace(1) %py, align 16
  %s = fadd <4 x float> %a, %c
  store <4 x float> %s, ptr addrspace(1) %pz, align 16
  br label %done
done:
  ret void
}
