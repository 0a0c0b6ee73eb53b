; SPDX-License-Identifier: Apache-2.0
; The place of a work-item in its launch, and barriers, in terms of what the lowering gives (compile/lower.h).
;
; Owns: 32-bit arithmetic that is marked as never wrapping, and is widened last. Otherwise `int i = get_global_id(0)` is
; a truncated 64-bit number, and the optimizer cannot see that neighbours access neighbouring memory. A launch has at
; most 2^31-1 work-items in each dimension, so the arithmetic never wraps.
; Never: depends on how work-items are run.

target triple = "nvptx64-unknown-unknown"

declare i32 @__facet_local_id(i32) #0
declare i32 @__facet_global_id(i32) #0
declare i32 @__facet_group_id(i32) #0
declare i32 @__facet_group_size(i32) #0
declare i32 @__facet_grid(i32) #0
declare i32 @__facet_global_size(i32) #0
declare i32 @__facet_offset(i32) #0
declare i32 @__facet_dimensions() #0
declare void @__facet_barrier() #2

define i64 @_Z13get_global_idj(i32 %d) #1 {
  %id = call i32 @__facet_global_id(i32 %d)
  %wide = zext nneg i32 %id to i64
  ret i64 %wide
}

define i64 @_Z15get_global_sizej(i32 %d) #1 {
  %size = call i32 @__facet_global_size(i32 %d)
  %wide = zext nneg i32 %size to i64
  ret i64 %wide
}

define i64 @_Z12get_local_idj(i32 %d) #1 {
  %id = call i32 @__facet_local_id(i32 %d)
  %wide = zext nneg i32 %id to i64
  ret i64 %wide
}

define i64 @_Z14get_local_sizej(i32 %d) #1 {
  %size = call i32 @__facet_group_size(i32 %d)
  %wide = zext nneg i32 %size to i64
  ret i64 %wide
}

; All groups of a launch have the same size.
define i64 @_Z23get_enqueued_local_sizej(i32 %d) #1 {
  %size = call i32 @__facet_group_size(i32 %d)
  %wide = zext nneg i32 %size to i64
  ret i64 %wide
}

define i64 @_Z12get_group_idj(i32 %d) #1 {
  %id = call i32 @__facet_group_id(i32 %d)
  %wide = zext nneg i32 %id to i64
  ret i64 %wide
}

define i64 @_Z14get_num_groupsj(i32 %d) #1 {
  %grid = call i32 @__facet_grid(i32 %d)
  %wide = zext nneg i32 %grid to i64
  ret i64 %wide
}

define i64 @_Z17get_global_offsetj(i32 %d) #1 {
  %offset = call i32 @__facet_offset(i32 %d)
  %wide = zext nneg i32 %offset to i64
  ret i64 %wide
}

define i32 @_Z12get_work_dimv() #1 {
  %dimensions = call i32 @__facet_dimensions()
  ret i32 %dimensions
}

define i64 @_Z19get_local_linear_idv() #1 {
  %x = call i32 @__facet_local_id(i32 0)
  %y = call i32 @__facet_local_id(i32 1)
  %z = call i32 @__facet_local_id(i32 2)
  %width = call i32 @__facet_group_size(i32 0)
  %height = call i32 @__facet_group_size(i32 1)
  %planes = mul nuw nsw i32 %z, %height
  %row = add nuw nsw i32 %planes, %y
  %rows = mul nuw nsw i32 %row, %width
  %id = add nuw nsw i32 %rows, %x
  %wide = zext nneg i32 %id to i64
  ret i64 %wide
}

; The call itself orders memory for the compiler: it may read and write anything. The items of a group run on one
; thread, so the processor needs no fence.
define void @_Z7barrierj(i32 %flags) #2 {
  call void @__facet_barrier()
  ret void
}

define void @_Z18work_group_barrierj(i32 %flags) #2 {
  call void @__facet_barrier()
  ret void
}

; x86 keeps the order of loads and the order of stores, so only the compiler must be kept from reordering.
define void @_Z9mem_fencej(i32 %flags) #3 {
  fence syncscope("singlethread") acq_rel
  ret void
}

define void @_Z14read_mem_fencej(i32 %flags) #3 {
  fence syncscope("singlethread") acquire
  ret void
}

define void @_Z15write_mem_fencej(i32 %flags) #3 {
  fence syncscope("singlethread") release
  ret void
}

; A sampler is a pointer whose address is its 32 bits (library.h).
define ptr addrspace(4) @__translate_sampler_initializer(i32 %bits) #1 {
  %wide = zext i32 %bits to i64
  %sampler = inttoptr i64 %wide to ptr addrspace(4)
  ret ptr addrspace(4) %sampler
}

attributes #0 = { nounwind willreturn nosync nocallback nofree speculatable memory(none) }
attributes #1 = { nounwind willreturn nosync nofree norecurse memory(none) }
attributes #2 = { nounwind convergent nocallback }
attributes #3 = { nounwind willreturn }
