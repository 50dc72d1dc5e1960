; c = a b, all n x n, in tiles of 16 x 16: a barrier before and behind the inner loop of each tile.
@a.tile = internal addrspace(3) global [256 x float] undef, align 4
@b.tile = internal addrspace(3) global [256 x float] undef, align 4

define ptx_kernel void @matmul(ptr addrspace(1) noalias readonly %a, ptr addrspace(1) noalias readonly %b, ptr addrspace(1) noalias %c, i32 %n) {
entry:
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %row0 = mul i32 %by, 16
  %row = add i32 %row0, %ty
  %column0 = mul i32 %bx, 16
  %column = add i32 %column0, %tx
  %line = mul i32 %row, %n
  %tile.line = mul i32 %ty, 16
  %slot = add i32 %tile.line, %tx
  %as = getelementptr float, ptr addrspace(3) @a.tile, i32 %slot
  %bs = getelementptr float, ptr addrspace(3) @b.tile, i32 %slot
  br label %outer
outer:
  %k0 = phi i32 [ 0, %entry ], [ %k0.next, %next ]
  %acc = phi float [ 0.0, %entry ], [ %acc.next, %next ]
  %ka = add i32 %k0, %tx
  %ia = add i32 %line, %ka
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %ia
  %va = load float, ptr addrspace(1) %pa, align 4
  store float %va, ptr addrspace(3) %as, align 4
  %kb = add i32 %k0, %ty
  %line.b = mul i32 %kb, %n
  %ib = add i32 %line.b, %column
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %ib
  %vb = load float, ptr addrspace(1) %pb, align 4
  store float %vb, ptr addrspace(3) %bs, align 4
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %inner
inner:
  %k = phi i32 [ 0, %outer ], [ %k.next, %inner ]
  %sum = phi float [ %acc, %outer ], [ %acc.next, %inner ]
  %sa = add i32 %tile.line, %k
  %ra = getelementptr float, ptr addrspace(3) @a.tile, i32 %sa
  %x = load float, ptr addrspace(3) %ra, align 4
  %row.b = mul i32 %k, 16
  %sb = add i32 %row.b, %tx
  %rb = getelementptr float, ptr addrspace(3) @b.tile, i32 %sb
  %y = load float, ptr addrspace(3) %rb, align 4
  %acc.next = call float @llvm.fma.f32(float %x, float %y, float %sum)
  %k.next = add i32 %k, 1
  %more = icmp ult i32 %k.next, 16
  br i1 %more, label %inner, label %next
next:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %k0.next = add i32 %k0, 16
  %again = icmp ult i32 %k0.next, %n
  br i1 %again, label %outer, label %done
done:
  %ic = add i32 %line, %column
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %ic
  store float %acc.next, ptr addrspace(1) %pc, align 4
  ret void
}
