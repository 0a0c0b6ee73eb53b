; What clang makes of small kernels, stripped as lower.h says, with the work-item functions inlined.
; scaled does nothing in items beyond a bound.  sums has barriers in a loop.
; steps has a loop with break and continue, which items leave at different times.
; sorted has private memory, and loops in loops.  counts has atomics on local and global memory in divergent flow.
; rotated keeps state, also in private memory, across barriers, one of which not every round reaches.
; parted has a barrier that not all items reach: its result is undefined, but it must end.
; asked gives ids of a dimension that is not constant.  divided has a division that must not be made for all items.
; inside has an if that all lanes of most chunks take. In the if, it divides, and loads neighbours, fields, and elements
; at half of an index; values from the if are used behind it.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
@__facet_local.counts.h = internal global [16 x i32] undef, align 4

define void @scaled(ptr align 4 %0, ptr align 4 %1, float %2, i32 %3) {
  %g.i.i = call i32 @__facet_group_id(i32 0)
  %s.i.i = call i32 @__facet_group_size(i32 0)
  %l.i.i = call i32 @__facet_local_id(i32 0)
  %o.i.i = call i32 @__facet_offset(i32 0)
  %a.i.i = mul nuw nsw i32 %g.i.i, %s.i.i
  %b.i.i = add nuw nsw i32 %a.i.i, %o.i.i
  %c.i.i = add nuw nsw i32 %b.i.i, %l.i.i
  %5 = icmp slt i32 %c.i.i, %3
  br i1 %5, label %6, label %__clang_ocl_kern_imp_scaled.exit

6:
  %7 = sext i32 %c.i.i to i64
  %8 = getelementptr inbounds float, ptr %0, i64 %7
  %9 = load float, ptr %8, align 4
  %10 = getelementptr inbounds float, ptr %1, i64 %7
  %11 = load float, ptr %10, align 4
  %12 = call float @llvm.fmuladd.f32(float %2, float %9, float %11)
  store float %12, ptr %10, align 4
  br label %__clang_ocl_kern_imp_scaled.exit

__clang_ocl_kern_imp_scaled.exit:
  ret void
}

declare float @llvm.fmuladd.f32(float, float, float)

define void @sums(ptr align 4 %0, ptr align 4 %1, ptr align 4 %2) {
  %l.i.i = call i32 @__facet_local_id(i32 0)
  %l.i1.i = call i32 @__facet_group_size(i32 0)
  %g.i.i = call i32 @__facet_group_id(i32 0)
  %s.i.i = call i32 @__facet_group_size(i32 0)
  %l.i3.i = call i32 @__facet_local_id(i32 0)
  %o.i.i = call i32 @__facet_offset(i32 0)
  %a.i.i = mul nuw nsw i32 %g.i.i, %s.i.i
  %b.i.i = add nuw nsw i32 %a.i.i, %o.i.i
  %c.i.i = add nuw nsw i32 %b.i.i, %l.i3.i
  %r.i4.i = zext nneg i32 %c.i.i to i64
  %4 = getelementptr inbounds nuw i32, ptr %0, i64 %r.i4.i
  %5 = load i32, ptr %4, align 4
  %6 = sext i32 %l.i.i to i64
  %7 = getelementptr inbounds i32, ptr %2, i64 %6
  store i32 %5, ptr %7, align 4
  call void @__facet_barrier()
  br label %8

8:
  %.0 = phi i32 [ 1, %3 ], [ %21, %17 ]
  %9 = icmp slt i32 %.0, %l.i1.i
  br i1 %9, label %10, label %__clang_ocl_kern_imp_sums.exit

10:
  %11 = icmp sge i32 %l.i.i, %.0
  br i1 %11, label %12, label %17

12:
  %13 = sub nsw i32 %l.i.i, %.0
  %14 = sext i32 %13 to i64
  %15 = getelementptr inbounds i32, ptr %2, i64 %14
  %16 = load i32, ptr %15, align 4
  br label %17

17:
  %18 = phi i32 [ %16, %12 ], [ 0, %10 ]
  call void @__facet_barrier()
  %19 = load i32, ptr %7, align 4
  %20 = add nsw i32 %19, %18
  store i32 %20, ptr %7, align 4
  call void @__facet_barrier()
  %21 = mul nsw i32 %.0, 2
  br label %8

__clang_ocl_kern_imp_sums.exit:
  %22 = load i32, ptr %7, align 4
  %g.i5.i = call i32 @__facet_group_id(i32 0)
  %s.i6.i = call i32 @__facet_group_size(i32 0)
  %l.i7.i = call i32 @__facet_local_id(i32 0)
  %o.i8.i = call i32 @__facet_offset(i32 0)
  %a.i9.i = mul nuw nsw i32 %g.i5.i, %s.i6.i
  %b.i10.i = add nuw nsw i32 %a.i9.i, %o.i8.i
  %c.i11.i = add nuw nsw i32 %b.i10.i, %l.i7.i
  %r.i12.i = zext nneg i32 %c.i11.i to i64
  %23 = getelementptr inbounds nuw i32, ptr %1, i64 %r.i12.i
  store i32 %22, ptr %23, align 4
  ret void
}

