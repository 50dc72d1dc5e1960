; y[block] = sum of x[block * 256 .. + 256): butterflies in each warp, then the first warp over the eight partial sums.
@partial = internal addrspace(3) global [8 x float] undef, align 4

define internal float @warp_sum(float %v) {
  %s16 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %v, i32 16, i32 31)
  %v16 = fadd float %v, %s16
  %s8 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %v16, i32 8, i32 31)
  %v8 = fadd float %v16, %s8
  %s4 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %v8, i32 4, i32 31)
  %v4 = fadd float %v8, %s4
  %s2 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %v4, i32 2, i32 31)
  %v2 = fadd float %v4, %s2
  %s1 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %v2, i32 1, i32 31)
  %v1 = fadd float %v2, %s1
  ret float %v1
}

define ptx_kernel void @reduce(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
  %o = mul i32 %b, 256
  %i = add i32 %o, %t
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %p, align 4
  %w = call float @warp_sum(float %v)
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %note, label %noted
note:
  %warp = lshr i32 %t, 5
  %slot = getelementptr float, ptr addrspace(3) @partial, i32 %warp
  store float %w, ptr addrspace(3) %slot, align 4
  br label %noted
noted:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %in = icmp ult i32 %t, 32
  br i1 %in, label %second, label %done
second:
  %has = icmp ult i32 %lane, 8
  br i1 %has, label %read, label %sum
read:
  %from = getelementptr float, ptr addrspace(3) @partial, i32 %lane
  %part = load float, ptr addrspace(3) %from, align 4
  br label %sum
sum:
  %u = phi float [ 0.0, %second ], [ %part, %read ]
  %total = call float @warp_sum(float %u)
  br i1 %first, label %write, label %done
write:
  %q = getelementptr float, ptr addrspace(1) %y, i32 %b
  store float %total, ptr addrspace(1) %q, align 4
  br label %done
done:
  ret void
}
