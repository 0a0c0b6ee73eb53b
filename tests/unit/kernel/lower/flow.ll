; Control flow and values that no OpenCL C compiler makes of plain sources, but that LLVM IR from elsewhere may contain.
; tangled has a loop with two entries, of which each item takes its own.
; tangled_barriers has such a loop, with a barrier in each half; all items take the same entry.
; switched has a switch with fall-through in a loop.  picked reads an element of a vector by an index.
; beside loads by indices that grow by one from most items to the next (clamped, exchanged, wrapped around, halved).
; copied copies a struct in private memory as a whole.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"

define void @tangled(ptr %in, ptr %out) {
  %l = call i32 @__facet_local_id(i32 0)
  %i = zext i32 %l to i64
  %pi = getelementptr i32, ptr %in, i64 %i
  %x = load i32, ptr %pi
  %odd = trunc i32 %x to i1
  br i1 %odd, label %a, label %b
a:
  %na = phi i32 [ %x, %0 ], [ %nb1, %b ]
  %na1 = add i32 %na, 3
  %enda = icmp sgt i32 %na1, 1000
  br i1 %enda, label %done, label %b
b:
  %nb = phi i32 [ %x, %0 ], [ %na1, %a ]
  %nb1 = mul i32 %nb, 2
  %endb = icmp sgt i32 %nb1, 700
  br i1 %endb, label %done, label %a
done:
  %r = phi i32 [ %na1, %a ], [ %nb1, %b ]
  %po = getelementptr i32, ptr %out, i64 %i
  store i32 %r, ptr %po
  ret void
}

define void @tangled_barriers(ptr %in, ptr %out, ptr %local, i32 %start) {
  %l = call i32 @__facet_local_id(i32 0)
  %n = call i32 @__facet_group_size(i32 0)
  %i = zext i32 %l to i64
  %pi = getelementptr i32, ptr %in, i64 %i
  %x = load i32, ptr %pi
  %next = add i32 %l, 1
  %wrapped = urem i32 %next, %n
  %j = zext i32 %wrapped to i64
  %mine = getelementptr i32, ptr %local, i64 %i
  %other = getelementptr i32, ptr %local, i64 %j
  store i32 %x, ptr %mine
  call void @__facet_barrier()
  %odd = trunc i32 %start to i1
  br i1 %odd, label %a, label %b
a:
  %ka = phi i32 [ %start, %0 ], [ %kb1, %b ]
  %va = load i32, ptr %other
  call void @__facet_barrier()
  %va1 = add i32 %va, 1
  store i32 %va1, ptr %mine
  %ka1 = add i32 %ka, 1
  call void @__facet_barrier()
  br label %b
b:
  %kb = phi i32 [ %start, %0 ], [ %ka1, %a ]
  %vb = load i32, ptr %other
  call void @__facet_barrier()
  %vb1 = mul i32 %vb, 2
  store i32 %vb1, ptr %mine
  %kb1 = add i32 %kb, 1
  call void @__facet_barrier()
  %end = icmp sgt i32 %kb1, 6
  br i1 %end, label %done, label %a
done:
  %r = load i32, ptr %mine
  %po = getelementptr i32, ptr %out, i64 %i
  store i32 %r, ptr %po
  ret void
}

define void @switched(ptr %in, ptr %out) {
  %l = call i32 @__facet_local_id(i32 0)
  %i = zext i32 %l to i64
  %pi = getelementptr i32, ptr %in, i64 %i
  %x = load i32, ptr %pi
  br label %head
head:
  %v = phi i32 [ %x, %0 ], [ %v4, %latch ]
  %k = phi i32 [ 0, %0 ], [ %k1, %latch ]
  %c = and i32 %v, 7
  switch i32 %c, label %latch [
    i32 0, label %c0
    i32 1, label %c1
    i32 2, label %c2
    i32 5, label %out0
  ]
c0:
  %v0 = add i32 %v, 11
  br label %c1
c1:
  %v1 = phi i32 [ %v, %head ], [ %v0, %c0 ]
  %v1a = mul i32 %v1, 3
  br label %c2
c2:
  %v2 = phi i32 [ %v, %head ], [ %v1a, %c1 ]
  %v2a = xor i32 %v2, 5
  br label %latch
latch:
  %v3 = phi i32 [ %v, %head ], [ %v2a, %c2 ]
  %v4 = add i32 %v3, 1
  %k1 = add i32 %k, 1
  %again = icmp slt i32 %k1, 20
  br i1 %again, label %head, label %out0
out0:
  %r = phi i32 [ %v, %head ], [ %v4, %latch ]
  %po = getelementptr i32, ptr %out, i64 %i
  store i32 %r, ptr %po
  ret void
}