define void @steps(ptr align 4 %0, ptr align 4 %1) {
  %g.i.i = call i32 @__facet_group_id(i32 0)
  %s.i.i = call i32 @__facet_group_size(i32 0)
  %l.i.i = call i32 @__facet_local_id(i32 0)
  %o.i.i = call i32 @__facet_offset(i32 0)
  %a.i.i = mul nuw nsw i32 %g.i.i, %s.i.i
  %b.i.i = add nuw nsw i32 %a.i.i, %o.i.i
  %c.i.i = add nuw nsw i32 %b.i.i, %l.i.i
  %3 = zext i32 %c.i.i to i64
  %4 = getelementptr inbounds nuw i32, ptr %0, i64 %3
  %5 = load i32, ptr %4, align 4
  br label %6

6:
  %.016 = phi i32 [ 0, %2 ], [ %13, %16 ], [ %spec.select, %19 ]
  %.0 = phi i32 [ %5, %2 ], [ %18, %16 ], [ %20, %19 ]
  %7 = icmp ne i32 %.0, 1
  br i1 %7, label %8, label %__clang_ocl_kern_imp_steps.exit

8:
  %9 = icmp ugt i32 %.016, 90
  br i1 %9, label %10, label %12

10:
  %11 = add i32 %.016, 1000
  br label %__clang_ocl_kern_imp_steps.exit

12:
  %13 = add i32 %.016, 1
  %14 = and i32 %.0, 1
  %15 = icmp ne i32 %14, 0
  br i1 %15, label %16, label %19

16:
  %17 = mul i32 3, %.0
  %18 = add i32 %17, 1
  br label %6

19:
  %20 = udiv i32 %.0, 2
  %21 = add i32 %c.i.i, 3
  %22 = urem i32 %20, %21
  %23 = icmp eq i32 %22, 5
  %24 = add i32 %13, 7
  %spec.select = select i1 %23, i32 %24, i32 %13
  br label %6

__clang_ocl_kern_imp_steps.exit:
  %.2 = phi i32 [ %11, %10 ], [ %.016, %6 ]
  %25 = getelementptr inbounds nuw i32, ptr %1, i64 %3
  store i32 %.2, ptr %25, align 4
  ret void
}

