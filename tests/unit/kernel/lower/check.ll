; Kernels for test_lower_check.c. Each access has a source line of its own, by which the test tells the checks apart.
; each makes every kind of access to global memory.  either uses pointers that may be private.
; shared uses local memory and barriers.  wild accesses private variables by indices that are not all inside.
; ends does so with local variables, a local argument, and constants.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
@__facet_local.shared.h = internal global [64 x i32] undef, align 4
@__facet_local.ends.h = internal global [5 x i32] undef, align 4
@__facet_local.ends.g = internal global [3 x i32] undef, align 4
@table = internal constant [5 x i32] [i32 70, i32 71, i32 72, i32 73, i32 74], align 4
@behind = internal constant [5 x i32] [i32 80, i32 81, i32 82, i32 83, i32 84], align 4

define void @each(ptr %in, ptr %out) !dbg !4 {
  %l = call i32 @__facet_local_id(i32 0), !dbg !10
  %i = zext i32 %l to i64, !dbg !10
  %p0 = getelementptr i32, ptr %in, i64 %i, !dbg !10
  %v = load i32, ptr %p0, align 4, !dbg !10
  %p1 = getelementptr i32, ptr %out, i64 %i, !dbg !11
  store i32 %v, ptr %p1, align 4, !dbg !11
  %i2 = add i64 %i, 64
  %p2 = getelementptr i32, ptr %out, i64 %i2, !dbg !12
  %old = atomicrmw add ptr %p2, i32 5 monotonic, align 4, !dbg !12
  %i3 = add i64 %i, 128
  %p3 = getelementptr i32, ptr %out, i64 %i3, !dbg !13
  store i32 %old, ptr %p3, align 4, !dbg !13
  %i4 = add i64 %i, 192
  %p4 = getelementptr i32, ptr %out, i64 %i4, !dbg !14
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %p4, ptr align 4 %p0, i64 4, i1 false), !dbg !14
  %i5 = add i64 %i, 256
  %p5 = getelementptr i32, ptr %out, i64 %i5, !dbg !15
  call void @llvm.memset.p0.i32(ptr align 4 %p5, i8 1, i32 4, i1 false), !dbg !15
  %i6 = add i64 %i, 320
  %p6 = getelementptr i32, ptr %out, i64 %i6, !dbg !16
  %pair = cmpxchg ptr %p6, i32 -7, i32 9 monotonic monotonic, align 4, !dbg !16
  %was = extractvalue { i32, i1 } %pair, 0, !dbg !17
  %i7 = add i64 %i, 384
  %p7 = getelementptr i32, ptr %out, i64 %i7, !dbg !17
  store i32 %was, ptr %p7, align 4, !dbg !17
  ret void, !dbg !17
}

define void @either(ptr %in, ptr %out) !dbg !5 {
  %own = alloca [4 x i32], align 16, !dbg !20
  %slot = alloca ptr, align 8, !dbg !20
  %l = call i32 @__facet_local_id(i32 0), !dbg !20
  %i = zext i32 %l to i64, !dbg !20
  %odd = trunc i32 %l to i1, !dbg !20
  %p0 = getelementptr i32, ptr %out, i64 %i, !dbg !20
  %k = and i64 %i, 3, !dbg !20
  %p1 = getelementptr i32, ptr %own, i64 %k, !dbg !20
  store i32 77, ptr %p1, align 4, !dbg !21
  %p2 = select i1 %odd, ptr %p1, ptr %p0, !dbg !20
  store i32 %l, ptr %p2, align 4, !dbg !22
  store volatile ptr %p2, ptr %slot, align 8, !dbg !21
  %p3 = load volatile ptr, ptr %slot, align 8, !dbg !21
  %v = load i32, ptr %p3, align 4, !dbg !23
  %w = load i32, ptr %p1, align 4, !dbg !21
  %sum = add i32 %v, %w, !dbg !21
  %i4 = add i64 %i, 64
  %p4 = getelementptr i32, ptr %out, i64 %i4, !dbg !24
  store i32 %sum, ptr %p4, align 4, !dbg !24
  ret void, !dbg !24
}

