; SPDX-License-Identifier: Apache-2.0
; Owns: the pointers that images and samplers are on the host (library.h): conversions that images.cl cannot express.
; Never: has other functions.

target triple = "nvptx64-unknown-unknown"

define ptr addrspace(1) @__facet_image1d_read_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image1d_buffer_read_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image1d_array_read_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image2d_read_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image2d_array_read_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image3d_read_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image1d_write_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image1d_buffer_write_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image1d_array_write_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image2d_write_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image2d_array_write_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define ptr addrspace(1) @__facet_image3d_write_only(ptr addrspace(1) %image) #0 {
  ret ptr addrspace(1) %image
}

define i32 @__facet_sampler(ptr addrspace(4) %sampler) #0 {
  %wide = ptrtoint ptr addrspace(4) %sampler to i64
  %bits = trunc i64 %wide to i32
  ret i32 %bits
}

attributes #0 = { nounwind willreturn nosync nofree norecurse memory(none) }