define void @sorted(ptr align 4 %0, ptr align 4 %1) {
  %3 = alloca [8 x i32], align 4
  call void @llvm.lifetime.start.p0(i64 -1, ptr %3)
  %g.i.i = call i32 @__facet_group_id(i32 0)
  %s.i.i = call i32 @__facet_group_size(i32 0)
  %l.i.i = call i32 @__facet_local_id(i32 0)
  %o.i.i = call i32 @__facet_offset(i32 0)
  %a.i.i = mul nuw nsw i32 %g.i.i, %s.i.i
  %b.i.i = add nuw nsw i32 %a.i.i, %o.i.i
  %c.i.i = add nuw nsw i32 %b.i.i, %l.i.i
  br label %4

4:
  %.0 = phi i32 [ 0, %2 ], [ %14, %6 ]
  %5 = icmp slt i32 %.0, 8
  br i1 %5, label %6, label %15

6:
  %7 = mul nsw i32 %c.i.i, 8
  %8 = add nsw i32 %7, %.0
  %9 = sext i32 %8 to i64
  %10 = getelementptr inbounds i32, ptr %0, i64 %9
  %11 = load i32, ptr %10, align 4
  %12 = sext i32 %.0 to i64
  %13 = getelementptr inbounds [8 x i32], ptr %3, i64 0, i64 %12
  store i32 %11, ptr %13, align 4
  %14 = add nsw i32 %.0, 1
  br label %4

15:
  %.025 = phi i32 [ %40, %.critedge ], [ 1, %4 ]
  %16 = icmp slt i32 %.025, 8
  br i1 %16, label %17, label %41

17:
  %18 = sext i32 %.025 to i64
  %19 = getelementptr inbounds [8 x i32], ptr %3, i64 0, i64 %18
  %20 = load i32, ptr %19, align 4
  %21 = sub nsw i32 %.025, 1
  br label %22

22:
  %.027 = phi i32 [ %21, %17 ], [ %36, %29 ]
  %23 = icmp sge i32 %.027, 0
  br i1 %23, label %24, label %.critedge

24:
  %25 = sext i32 %.027 to i64
  %26 = getelementptr inbounds [8 x i32], ptr %3, i64 0, i64 %25
  %27 = load i32, ptr %26, align 4
  %28 = icmp sgt i32 %27, %20
  br i1 %28, label %29, label %.critedge

29:
  %30 = sext i32 %.027 to i64
  %31 = getelementptr inbounds [8 x i32], ptr %3, i64 0, i64 %30
  %32 = load i32, ptr %31, align 4
  %33 = add nsw i32 %.027, 1
  %34 = sext i32 %33 to i64
  %35 = getelementptr inbounds [8 x i32], ptr %3, i64 0, i64 %34
  store i32 %32, ptr %35, align 4
  %36 = add nsw i32 %.027, -1
  br label %22

.critedge:
  %37 = add nsw i32 %.027, 1
  %38 = sext i32 %37 to i64
  %39 = getelementptr inbounds [8 x i32], ptr %3, i64 0, i64 %38
  store i32 %20, ptr %39, align 4
  %40 = add nsw i32 %.025, 1
  br label %15

41:
  %.026 = phi i32 [ %51, %43 ], [ 0, %15 ]
  %42 = icmp slt i32 %.026, 8
  br i1 %42, label %43, label %__clang_ocl_kern_imp_sorted.exit

43:
  %44 = sext i32 %.026 to i64
  %45 = getelementptr inbounds [8 x i32], ptr %3, i64 0, i64 %44
  %46 = load i32, ptr %45, align 4
  %47 = mul nsw i32 %c.i.i, 8
  %48 = add nsw i32 %47, %.026
  %49 = sext i32 %48 to i64
  %50 = getelementptr inbounds i32, ptr %1, i64 %49
  store i32 %46, ptr %50, align 4
  %51 = add nsw i32 %.026, 1
  br label %41

__clang_ocl_kern_imp_sorted.exit:
  call void @llvm.lifetime.end.p0(i64 -1, ptr %3)
  ret void
}

define void @counts(ptr align 4 %0, ptr align 4 %1, ptr align 4 %2) {
  %l.i.i = call i32 @__facet_local_id(i32 0)
  br label %4

4:
  %.0 = phi i32 [ %l.i.i, %3 ], [ %10, %6 ]
  %5 = icmp ult i32 %.0, 16
  br i1 %5, label %6, label %11

6:
  %7 = zext i32 %.0 to i64
  %8 = getelementptr inbounds nuw [16 x i32], ptr @__facet_local.counts.h, i64 0, i64 %7
  store i32 0, ptr %8, align 4
  %l.i1.i = call i32 @__facet_group_size(i32 0)
  %r.i2.i = zext nneg i32 %l.i1.i to i64
  %9 = add i64 %7, %r.i2.i
  %10 = trunc i64 %9 to i32
  br label %4

11:
  call void @__facet_barrier()
  %g.i.i = call i32 @__facet_group_id(i32 0)
  %s.i.i = call i32 @__facet_group_size(i32 0)
  %l.i3.i = call i32 @__facet_local_id(i32 0)
  %o.i.i = call i32 @__facet_offset(i32 0)
  %a.i.i = mul nuw nsw i32 %g.i.i, %s.i.i
  %b.i.i = add nuw nsw i32 %a.i.i, %o.i.i
  %c.i.i = add nuw nsw i32 %b.i.i, %l.i3.i
  %r.i4.i = zext nneg i32 %c.i.i to i64
  %12 = getelementptr inbounds nuw i32, ptr %0, i64 %r.i4.i
  %13 = load i32, ptr %12, align 4
  %14 = icmp ne i32 %13, 3
  br i1 %14, label %15, label %20

15:
  %16 = and i32 %13, 15
  %17 = zext i32 %16 to i64
  %18 = getelementptr inbounds nuw [16 x i32], ptr @__facet_local.counts.h, i64 0, i64 %17
  %r.i5.i = atomicrmw add ptr %18, i32 1 monotonic, align 4
  %19 = atomicrmw max ptr %2, i32 %r.i5.i monotonic, align 4
  br label %20

20:
  call void @__facet_barrier()
  br label %21

21:
  %.017 = phi i32 [ %l.i.i, %20 ], [ %29, %23 ]
  %22 = icmp ult i32 %.017, 16
  br i1 %22, label %23, label %__clang_ocl_kern_imp_counts.exit

23:
  %24 = zext i32 %.017 to i64
  %25 = getelementptr inbounds nuw i32, ptr %1, i64 %24
  %26 = getelementptr inbounds nuw [16 x i32], ptr @__facet_local.counts.h, i64 0, i64 %24
  %27 = load i32, ptr %26, align 4
  %r.i6.i = atomicrmw add ptr %25, i32 %27 monotonic, align 4
  %l.i7.i = call i32 @__facet_group_size(i32 0)
  %r.i8.i = zext nneg i32 %l.i7.i to i64
  %28 = add i64 %24, %r.i8.i
  %29 = trunc i64 %28 to i32
  br label %21

__clang_ocl_kern_imp_counts.exit:
  ret void
}