define void @picked(ptr %in, ptr %out) {
  %l = call i32 @__facet_local_id(i32 0)
  %i = zext i32 %l to i64
  %pi = getelementptr <4 x i32>, ptr %in, i64 %i
  %x = load <4 x i32>, ptr %pi, align 4
  %y = add <4 x i32> %x, <i32 1, i32 2, i32 3, i32 4>
  %k = and i32 %l, 3
  %e = extractelement <4 x i32> %y, i32 %k
  %z = insertelement <4 x i32> %y, i32 %e, i32 0
  %po = getelementptr <4 x i32>, ptr %out, i64 %i
  store <4 x i32> %z, ptr %po, align 4
  ret void
}

define void @beside(ptr %in, ptr %out, ptr %local, i32 %k) {
  %l = call i32 @__facet_local_id(i32 0)
  %n = call i32 @__facet_group_size(i32 0)
  %last = sub i32 %n, 1
  %i = zext i32 %l to i64
  %s0 = add i32 %l, %k
  %s1 = call i32 @llvm.smax.i32(i32 %s0, i32 4)
  %s = call i32 @llvm.smin.i32(i32 %s1, i32 %last)
  %si = sext i32 %s to i64
  %ps = getelementptr i32, ptr %in, i64 %si
  %vs = load i32, ptr %ps
  %x = xor i32 %l, %k
  %xi = zext i32 %x to i64
  %px = getelementptr i32, ptr %in, i64 %xi
  %vx = load i32, ptr %px
  %w = urem i32 %s0, 24
  %wi = zext i32 %w to i64
  %pw = getelementptr i32, ptr %in, i64 %wi
  %vw = load i32, ptr %pw
  %h = lshr i32 %l, 1
  %h1 = mul i32 %h, 3
  %h2 = and i32 %l, 1
  %h3 = add i32 %h1, %h2
  %hi = zext i32 %h3 to i64
  %ph = getelementptr i32, ptr %in, i64 %hi
  %vh = load i32, ptr %ph
  %a = mul i32 %vs, 7
  %b = add i32 %a, %vx
  %c = mul i32 %b, 5
  %d = add i32 %c, %vw
  %e = mul i32 %d, 3
  %f = add i32 %e, %vh
  %po = getelementptr i32, ptr %out, i64 %i
  store i32 %f, ptr %po
  ret void
}

define void @copied(ptr %in, ptr %out) {
  %own = alloca { i32, i64, [5 x i32] }, align 8
  %l = call i32 @__facet_local_id(i32 0)
  %i = zext i32 %l to i64
  %pi = getelementptr { i32, i64, [5 x i32] }, ptr %in, i64 %i
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %own, ptr align 8 %pi, i64 40, i1 false)
  %k = urem i64 %i, 5
  %pe = getelementptr { i32, i64, [5 x i32] }, ptr %own, i64 0, i32 2, i64 %k
  %e = load i32, ptr %pe
  %e1 = add i32 %e, 1
  store i32 %e1, ptr %pe
  %po = getelementptr { i32, i64, [5 x i32] }, ptr %out, i64 %i
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %po, ptr align 8 %own, i64 40, i1 false)
  ret void
}

declare i32 @__facet_local_id(i32)
declare i32 @__facet_group_size(i32)
declare void @__facet_barrier()
declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
