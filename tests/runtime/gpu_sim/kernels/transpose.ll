; y[j, i] = x[i, j], both n x n, in tiles of 32 x 32 by blocks of 32 x 8 threads; rows of the tile are 33 elements apart.
@tile = internal addrspace(3) global [1056 x float] undef, align 16

define ptx_kernel void @transpose(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) noalias %y, i32 %n) {
entry:
  %tx = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %column0 = mul i32 %bx, 32
  %row0 = mul i32 %by, 32
  br label %in
in:
  %r = phi i32 [ %ty, %entry ], [ %r.next, %in ]
  %row = add i32 %row0, %r
  %column = add i32 %column0, %tx
  %line = mul i32 %row, %n
  %i = add i32 %line, %column
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %px, align 4
  %line.s = mul i32 %r, 33
  %s = add i32 %line.s, %tx
  %ps = getelementptr float, ptr addrspace(3) @tile, i32 %s
  store float %v, ptr addrspace(3) %ps, align 4
  %r.next = add i32 %r, 8
  %more = icmp ult i32 %r.next, 32
  br i1 %more, label %in, label %full
full:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %out
out:
  %k = phi i32 [ %ty, %full ], [ %k.next, %out ]
  %line.t = mul i32 %tx, 33
  %u = add i32 %line.t, %k
  %pt = getelementptr float, ptr addrspace(3) @tile, i32 %u
  %w = load float, ptr addrspace(3) %pt, align 4
  %row.y = add i32 %column0, %k
  %column.y = add i32 %row0, %tx
  %line.y = mul i32 %row.y, %n
  %j = add i32 %line.y, %column.y
  %py = getelementptr float, ptr addrspace(1) %y, i32 %j
  store float %w, ptr addrspace(1) %py, align 4
  %k.next = add i32 %k, 8
  %again = icmp ult i32 %k.next, 32
  br i1 %again, label %out, label %done
done:
  ret void
}