define void @rotated(ptr align 4 %0, ptr align 4 %1, ptr align 4 %2, i32 %3) {
  %5 = alloca [4 x i32], align 4
  call void @llvm.lifetime.start.p0(i64 -1, ptr %5)
  %l.i.i = call i32 @__facet_local_id(i32 1)
  %r.i.i = zext nneg i32 %l.i.i to i64
  %l.i1.i = call i32 @__facet_group_size(i32 0)
  %r.i2.i = zext nneg i32 %l.i1.i to i64
  %6 = mul i64 %r.i.i, %r.i2.i
  %l.i3.i = call i32 @__facet_local_id(i32 0)
  %r.i4.i = zext nneg i32 %l.i3.i to i64
  %7 = add i64 %6, %r.i4.i
  %8 = trunc i64 %7 to i32
  %l.i5.i = call i32 @__facet_group_size(i32 0)
  %r.i6.i = zext nneg i32 %l.i5.i to i64
  %l.i7.i = call i32 @__facet_group_size(i32 1)
  %r.i8.i = zext nneg i32 %l.i7.i to i64
  %9 = mul i64 %r.i6.i, %r.i8.i
  %10 = trunc i64 %9 to i32
  %l.i9.i = call i32 @__facet_group_id(i32 1)
  %r.i10.i = zext nneg i32 %l.i9.i to i64
  %l.i11.i = call i32 @__facet_grid(i32 0)
  %r.i12.i = zext nneg i32 %l.i11.i to i64
  %11 = mul i64 %r.i10.i, %r.i12.i
  %l.i13.i = call i32 @__facet_group_id(i32 0)
  %r.i14.i = zext nneg i32 %l.i13.i to i64
  %12 = add i64 %11, %r.i14.i
  %13 = sext i32 %10 to i64
  %14 = mul i64 %12, %13
  %15 = sext i32 %8 to i64
  %16 = add i64 %14, %15
  %17 = trunc i64 %16 to i32
  br label %18

18:
  %.033 = phi i32 [ 0, %4 ], [ %24, %20 ]
  %19 = icmp slt i32 %.033, 4
  br i1 %19, label %20, label %30

20:
  %21 = sext i32 %17 to i64
  %22 = getelementptr inbounds i32, ptr %0, i64 %21
  %23 = load i32, ptr %22, align 4
  %24 = add nsw i32 %.033, 1
  %25 = mul nsw i32 %23, %24
  %26 = add nsw i32 %.033, %8
  %27 = and i32 %26, 3
  %28 = sext i32 %27 to i64
  %29 = getelementptr inbounds [4 x i32], ptr %5, i64 0, i64 %28
  store i32 %25, ptr %29, align 4
  br label %18

30:
  %.034 = phi i32 [ %55, %54 ], [ 0, %18 ]
  %.0 = phi i32 [ %45, %54 ], [ 0, %18 ]
  %31 = icmp slt i32 %.034, %3
  br i1 %31, label %32, label %__clang_ocl_kern_imp_rotated.exit

32:
  %33 = add nsw i32 %.034, %8
  %34 = and i32 %33, 3
  %35 = sext i32 %34 to i64
  %36 = getelementptr inbounds [4 x i32], ptr %5, i64 0, i64 %35
  %37 = load i32, ptr %36, align 4
  %38 = add nsw i32 %37, %.0
  %39 = getelementptr inbounds i32, ptr %2, i64 %15
  store i32 %38, ptr %39, align 4
  call void @__facet_barrier()
  %40 = add nsw i32 %33, 1
  %41 = srem i32 %40, %10
  %42 = sext i32 %41 to i64
  %43 = getelementptr inbounds i32, ptr %2, i64 %42
  %44 = load i32, ptr %43, align 4
  %45 = add nsw i32 %.0, %44
  call void @__facet_barrier()
  %46 = and i32 %.034, 1
  %47 = icmp ne i32 %46, 0
  br i1 %47, label %48, label %54

48:
  %49 = and i32 %.034, 3
  %50 = sext i32 %49 to i64
  %51 = getelementptr inbounds [4 x i32], ptr %5, i64 0, i64 %50
  store i32 %45, ptr %51, align 4
  %52 = icmp sgt i32 %.034, 5
  br i1 %52, label %53, label %54

53:
  call void @__facet_barrier()
  br label %54

54:
  %55 = add nsw i32 %.034, 1
  br label %30

__clang_ocl_kern_imp_rotated.exit:
  %56 = and i32 %8, 3
  %57 = sext i32 %56 to i64
  %58 = getelementptr inbounds [4 x i32], ptr %5, i64 0, i64 %57
  %59 = load i32, ptr %58, align 4
  %60 = add nsw i32 %.0, %59
  %61 = sext i32 %17 to i64
  %62 = getelementptr inbounds i32, ptr %1, i64 %61
  store i32 %60, ptr %62, align 4
  call void @llvm.lifetime.end.p0(i64 -1, ptr %5)
  ret void
}