define void @shared(ptr %in, ptr %out) !dbg !6 {
  %l = call i32 @__facet_local_id(i32 0), !dbg !30
  %n = call i32 @__facet_group_size(i32 0), !dbg !30
  %i = zext i32 %l to i64, !dbg !30
  %p0 = getelementptr i32, ptr @__facet_local.shared.h, i64 %i, !dbg !30
  store i32 %l, ptr %p0, align 4, !dbg !30
  call void @__facet_barrier(), !dbg !30
  %old = atomicrmw add ptr @__facet_local.shared.h, i32 1 monotonic, align 4, !dbg !31
  call void @__facet_barrier(), !dbg !31
  %r = sub i32 %n, %l
  %r1 = sub i32 %r, 1
  %ri = zext i32 %r1 to i64
  %p1 = getelementptr i32, ptr @__facet_local.shared.h, i64 %ri, !dbg !32
  %v = load i32, ptr %p1, align 4, !dbg !32
  %p2 = getelementptr i32, ptr %out, i64 %i, !dbg !33
  store i32 %v, ptr %p2, align 4, !dbg !33
  ret void, !dbg !33
}

define void @wild(ptr %in, ptr %out) !dbg !9 {
  %own = alloca [4 x i32], align 16, !dbg !40
  %other = alloca { i32, [7 x i32] }, align 16, !dbg !40
  %l = call i32 @__facet_local_id(i32 0), !dbg !40
  %odd = trunc i32 %l to i1, !dbg !40
  %i = zext i32 %l to i64, !dbg !40
  %k = sub nsw i64 %i, 2, !dbg !40
  %p0 = getelementptr inbounds nuw [4 x i32], ptr %own, i64 0, i64 3, !dbg !40
  store i32 5, ptr %p0, align 4, !dbg !40
  %p1 = getelementptr inbounds nuw { i32, [7 x i32] }, ptr %other, i64 0, i32 1, i64 6, !dbg !40
  store i32 6, ptr %p1, align 4, !dbg !40
  call void @llvm.memset.p0.i32(ptr align 4 %other, i8 0, i32 28, i1 false), !dbg !40
  %p2 = getelementptr inbounds nuw i32, ptr %own, i64 %k, !dbg !40
  store i32 7, ptr %p2, align 4, !dbg !41
  %p3 = select i1 %odd, ptr %own, ptr %other, !dbg !40
  br i1 %odd, label %join, label %even, !dbg !40
even:
  %less = sub i64 %k, 1, !dbg !40
  br label %join, !dbg !40
join:
  %n = phi i64 [ %k, %0 ], [ %less, %even ], !dbg !40
  %p4 = phi ptr [ %own, %0 ], [ %p3, %even ], !dbg !40
  %p5 = getelementptr inbounds i32, ptr %p4, i64 %n, !dbg !40
  %v = load i32, ptr %p5, align 4, !dbg !42
  %p6 = getelementptr i32, ptr %out, i64 %i, !dbg !43
  store i32 %v, ptr %p6, align 4, !dbg !43
  %two = shl i64 %k, 1, !dbg !40
  call void @llvm.memset.p0.i64(ptr align 4 %own, i8 1, i64 %two, i1 false), !dbg !44
  %w = load i32, ptr %own, align 4, !dbg !40
  %i2 = add i64 %i, 64
  %p7 = getelementptr i32, ptr %out, i64 %i2, !dbg !45
  store i32 %w, ptr %p7, align 4, !dbg !45
  ret void, !dbg !45
}

