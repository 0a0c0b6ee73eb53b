; SPDX-License-Identifier: Apache-2.0
; The place of a work-item in its launch, and barriers, by PTX's special registers.
;
; Owns: the work-item functions. A launch on PTX has no offset, and its number of dimensions is unknown: the last
;       dimension with more than one item counts.
; Never: needs libdevice.

target triple = "nvptx64-unknown-unknown"

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
declare void @llvm.nvvm.barrier0()
declare void @llvm.nvvm.membar.cta()
declare void @llvm.nvvm.membar.gl()

define internal i32 @choose(i32 %d, i32 %x, i32 %y, i32 %z, i32 %none) #0 {
  %is_x = icmp eq i32 %d, 0
  %is_y = icmp eq i32 %d, 1
  %is_z = icmp eq i32 %d, 2
  %after_y = select i1 %is_z, i32 %z, i32 %none
  %after_x = select i1 %is_y, i32 %y, i32 %after_y
  %chosen = select i1 %is_x, i32 %x, i32 %after_x
  ret i32 %chosen
}

define internal i32 @item(i32 %d) #0 {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.tid.z()
  %id = call i32 @choose(i32 %d, i32 %x, i32 %y, i32 %z, i32 0)
  ret i32 %id
}

define internal i32 @group(i32 %d) #0 {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %id = call i32 @choose(i32 %d, i32 %x, i32 %y, i32 %z, i32 0)
  ret i32 %id
}

define internal i32 @size(i32 %d) #0 {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
  %size = call i32 @choose(i32 %d, i32 %x, i32 %y, i32 %z, i32 1)
  ret i32 %size
}

define internal i32 @groups(i32 %d) #0 {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
  %groups = call i32 @choose(i32 %d, i32 %x, i32 %y, i32 %z, i32 1)
  ret i32 %groups
}

define i64 @_Z13get_global_idj(i32 %d) #0 {
  %item = call i32 @item(i32 %d)
  %group = call i32 @group(i32 %d)
  %size = call i32 @size(i32 %d)
  %before = mul nuw nsw i32 %group, %size
  %id = add nuw nsw i32 %before, %item
  %wide = zext nneg i32 %id to i64
  ret i64 %wide
}

define i64 @_Z15get_global_sizej(i32 %d) #0 {
  %groups = call i32 @groups(i32 %d)
  %size = call i32 @size(i32 %d)
  %all = mul nuw nsw i32 %groups, %size
  %wide = zext nneg i32 %all to i64
  ret i64 %wide
}

define i64 @_Z12get_local_idj(i32 %d) #0 {
  %id = call i32 @item(i32 %d)
  %wide = zext nneg i32 %id to i64
  ret i64 %wide
}

define i64 @_Z14get_local_sizej(i32 %d) #0 {
  %size = call i32 @size(i32 %d)
  %wide = zext nneg i32 %size to i64
  ret i64 %wide
}

define i64 @_Z23get_enqueued_local_sizej(i32 %d) #0 {
  %size = call i32 @size(i32 %d)
  %wide = zext nneg i32 %size to i64
  ret i64 %wide
}

define i64 @_Z12get_group_idj(i32 %d) #0 {
  %id = call i32 @group(i32 %d)
  %wide = zext nneg i32 %id to i64
  ret i64 %wide
}

define i64 @_Z14get_num_groupsj(i32 %d) #0 {
  %groups = call i32 @groups(i32 %d)
  %wide = zext nneg i32 %groups to i64
  ret i64 %wide
}

define i64 @_Z17get_global_offsetj(i32 %d) #0 {
  ret i64 0
}

define i32 @_Z12get_work_dimv() #0 {
  %height = call i64 @_Z15get_global_sizej(i32 1)
  %depth = call i64 @_Z15get_global_sizej(i32 2)
  %is_high = icmp ugt i64 %height, 1
  %is_deep = icmp ugt i64 %depth, 1
  %flat = select i1 %is_high, i32 2, i32 1
  %dimensions = select i1 %is_deep, i32 3, i32 %flat
  ret i32 %dimensions
}

define void @_Z7barrierj(i32 %flags) #1 {
  call void @llvm.nvvm.barrier0()
  ret void
}

define void @_Z18work_group_barrierj(i32 %flags) #1 {
  call void @llvm.nvvm.barrier0()
  ret void
}

; CLK_GLOBAL_MEM_FENCE is 2: it orders memory that other groups see, too.
define void @_Z9mem_fencej(i32 %flags) #2 {
  %global = and i32 %flags, 2
  %is_global = icmp ne i32 %global, 0
  br i1 %is_global, label %all, label %own
all:
  call void @llvm.nvvm.membar.gl()
  ret void
own:
  call void @llvm.nvvm.membar.cta()
  ret void
}

define void @_Z14read_mem_fencej(i32 %flags) #2 {
  call void @_Z9mem_fencej(i32 %flags)
  ret void
}

define void @_Z15write_mem_fencej(i32 %flags) #2 {
  call void @_Z9mem_fencej(i32 %flags)
  ret void
}

attributes #0 = { nounwind willreturn nosync nofree norecurse memory(none) }
attributes #1 = { nounwind convergent }
attributes #2 = { nounwind }