define void @parted(ptr align 4 %0) {
  %l.i.i = call i32 @__facet_local_id(i32 0)
  %2 = and i32 %l.i.i, 1
  %3 = icmp ne i32 %2, 0
  br i1 %3, label %4, label %9

4:
  %5 = sext i32 %l.i.i to i64
  %6 = getelementptr inbounds i32, ptr %0, i64 %5
  store i32 %l.i.i, ptr %6, align 4
  call void @__facet_barrier()
  %7 = load i32, ptr %6, align 4
  %8 = add nsw i32 %7, 1
  store i32 %8, ptr %6, align 4
  br label %__clang_ocl_kern_imp_parted.exit

9:
  %10 = sub nsw i32 0, %l.i.i
  %11 = sext i32 %l.i.i to i64
  %12 = getelementptr inbounds i32, ptr %0, i64 %11
  store i32 %10, ptr %12, align 4
  br label %__clang_ocl_kern_imp_parted.exit

__clang_ocl_kern_imp_parted.exit:
  ret void
}

define void @asked(ptr align 4 %0, i32 %1) {
  %g.i.i = call i32 @__facet_group_id(i32 %1)
  %s.i.i = call i32 @__facet_group_size(i32 %1)
  %l.i.i = call i32 @__facet_local_id(i32 %1)
  %o.i.i = call i32 @__facet_offset(i32 %1)
  %a.i.i = mul nuw nsw i32 %g.i.i, %s.i.i
  %b.i.i = add nuw nsw i32 %a.i.i, %o.i.i
  %c.i.i = add nuw nsw i32 %b.i.i, %l.i.i
  %r.i.i = zext nneg i32 %c.i.i to i64
  %l.i1.i = call i32 @__facet_group_size(i32 %1)
  %r.i2.i = zext nneg i32 %l.i1.i to i64
  %3 = mul i64 10, %r.i2.i
  %4 = add i64 %r.i.i, %3
  %l.i3.i = call i32 @__facet_grid(i32 %1)
  %r.i4.i = zext nneg i32 %l.i3.i to i64
  %5 = mul i64 1000, %r.i4.i
  %6 = add i64 %4, %5
  %7 = trunc i64 %6 to i32
  %g.i5.i = call i32 @__facet_group_id(i32 0)
  %s.i6.i = call i32 @__facet_group_size(i32 0)
  %l.i7.i = call i32 @__facet_local_id(i32 0)
  %o.i8.i = call i32 @__facet_offset(i32 0)
  %a.i9.i = mul nuw nsw i32 %g.i5.i, %s.i6.i
  %b.i10.i = add nuw nsw i32 %a.i9.i, %o.i8.i
  %c.i11.i = add nuw nsw i32 %b.i10.i, %l.i7.i
  %r.i12.i = zext nneg i32 %c.i11.i to i64
  %8 = getelementptr inbounds nuw i32, ptr %0, i64 %r.i12.i
  store i32 %7, ptr %8, align 4
  ret void
}