define void @ends(ptr %in, ptr %out, ptr %own) !dbg !50 {
  %l = call i32 @__facet_local_id(i32 0), !dbg !51
  %i = zext i32 %l to i64, !dbg !51
  %odd = trunc i32 %l to i1, !dbg !51
  %k = sub nsw i64 %i, 2, !dbg !51
  %p0 = getelementptr inbounds [5 x i32], ptr @__facet_local.ends.h, i64 0, i64 %k, !dbg !51
  store i32 %l, ptr %p0, align 4, !dbg !52
  %p1 = getelementptr inbounds nuw i32, ptr %own, i64 %k, !dbg !51
  store i32 %l, ptr %p1, align 4, !dbg !53
  %p2 = getelementptr inbounds nuw [5 x i32], ptr @table, i64 0, i64 %k, !dbg !51
  %v = load i32, ptr %p2, align 4, !dbg !54
  %p3 = getelementptr i32, ptr %out, i64 %i, !dbg !51
  store i32 %v, ptr %p3, align 4, !dbg !55
  %q = select i1 %odd, ptr %own, ptr @behind, !dbg !51
  br i1 %odd, label %join, label %even, !dbg !51
even:
  br label %join, !dbg !51
join:
  %r = phi ptr [ @__facet_local.ends.g, %0 ], [ %q, %even ], !dbg !51
  %p4 = getelementptr inbounds i32, ptr %r, i64 %k, !dbg !51
  %w = load i32, ptr %p4, align 4, !dbg !56
  %x = load i32, ptr getelementptr inbounds ([5 x i32], ptr @table, i64 0, i64 4), align 4, !dbg !57
  %y = load i32, ptr getelementptr (i8, ptr @table, i64 20), align 4, !dbg !58
  %sum = add i32 %x, %y, !dbg !51
  %i2 = add i64 %i, 64
  %p5 = getelementptr i32, ptr %out, i64 %i2, !dbg !51
  store i32 %sum, ptr %p5, align 4, !dbg !55
  ret void, !dbg !51
}

declare i32 @__facet_local_id(i32)
declare i32 @__facet_group_size(i32)
declare void @__facet_barrier()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i32(ptr, i8, i32, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, isOptimized: false, runtimeVersion: 0, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "check.cl", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 7, !"Dwarf Version", i32 4}
!4 = distinct !DISubprogram(name: "each", scope: !1, file: !1, line: 9, type: !7, unit: !0, spFlags: DISPFlagDefinition)
!5 = distinct !DISubprogram(name: "either", scope: !1, file: !1, line: 19, type: !7, unit: !0, spFlags: DISPFlagDefinition)
!6 = distinct !DISubprogram(name: "shared", scope: !1, file: !1, line: 29, type: !7, unit: !0, spFlags: DISPFlagDefinition)
!7 = !DISubroutineType(types: !8)
!8 = !{}
!9 = distinct !DISubprogram(name: "wild", scope: !1, file: !1, line: 39, type: !7, unit: !0, spFlags: DISPFlagDefinition)
!10 = !DILocation(line: 10, column: 1, scope: !4)
!11 = !DILocation(line: 11, column: 2, scope: !4)
!12 = !DILocation(line: 12, column: 3, scope: !4)
!13 = !DILocation(line: 13, column: 4, scope: !4)
!14 = !DILocation(line: 14, column: 5, scope: !4)
!15 = !DILocation(line: 15, column: 6, scope: !4)
!16 = !DILocation(line: 16, column: 7, scope: !4)
!17 = !DILocation(line: 17, column: 8, scope: !4)
!20 = !DILocation(line: 20, column: 1, scope: !5)
!21 = !DILocation(line: 21, column: 1, scope: !5)
!22 = !DILocation(line: 22, column: 1, scope: !5)
!23 = !DILocation(line: 23, column: 1, scope: !5)
!24 = !DILocation(line: 24, column: 1, scope: !5)
!30 = !DILocation(line: 30, column: 1, scope: !6)
!31 = !DILocation(line: 31, column: 1, scope: !6)
!32 = !DILocation(line: 32, column: 1, scope: !6)
!33 = !DILocation(line: 33, column: 1, scope: !6)
!40 = !DILocation(line: 40, column: 1, scope: !9)
!41 = !DILocation(line: 41, column: 1, scope: !9)
!42 = !DILocation(line: 42, column: 1, scope: !9)
!43 = !DILocation(line: 43, column: 1, scope: !9)
!44 = !DILocation(line: 44, column: 1, scope: !9)
!45 = !DILocation(line: 45, column: 1, scope: !9)
!50 = distinct !DISubprogram(name: "ends", scope: !1, file: !1, line: 50, type: !7, unit: !0, spFlags: DISPFlagDefinition)
!51 = !DILocation(line: 51, column: 1, scope: !50)
!52 = !DILocation(line: 52, column: 1, scope: !50)
!53 = !DILocation(line: 53, column: 1, scope: !50)
!54 = !DILocation(line: 54, column: 1, scope: !50)
!55 = !DILocation(line: 55, column: 1, scope: !50)
!56 = !DILocation(line: 56, column: 1, scope: !50)
!57 = !DILocation(line: 57, column: 1, scope: !50)
!58 = !DILocation(line: 58, column: 1, scope: !50)