define void @divided(ptr align 4 %0, ptr align 4 %1) {
  %g.i.i = call i32 @__facet_group_id(i32 0)
  %s.i.i = call i32 @__facet_group_size(i32 0)
  %l.i.i = call i32 @__facet_local_id(i32 0)
  %o.i.i = call i32 @__facet_offset(i32 0)
  %a.i.i = mul nuw nsw i32 %g.i.i, %s.i.i
  %b.i.i = add nuw nsw i32 %a.i.i, %o.i.i
  %c.i.i = add nuw nsw i32 %b.i.i, %l.i.i
  %3 = sext i32 %c.i.i to i64
  %4 = getelementptr inbounds i32, ptr %0, i64 %3
  %5 = load i32, ptr %4, align 4
  %6 = icmp ne i32 %5, 0
  br i1 %6, label %7, label %12

7:
  %8 = sdiv i32 1000, %5
  %9 = srem i32 1000, %5
  %10 = add nsw i32 %8, %9
  %11 = getelementptr inbounds i32, ptr %1, i64 %3
  store i32 %10, ptr %11, align 4
  br label %__clang_ocl_kern_imp_divided.exit

12:
  %13 = getelementptr inbounds i32, ptr %1, i64 %3
  store i32 -1, ptr %13, align 4
  br label %__clang_ocl_kern_imp_divided.exit

__clang_ocl_kern_imp_divided.exit:
  ret void
}

define void @inside(ptr align 4 %0, ptr align 4 %1, i32 %2, i32 %3) {
  %i = call i32 @__facet_global_id(i32 0)
  %count = sub i32 %3, %2
  %place = sub i32 %i, %2
  %in = icmp ult i32 %place, %count
  br i1 %in, label %5, label %7

5:
  %left = add nsw i32 %i, -1
  %left.w = sext i32 %left to i64
  %left.p = getelementptr i32, ptr %0, i64 %left.w
  %a = load i32, ptr %left.p, align 4
  %right = add nsw i32 %i, 1
  %right.w = sext i32 %right to i64
  %right.p = getelementptr i32, ptr %0, i64 %right.w
  %b = load i32, ptr %right.p, align 4
  %i.w = sext i32 %i to i64
  %pair.p = getelementptr { i32, i32 }, ptr %0, i64 %i.w
  %c = load i32, ptr %pair.p, align 4
  %second.p = getelementptr { i32, i32 }, ptr %0, i64 %i.w, i32 1
  %d = load i32, ptr %second.p, align 4
  %half = sdiv i32 %i, 2
  %half.w = sext i32 %half to i64
  %half.p = getelementptr i32, ptr %0, i64 %half.w
  %e = load i32, ptr %half.p, align 4
  %low.w = sext i32 %2 to i64
  %low.p = getelementptr i32, ptr %0, i64 %low.w
  %u = load i32, ptr %low.p, align 4
  %odd = or i32 %d, 1
  %q = sdiv i32 1000000, %odd
  %x1 = mul i32 %c, 3
  %x2 = mul i32 %e, 7
  %x3 = add i32 %a, %x1
  %x4 = add i32 %x3, %x2
  %x5 = sub i32 %x4, %b
  %v = add i32 %x5, %q
  %out.p = getelementptr i32, ptr %1, i64 %i.w
  store i32 %v, ptr %out.p, align 4
  br label %7

7:
  %kept = phi i32 [ %v, %5 ], [ -1, %4 ]
  %same = phi i32 [ %u, %5 ], [ 5, %4 ]
  %next = phi i32 [ %right, %5 ], [ 9, %4 ]
  %y1 = mul i32 %same, 11
  %y2 = add i32 %kept, %y1
  %y3 = xor i32 %y2, %next
  %behind = add nsw i32 %i, 4096
  %behind.w = sext i32 %behind to i64
  %behind.p = getelementptr i32, ptr %1, i64 %behind.w
  store i32 %y3, ptr %behind.p, align 4
  ret void
}

declare i32 @__facet_global_id(i32)

declare i32 @__facet_group_id(i32)

declare i32 @__facet_group_size(i32)

declare i32 @__facet_local_id(i32)

declare i32 @__facet_offset(i32)

declare i32 @__facet_grid(i32)

declare void @__facet_barrier()

declare void @llvm.lifetime.start.p0(i64, ptr)

declare void @llvm.lifetime.end.p0(i64, ptr)
